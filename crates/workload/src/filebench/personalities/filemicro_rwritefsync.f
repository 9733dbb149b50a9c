# 16,384 random writes of 8 KiB within one file of 1 GiB, then one sync.

set $dir=/tmp
set $count=16384
set $filesize=1g
set $iosize=8k
set $nthreads=1
set mode quit firstdone

define fileset name=bigfileset,path=$dir,size=$filesize,entries=$nthreads,dirwidth=1024,prealloc=100

define process name=filemicro,instances=1
{
  thread name=worker,memsize=10m,instances=$nthreads
  {
    flowop write name=write1,filename=bigfileset,iosize=$iosize,random,iters=$count
    flowop fsync name=fsync1
    flowop finishoncount name=finish,value=$count
  }
}

echo "filemicro_rwritefsync"
run
