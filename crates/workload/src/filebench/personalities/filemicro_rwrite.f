# Random writes of 2 KiB within one file of 1 GiB, until 128 MiB are moved.

set $dir=/tmp
set $bytes=128m
set $filesize=1g
set $iosize=2k
set $nthreads=1
set mode quit firstdone

define fileset name=bigfileset,path=$dir,size=$filesize,entries=$nthreads,dirwidth=1024,prealloc=100

define process name=filemicro,instances=1
{
  thread name=worker,memsize=10m,instances=$nthreads
  {
    flowop write name=write1,filename=bigfileset,iosize=$iosize,random
    flowop finishonbytes name=finish,value=$bytes
  }
}

echo "filemicro_rwrite"
run
