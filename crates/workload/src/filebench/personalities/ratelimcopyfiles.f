# One thread copies 1000 files of 16 KiB, ten a second, until all are copied.

set $dir=/tmp
set $nfiles=1000
set $meandirwidth=20
set $filesize=16k
set $iosize=1m
set $nthreads=1
set $eventrate=10
set mode quit firstdone

eventgen rate=$eventrate

define fileset name=bigfileset,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,prealloc=100
define fileset name=destfiles,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth

define process name=ratelimcopyfiles,instances=1
{
  thread name=worker,memsize=10m,instances=$nthreads
  {
    flowop openfile name=openfile1,filename=bigfileset,fd=1
    flowop readwholefile name=readfile1,fd=1,iosize=$iosize
    flowop createfile name=createfile2,filename=destfiles,fd=2
    flowop writewholefile name=wrtfile2,fd=2,srcfd=1,iosize=$iosize
    flowop closefile name=closefile1,fd=1
    flowop closefile name=closefile2,fd=2
    flowop iopslimit name=limit,target=wrtfile2
  }
}

echo "ratelimcopyfiles"
run
