# Shows composite flowops: three kinds of threads do the same work on three trees, through one definition.
#
# A composite takes parameters, may use another one, and is repeated as a whole with iters.

set $dir=/tmp
set $nfiles=700
set $meandirwidth=20
set $filesize=128k
set $nthreads=10
set $iosize=1m
set $meanappendsize=16k
set $runtime=60

define fileset name=bigfileset1,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,
    prealloc=80,paralloc
define fileset name=bigfileset2,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,
    prealloc=80,paralloc
define fileset name=bigfileset3,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,
    prealloc=80,paralloc

define flowop name=copyover,$copyset
{
  flowop openfile name=openfile4,filename=$copyset,fd=4
  flowop openfile name=openfile5,filename=$copyset,fd=5
  flowop readwholefile name=readfile4,fd=4,iosize=$iosize
  flowop writewholefile name=wrtfile5,fd=5,srcfd=4,iosize=$iosize
  flowop closefile name=closefile4,fd=4
  flowop closefile name=closefile5,fd=5
}

define flowop name=dofiles,$workset,$copies
{
  flowop createfile name=createfile1,filename=$workset,fd=1
  flowop appendfilerand name=appendfilerand1,iosize=$meanappendsize,fd=1
  flowop closefile name=closefile1,fd=1
  flowop copyover name=copyover1,iters=$copies,$copyset=$workset
  flowop deletefile name=deletefile1,filename=$workset
  flowop statfile name=statfile1,filename=$workset
}

define process name=filecopier,instances=1
{
  thread name=thread1,memsize=10m,instances=$nthreads
  {
    flowop dofiles name=dofiles1,$workset=bigfileset1,$copies=5
  }
  thread name=thread2,memsize=10m,instances=$nthreads
  {
    flowop dofiles name=dofiles2,$workset=bigfileset2,$copies=4
  }
  thread name=thread3,memsize=10m,instances=$nthreads
  {
    flowop dofiles name=dofiles3,$workset=bigfileset3,$copies=3
  }
}

echo "compflow_demo: three times $nthreads threads"
run $runtime
