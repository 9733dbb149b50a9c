# Five threads read a file of 1 GiB each, sequentially past the page cache.

set $dir=/tmp
set $filesize=1g
set $iosize=1m
set $nthreads=1
set $runtime=60

define file name=largefile1,path=$dir,size=$filesize,prealloc,reuse
define file name=largefile2,path=$dir,size=$filesize,prealloc,reuse
define file name=largefile3,path=$dir,size=$filesize,prealloc,reuse
define file name=largefile4,path=$dir,size=$filesize,prealloc,reuse
define file name=largefile5,path=$dir,size=$filesize,prealloc,reuse

define process name=seqreadproc,instances=1
{
  thread name=seqread1,memsize=10m,instances=$nthreads
  {
    flowop read name=stream1,filename=largefile1,iosize=$iosize,directio
  }
  thread name=seqread2,memsize=10m,instances=$nthreads
  {
    flowop read name=stream2,filename=largefile2,iosize=$iosize,directio
  }
  thread name=seqread3,memsize=10m,instances=$nthreads
  {
    flowop read name=stream3,filename=largefile3,iosize=$iosize,directio
  }
  thread name=seqread4,memsize=10m,instances=$nthreads
  {
    flowop read name=stream4,filename=largefile4,iosize=$iosize,directio
  }
  thread name=seqread5,memsize=10m,instances=$nthreads
  {
    flowop read name=stream5,filename=largefile5,iosize=$iosize,directio
  }
}

echo "fivestreamreaddirect: $filesize each, I/O of $iosize"
run $runtime
