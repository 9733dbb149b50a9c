# Random reads of 8 KiB within one file of 5 GiB.
#
# A workingset of 0 means the whole file.

set $dir=/tmp
set $filesize=5g
set $iosize=8k
set $nthreads=1
set $workingset=0
set $runtime=60

define file name=largefile1,path=$dir,size=$filesize,prealloc,reuse,paralloc

define process name=randreadproc,instances=1
{
  thread name=randreadthread,memsize=5m,instances=$nthreads
  {
    flowop read name=randread1,filename=largefile1,iosize=$iosize,random,workingset=$workingset
  }
}

echo "randomread: $filesize, I/O of $iosize"
run $runtime
