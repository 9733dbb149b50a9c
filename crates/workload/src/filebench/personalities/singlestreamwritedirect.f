# One thread writes one file sequentially past the page cache.
#
# The file starts with the default size of 1 KiB and grows for the whole run: on a fast medium it needs much
# room.

set $dir=/tmp
set $iosize=1m
set $nthreads=1
set $runtime=60

define fileset name=bigfileset,path=$dir,entries=$nthreads,dirwidth=1024,prealloc=100

define process name=seqwriteproc,instances=1
{
  thread name=seqwrite,memsize=10m,instances=$nthreads
  {
    flowop write name=seqwrite1,filename=bigfileset,iosize=$iosize,directio
  }
}

echo "singlestreamwritedirect: I/O of $iosize"
run $runtime
