# 65,536 random synchronous writes of 2 KiB within one file of 1 GiB.

set $dir=/tmp
set $count=65536
set $filesize=1g
set $iosize=2k
set $nthreads=1
set mode quit firstdone

define fileset name=bigfileset,path=$dir,size=$filesize,entries=$nthreads,dirwidth=1024,prealloc=100

define process name=filemicro,instances=1
{
  thread name=worker,memsize=10m,instances=$nthreads
  {
    flowop write name=write1,filename=bigfileset,iosize=$iosize,random,dsync
    flowop finishoncount name=finish,value=$count
  }
}

echo "filemicro_rwritedsync"
run
