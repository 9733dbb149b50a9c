# The personality varmail with the parameters that the artifact of WOFS (OSDI 2025) gives it; README.md has the table.
# The row says how many threads.

set $dir=/tmp
set $nfiles=10000
set $meandirwidth=5000
set $filesize=32k
set $nthreads=1
set $iosize=1m
set $meanappendsize=4k
set $runtime=60

define fileset name=bigfileset,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,prealloc=80

define process name=mailserver,instances=1
{
  thread name=session,memsize=10m,instances=$nthreads
  {
    flowop deletefile name=deletefile1,filename=bigfileset
    flowop createfile name=createfile2,filename=bigfileset,fd=1
    flowop appendfilerand name=appendfilerand2,iosize=$meanappendsize,fd=1
    flowop fsync name=fsyncfile2,fd=1
    flowop closefile name=closefile2,fd=1
    flowop openfile name=openfile3,filename=bigfileset,fd=1
    flowop readwholefile name=readfile3,fd=1,iosize=$iosize
    flowop appendfilerand name=appendfilerand3,iosize=$meanappendsize,fd=1
    flowop fsync name=fsyncfile3,fd=1
    flowop closefile name=closefile3,fd=1
    flowop openfile name=openfile4,filename=bigfileset,fd=1
    flowop readwholefile name=readfile4,fd=1,iosize=$iosize
    flowop closefile name=closefile4,fd=1
  }
}

echo "wo-varmail: $nfiles files, $nthreads threads"
run $runtime
