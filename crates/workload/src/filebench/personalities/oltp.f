# The I/O of a database: 200 shadow processes read at random, ten writers and a log writer write behind
# them.
#
# Semaphores couple them: a shadow posts once for each read; the writers wait until enough reads were made.
# An event rate above 0 limits the shadows' reads a second.

set $dir=/tmp
set $eventrate=0
set $iosize=2k
set $logiosize=256k
set $nshadows=200
set $ndbwriters=10
set $usermode=200000
set $filesize=10m
set $nfiles=10
set $nlogfiles=1
set $memperthread=1m
set $runtime=60

eventgen rate=$eventrate

define fileset name=datafiles,path=$dir,size=$filesize,entries=$nfiles,dirwidth=1024,prealloc=100,reuse
define fileset name=logfile,path=$dir,size=$filesize,entries=$nlogfiles,dirwidth=1024,prealloc=100,reuse

define process name=lgwr,instances=1
{
  thread name=lgwr,memsize=10m
  {
    flowop aiowrite name=lg-write,filename=logfile,iosize=$logiosize,random,dsync
    flowop aiowait name=lg-aiowait
    flowop semblock name=lg-block,value=3200,highwater=1000
  }
}

define process name=dbwr,instances=$ndbwriters
{
  thread name=dbwr,memsize=10m
  {
    flowop aiowrite name=dbwrite-a,filename=datafiles,iosize=$iosize,iters=100,random,dsync,opennext
    flowop hog name=dbwr-hog,value=10000
    flowop semblock name=dbwr-block,value=1000,highwater=2000
    flowop aiowait name=dbwr-aiowait
  }
}

define process name=shadow,instances=$nshadows
{
  thread name=shadow,memsize=$memperthread,useism
  {
    flowop read name=shadowread,filename=datafiles,iosize=$iosize,random,opennext
    flowop hog name=shadowhog,value=$usermode
    flowop sempost name=shadow-post-lg,value=1,target=lg-block,blocking
    flowop sempost name=shadow-post-dbwr,value=1,target=dbwr-block,blocking
    flowop eventlimit name=random-rate
  }
}

echo "oltp: $nshadows shadows, $ndbwriters writers"
run $runtime
