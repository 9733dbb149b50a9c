# One thread reads one file of 5 GiB from start to end, again and again.

set $dir=/tmp
set $filesize=5g
set $iosize=1m
set $nthreads=1
set $runtime=60

define file name=largefile1,path=$dir,size=$filesize,prealloc,reuse,paralloc

define process name=seqreadproc,instances=1
{
  thread name=seqread,memsize=10m,instances=$nthreads
  {
    flowop read name=seqread1,filename=largefile1,iosize=$iosize
  }
}

echo "singlestreamread: $filesize, I/O of $iosize"
run $runtime
