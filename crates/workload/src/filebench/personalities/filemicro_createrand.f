# Appends pieces of a random size below 1 MiB, with a sync after each ten, until 1 GiB is written.

set $dir=/tmp
set $bytes=1g
set $count=10
set $iosize=1m
set $nthreads=1
set mode quit firstdone

define fileset name=bigfileset,path=$dir,size=0,entries=$nthreads,dirwidth=1024,prealloc=100

define process name=filemicro,instances=1
{
  thread name=worker,memsize=10m,instances=$nthreads
  {
    flowop appendfilerand name=appendfilerand1,filename=bigfileset,iosize=$iosize,fd=1,iters=$count
    flowop fsync name=fsync1,fd=1
    flowop finishonbytes name=finish,value=$bytes
  }
}

echo "filemicro_createrand"
run
