# Creates and writes files of 1 KiB in one directory that holds as many already, and stops after 15,000
# operations.

set $dir=/tmp
set $count=15000
set $nfiles=20000
set $meandirwidth=100000
set $filesize=1k
set $iosize=1m
set $nthreads=1
set mode quit firstdone

define fileset name=bigfileset,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,prealloc=50

define process name=filemicro,instances=1
{
  thread name=worker,memsize=10m,instances=$nthreads
  {
    flowop createfile name=createfile1,filename=bigfileset,fd=1
    flowop writewholefile name=wrtfile1,fd=1,iosize=$iosize
    flowop closefile name=closefile1,fd=1
    flowop finishoncount name=finish,value=$count
  }
}

echo "filemicro_createfiles"
run
