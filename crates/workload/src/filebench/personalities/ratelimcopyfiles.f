# One thread copies files of 16 KiB at ten reads and writes a second.

set $dir=/tmp
set $nfiles=1000
set $meandirwidth=20
set $filesize=16k
set $iosize=1m
set $nthreads=1
set $rate=10
set $runtime=60

eventgen rate=$rate

define fileset name=bigfileset,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,prealloc=100
define fileset name=destfiles,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth

define process name=ratelimcopyfiles,instances=1
{
  thread name=worker,memsize=10m,instances=$nthreads
  {
    flowop openfile name=openfile1,filename=bigfileset,fd=1
    flowop readwholefile name=readfile1,fd=1,iosize=$iosize
    flowop createfile name=createfile2,filename=destfiles,fd=2
    flowop writewholefile name=wrtfile2,fd=2,srcfd=1,iosize=$iosize
    flowop closefile name=closefile1,fd=1
    flowop closefile name=closefile2,fd=2
    flowop iopslimit name=limit
  }
}

echo "ratelimcopyfiles"
run $runtime
