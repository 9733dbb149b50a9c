# Appends 131,072 pieces of a random size below 8 KiB to an empty file.

set $dir=/tmp
set $count=128k
set $iosize=8k
set $nthreads=1
set mode quit firstdone

define fileset name=bigfileset,path=$dir,size=0,entries=$nthreads,dirwidth=1024,prealloc=100

define process name=filemicro,instances=1
{
  thread name=worker,memsize=10m,instances=$nthreads
  {
    flowop openfile name=openfile1,filename=bigfileset,fd=1
    flowop appendfilerand name=appendfilerand1,iosize=$iosize,fd=1,iters=$count
    flowop closefile name=closefile1,fd=1
    flowop finishoncount name=finish,value=1
  }
}

echo "filemicro_seqwriterand"
run
