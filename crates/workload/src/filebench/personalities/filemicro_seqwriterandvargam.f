# Appends 131,072 pieces to an empty file; their sizes are gamma distributed from 1 KiB, with a mean of 5.5
# KiB.

set $dir=/tmp
set $count=128k
set $iosize=randvar(type=gamma,min=1k,mean=5632,gamma=1500)
set $nthreads=1
set mode quit firstdone

define fileset name=bigfileset,path=$dir,size=0,entries=$nthreads,dirwidth=1024,prealloc=100

define process name=filemicro,instances=1
{
  thread name=worker,memsize=10m,instances=$nthreads
  {
    flowop openfile name=openfile1,filename=bigfileset,fd=1
    flowop appendfile name=appendfile1,iosize=$iosize,fd=1,iters=$count
    flowop closefile name=closefile1,fd=1
    flowop finishoncount name=finish,value=1
  }
}

echo "filemicro_seqwriterandvargam"
run
