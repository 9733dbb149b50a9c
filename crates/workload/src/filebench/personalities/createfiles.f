# Sixteen threads create and write 50,000 files of 16 KiB, until all exist.

set $dir=/tmp
set $nfiles=50000
set $meandirwidth=100
set $filesize=16k
set $iosize=1m
set $nthreads=16
set mode quit firstdone

define fileset name=bigfileset,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth

define process name=createfiles,instances=1
{
  thread name=worker,memsize=10m,instances=$nthreads
  {
    flowop createfile name=createfile1,filename=bigfileset,fd=1
    flowop writewholefile name=wrtfile1,fd=1,iosize=$iosize
    flowop closefile name=closefile1,fd=1
  }
}

echo "createfiles"
run
