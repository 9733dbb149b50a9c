# Sixteen threads make 10,000 empty directories, until there is none left to make.

set $dir=/tmp
set $ndirs=10000
set $meandirwidth=100
set $nthreads=16
set mode quit firstdone

define fileset name=bigfileset,path=$dir,leafdirs=$ndirs,dirwidth=$meandirwidth

define process name=makedirs,instances=1
{
  thread name=worker,memsize=10m,instances=$nthreads
  {
    flowop makedir name=makedir1,filename=bigfileset
  }
}

echo "makedirs"
run
