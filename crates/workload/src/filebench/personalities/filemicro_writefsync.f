# Appends 8 KiB 1024 times, then syncs; stops after 128 syncs.

set $dir=/tmp
set $count=1024
set $syncs=128
set $iosize=8k
set $nthreads=1
set mode quit firstdone

define fileset name=bigfileset,path=$dir,size=0,entries=$nthreads,dirwidth=1024,prealloc=100

define process name=filemicro,instances=1
{
  thread name=worker,memsize=10m,instances=$nthreads
  {
    flowop appendfile name=appendfile1,filename=bigfileset,iosize=$iosize,fd=1,iters=$count
    flowop fsync name=fsync1,fd=1
    flowop finishoncount name=finish,value=$syncs,target=fsync1
  }
}

echo "filemicro_writefsync"
run
