# Sixteen threads delete files of 16 KiB, and stop after 1000 operations.

set $dir=/tmp
set $count=1000
set $nfiles=5000
set $meandirwidth=100
set $filesize=16k
set $nthreads=16
set mode quit firstdone

define fileset name=bigfileset,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,prealloc=100

define process name=filemicro,instances=1
{
  thread name=worker,memsize=10m,instances=$nthreads
  {
    flowop deletefile name=deletefile1,filename=bigfileset
    flowop finishoncount name=finish,value=$count
  }
}

echo "filemicro_delete"
run
