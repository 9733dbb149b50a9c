# Creates one file of 1 GiB by 1024 appends of 1 MiB.

set $dir=/tmp
set $count=1024
set $iosize=1m
set $nthreads=1
set mode quit firstdone

define fileset name=bigfileset,path=$dir,size=0,entries=$nthreads,dirwidth=1024

define process name=filemicro,instances=1
{
  thread name=worker,memsize=10m,instances=$nthreads
  {
    flowop createfile name=createfile1,filename=bigfileset,fd=1
    flowop appendfile name=appendfile1,iosize=$iosize,fd=1,iters=$count
    flowop closefile name=closefile1,fd=1
    flowop finishoncount name=finish,value=1
  }
}

echo "filemicro_create"
run
