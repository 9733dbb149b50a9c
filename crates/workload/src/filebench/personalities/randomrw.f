# Random reads and random writes of 8 KiB within one file of 5 GiB, a thread each.
#
# A workingset of 0 means the whole file.

set $dir=/tmp
set $filesize=5g
set $iosize=8k
set $nthreads=1
set $workingset=0
set $runtime=60

define file name=largefile1,path=$dir,size=$filesize,prealloc,reuse,paralloc

define process name=randrwproc,instances=1
{
  thread name=randwritethread,memsize=5m,instances=$nthreads
  {
    flowop write name=randwrite1,filename=largefile1,iosize=$iosize,random,workingset=$workingset
  }
  thread name=randreadthread,memsize=5m,instances=$nthreads
  {
    flowop read name=randread1,filename=largefile1,iosize=$iosize,random,workingset=$workingset
  }
}

echo "randomrw: $filesize, I/O of $iosize"
run $runtime
