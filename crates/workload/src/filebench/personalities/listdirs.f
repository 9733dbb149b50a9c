# Sixteen threads list the directories of a tree of 50,000 empty files in turn.

set $dir=/tmp
set $nfiles=50000
set $meandirwidth=5
set $nthreads=16
set $runtime=60

define fileset name=bigfileset,path=$dir,size=0,entries=$nfiles,dirwidth=$meandirwidth,prealloc=100

define process name=listdirs,instances=1
{
  thread name=worker,memsize=10m,instances=$nthreads
  {
    flowop listdir name=listdir1,filename=bigfileset
  }
}

echo "listdirs"
run $runtime
