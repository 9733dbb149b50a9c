# The personality fileserver with the parameters that the artifact of WOFS (OSDI 2025) gives it; README.md has the table.
# The row says how many threads.

set $dir=/tmp
set $nfiles=10000
set $meandirwidth=20
set $filesize=128k
set $nthreads=1
set $iosize=4k
set $meanappendsize=4k
set $runtime=60

define fileset name=bigfileset,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,prealloc=80

define process name=fileserver,instances=1
{
  thread name=user,memsize=1m,instances=$nthreads
  {
    flowop createfile name=createfile1,filename=bigfileset,fd=1
    flowop writewholefile name=wrtfile1,srcfd=1,fd=1,iosize=$iosize
    flowop closefile name=closefile1,fd=1
    flowop openfile name=openfile1,filename=bigfileset,fd=1
    flowop appendfilerand name=appendfilerand1,iosize=$meanappendsize,fd=1
    flowop closefile name=closefile2,fd=1
    flowop openfile name=openfile2,filename=bigfileset,fd=1
    flowop readwholefile name=readfile1,fd=1,iosize=$iosize
    flowop closefile name=closefile3,fd=1
    flowop deletefile name=deletefile1,filename=bigfileset
    flowop statfile name=statfile1,filename=bigfileset
  }
}

echo "wo-fileserver: $nfiles files, $nthreads threads"
run $runtime
