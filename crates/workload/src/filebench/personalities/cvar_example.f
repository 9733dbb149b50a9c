# Shows custom variables: reads of one file in pieces whose size is drawn from a distribution.
#
# Every place that takes a number takes a distribution too; it is drawn at each use.

set $dir=/tmp
set $filesize=100m
set $iosize=cvar(type=cvar-uniform,parameters=lower:4096;upper:8192)
set $nthreads=1
set $runtime=60

define fileset name=bigfileset,path=$dir,size=$filesize,entries=1,dirwidth=20,prealloc=100

define process name=reader,instances=1
{
  thread name=readerthread,memsize=10m,instances=$nthreads
  {
    flowop openfile name=openfile1,filename=bigfileset,fd=1
    flowop read name=readfile1,iosize=$iosize,fd=1
    flowop closefile name=closefile1,fd=1
  }
}

echo "cvar_example: I/O of $iosize"
run $runtime
