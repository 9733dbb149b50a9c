# Two processes swing between an empty and a full tree: one creates all files, wakes the other, which
# deletes them.
#
# An event rate above 0 limits the creations a second.

set $dir=/tmp
set $eventrate=0
set $nfiles=1000
set $meandirwidth=1000
set $filesize=500k
set $iosize=1m
set $runtime=60

eventgen rate=$eventrate

define fileset name=swingset,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,dirgamma=0

define flowop name=onefile
{
  flowop createfile name=createfile1,filename=swingset,fd=1
  flowop writewholefile name=wrtfile1,fd=1,iosize=$iosize
  flowop closefile name=closefile1,fd=1
  flowop eventlimit name=ratecontrol
}

define process name=creator,instances=1
{
  thread name=creatorthread,memsize=10m,instances=1
  {
    flowop onefile name=fill,iters=$nfiles
    flowop wakeup name=wakedeleter,target=blockdeleter
    flowop block name=blockcreator
  }
}

define process name=deleter,instances=1
{
  thread name=deleterthread,memsize=10m,instances=1
  {
    flowop block name=blockdeleter
    flowop deletefile name=deletefile1,filename=swingset,iters=$nfiles
    flowop wakeup name=wakecreator,target=blockcreator
  }
}

echo "createdelete-swing: $nfiles files"
run $runtime
