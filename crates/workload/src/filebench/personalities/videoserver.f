# Video server: 48 viewers stream 32 active videos while one thread replaces passive ones.
#
# The event rate is the bandwidth of all viewers together, in MiB a second: each pays for what it has read itself. The
# videos need about 1.3 TiB: lower filesize.

set $dir=/tmp
set $eventrate=96
set $filesize=10g
set $nthreads=48
set $numactivevids=32
set $numpassivevids=194
set $readiosize=256k
set $writeiosize=1m
set $repintval=10
set $runtime=60

eventgen rate=$eventrate

define fileset name=activevids,path=$dir,size=$filesize,entries=$numactivevids,dirwidth=4,prealloc,paralloc
define fileset name=passivevids,path=$dir,size=$filesize,entries=$numpassivevids,dirwidth=20,
    prealloc=50,paralloc

define process name=vidwriter,instances=1
{
  thread name=vidwriter,memsize=10m
  {
    flowop deletefile name=vidremover,filename=passivevids
    flowop createfile name=wrtopen,filename=passivevids,fd=1
    flowop writewholefile name=newvid,fd=1,srcfd=1,iosize=$writeiosize
    flowop closefile name=wrtclose,fd=1
    flowop delay name=replaceinterval,value=$repintval
  }
}

define process name=vidreaders,instances=1
{
  thread name=vidreaders,memsize=10m,instances=$nthreads
  {
    flowop read name=vidreader,filename=activevids,iosize=$readiosize
    flowop bwlimit name=serverlimit,target=vidreader
  }
}

echo "videoserver: $numactivevids active and $numpassivevids passive videos of $filesize"
run $runtime
