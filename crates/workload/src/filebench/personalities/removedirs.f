# Sixteen threads remove 10,000 empty directories, until there is none left to remove.

set $dir=/tmp
set $ndirs=10000
set $meandirwidth=100
set $nthreads=16
set mode quit firstdone

define fileset name=bigfileset,path=$dir,leafdirs=$ndirs,dirwidth=$meandirwidth,prealloc=100

define process name=removedirs,instances=1
{
  thread name=worker,memsize=10m,instances=$nthreads
  {
    flowop removedir name=removedir1,filename=bigfileset
  }
}

echo "removedirs"
run
