# Sixteen threads open and close 50,000 empty files in turn.

set $dir=/tmp
set $nfiles=50000
set $meandirwidth=100
set $nthreads=16
set $runtime=60

define fileset name=bigfileset,path=$dir,size=0,entries=$nfiles,dirwidth=$meandirwidth,prealloc=100

define process name=openfiles,instances=1
{
  thread name=worker,memsize=1m,instances=$nthreads
  {
    flowop openfile name=openfile1,filename=bigfileset,fd=1
    flowop closefile name=closefile1,fd=1
  }
}

echo "openfiles"
run $runtime
