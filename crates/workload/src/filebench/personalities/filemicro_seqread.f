# Reads one file of 1 GiB from start to end in pieces of 1 MiB, again and again.

set $dir=/tmp
set $filesize=1g
set $iosize=1m
set $nthreads=1
set $runtime=60

define fileset name=bigfileset,path=$dir,size=$filesize,entries=$nthreads,dirwidth=1024,prealloc=100

define process name=filemicro,instances=1
{
  thread name=worker,memsize=10m,instances=$nthreads
  {
    flowop read name=read1,filename=bigfileset,iosize=$iosize
  }
}

echo "filemicro_seqread"
run $runtime
