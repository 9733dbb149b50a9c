# One thread appends to and reads a file of one tree and deletes one of another, until the second tree is
# empty.

set $dir=/tmp
set $nfiles=1000
set $meandirwidth=20
set $filesize=16k
set $iosize=1m
set $meanappendsize=16k
set $nthreads=1
set mode quit firstdone

define fileset name=fileset1,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,
    prealloc=100,paralloc
define fileset name=fileset2,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,
    prealloc=100,paralloc

define process name=mongo,instances=1
{
  thread name=worker,memsize=10m,instances=$nthreads
  {
    flowop openfile name=openfile1,filename=fileset1,fd=1
    flowop appendfilerand name=appendfilerand1,fd=1,iosize=$meanappendsize
    flowop closefile name=closefile1,fd=1
    flowop openfile name=openfile2,filename=fileset1,fd=1
    flowop readwholefile name=readfile1,fd=1,iosize=$iosize
    flowop closefile name=closefile2,fd=1
    flowop deletefile name=deletefile1,filename=fileset2
  }
}

echo "mongo"
run
