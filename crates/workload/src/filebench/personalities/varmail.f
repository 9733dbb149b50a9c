# Mail server with a file for each message, all in one directory: /var/mail.
#
# A message is delivered with a sync, then read, marked with another sync, and read again. Messages are
# appended to and never written whole, so their mean size drifts away from the nominal one. 13 operations a
# loop.
#
# On a fast file system the sixteen threads run out of messages to create within seconds: raise nfiles to
# 10000.

set $dir=/tmp
set $nfiles=1000
set $meandirwidth=1000000
set $filesize=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)
set $nthreads=16
set $iosize=1m
set $meanappendsize=16k
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

echo "varmail: $nfiles files, $nthreads threads"
run $runtime
