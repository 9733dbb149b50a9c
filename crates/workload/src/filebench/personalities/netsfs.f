# Network file server, from measured distributions of file and I/O sizes, at a given rate of operations.
#
# One turn starts a program (reads three files), edits six files (read, write anew, delete the old), appends
# to three and looks at one. Files are meant to be picked with a preference for low indices; in Filebench
# 1.5 the index is nearly always 0 (a defect which Weir repeats unless told otherwise).

set $dir=/tmp
set $eventrate=10
set $nfiles=100000
set $meandirwidth=20
set $nthreads=1
set $runtime=60

set $wriosize=randvar(type=tabular,min=1k,round=1k,randtable={{50,9k,15k},{14,17k,23k},{14,33k,39k},
    {12,65k,71k},{10,129k,135k}})
set $rdiosize=randvar(type=tabular,min=8k,round=1k,randtable={{85,8k,8k},{8,17k,23k},{4,33k,39k},
    {2,65k,71k},{1,129k,135k}})
set $filesize=randvar(type=tabular,min=1k,round=1k,randtable={{33,1k,1k},{21,1k,3k},{13,3k,5k},
    {10,5k,11k},{8,11k,21k},{5,21k,43k},{4,43k,85k},{3,85k,171k},{2,171k,341k},{1,341k,1707k}})
set $fileidx=randvar(type=gamma,min=0,gamma=100)

eventgen rate=$eventrate

define fileset name=netsfs,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,prealloc=60

define flowop name=rmw,$filesetrmw
{
  flowop openfile name=openfile1,filename=$filesetrmw,indexed=$fileidx,fd=1
  flowop readwholefile name=readfile1,iosize=$rdiosize,fd=1
  flowop createfile name=newfile2,filename=$filesetrmw,indexed=$fileidx,fd=2
  flowop writewholefile name=writefile2,fd=2,iosize=$wriosize,srcfd=1
  flowop closefile name=closefile1,fd=1
  flowop closefile name=closefile2,fd=2
  flowop deletefile name=deletefile1,filename=$filesetrmw,fd=1
}

define flowop name=launch,$filesetlch
{
  flowop openfile name=openfile3,filename=$filesetlch,indexed=$fileidx,fd=3
  flowop readwholefile name=readfile3,iosize=$rdiosize,fd=3
  flowop openfile name=openfile4,filename=$filesetlch,indexed=$fileidx,fd=4
  flowop readwholefile name=readfile4,iosize=$rdiosize,fd=4
  flowop closefile name=closefile3,fd=3
  flowop openfile name=openfile5,filename=$filesetlch,indexed=$fileidx,fd=5
  flowop readwholefile name=readfile5,iosize=$rdiosize,fd=5
  flowop closefile name=closefile4,fd=4
  flowop closefile name=closefile5,fd=5
}

define flowop name=appnd,$filesetapd
{
  flowop openfile name=openfile6,filename=$filesetapd,indexed=$fileidx,fd=6
  flowop appendfilerand name=appendfilerand6,iosize=$wriosize,fd=6
  flowop closefile name=closefile6,fd=6
}

define process name=netclient,instances=1
{
  thread name=fileuser,memsize=10m,instances=$nthreads
  {
    flowop launch name=launch1,iters=1,$filesetlch=netsfs
    flowop rmw name=rmw1,iters=6,$filesetrmw=netsfs
    flowop appnd name=appnd1,iters=3,$filesetapd=netsfs
    flowop statfile name=statfile1,filename=netsfs,indexed=$fileidx
    flowop eventlimit name=ratecontrol
  }
}

echo "netsfs: $nfiles files, $eventrate turns a second"
run $runtime
