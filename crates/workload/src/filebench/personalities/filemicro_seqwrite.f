# Appends 1024 times 1 MiB to an empty file.

set $dir=/tmp
set $count=1024
set $iosize=1m
set $nthreads=1
set mode quit firstdone

define fileset name=bigfileset,path=$dir,size=0,entries=$nthreads,dirwidth=1024,prealloc=100

define process name=filemicro,instances=1
{
  thread name=worker,memsize=10m,instances=$nthreads
  {
    flowop openfile name=openfile1,filename=bigfileset,fd=1
    flowop appendfile name=appendfile1,iosize=$iosize,fd=1,iters=$count
    flowop closefile name=closefile1,fd=1
    flowop finishoncount name=finish,value=1
  }
}

echo "filemicro_seqwrite"
run
