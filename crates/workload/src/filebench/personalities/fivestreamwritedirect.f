# Five threads write a file of 1 GiB each, sequentially past the page cache.
#
# The files grow for the whole run: on a fast medium they need much room.

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

define process name=seqwriteproc,instances=1
{
  thread name=seqwrite1,memsize=10m,instances=$nthreads
  {
    flowop write name=stream1,filename=largefile1,iosize=$iosize,directio
  }
  thread name=seqwrite2,memsize=10m,instances=$nthreads
  {
    flowop write name=stream2,filename=largefile2,iosize=$iosize,directio
  }
  thread name=seqwrite3,memsize=10m,instances=$nthreads
  {
    flowop write name=stream3,filename=largefile3,iosize=$iosize,directio
  }
  thread name=seqwrite4,memsize=10m,instances=$nthreads
  {
    flowop write name=stream4,filename=largefile4,iosize=$iosize,directio
  }
  thread name=seqwrite5,memsize=10m,instances=$nthreads
  {
    flowop write name=stream5,filename=largefile5,iosize=$iosize,directio
  }
}

echo "fivestreamwritedirect: $filesize each, I/O of $iosize"
run $runtime
