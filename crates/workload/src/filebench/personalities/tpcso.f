# The I/O of a database under an order-entry load: thirty files of tables, indices and logs, 175 GiB
# together.
#
# Like oltp, with named files of realistic sizes instead of ten equal ones. Offsets fall into the first 10
# GiB of a file (the working set), or into all of it when it is smaller. All I/O is synchronous and direct.

set $dir=/tmp
set $iosize=2k
set $logiosize=256k
set $ndbwriters=10
set $nshadows=200
set $usermode=20000
set $workingset=10g
set $runtime=60

define file name=warehouse,path=$dir,size=2m,prealloc,reuse,paralloc
define file name=district,path=$dir,size=20m,prealloc,reuse,paralloc
define file name=item,path=$dir,size=100m,prealloc,reuse,paralloc
define file name=neworder,path=$dir,size=600m,prealloc,reuse,paralloc
define file name=history,path=$dir,size=9g,prealloc,reuse,paralloc
define file name=orders,path=$dir,size=7g,prealloc,reuse,paralloc
define file name=orderindex1,path=$dir,size=4g,prealloc,reuse,paralloc
define file name=orderindex2,path=$dir,size=5g,prealloc,reuse,paralloc
define file name=customer1,path=$dir,size=14g,prealloc,reuse,paralloc
define file name=customer2,path=$dir,size=14g,prealloc,reuse,paralloc
define file name=customer3,path=$dir,size=14g,prealloc,reuse,paralloc
define file name=customerindex1,path=$dir,size=2g,prealloc,reuse,paralloc
define file name=customerindex2,path=$dir,size=3g,prealloc,reuse,paralloc
define file name=stock1,path=$dir,size=11g,prealloc,reuse,paralloc
define file name=stock2,path=$dir,size=11g,prealloc,reuse,paralloc
define file name=stock3,path=$dir,size=11g,prealloc,reuse,paralloc
define file name=stockindex,path=$dir,size=2g,prealloc,reuse,paralloc
define file name=orderline,path=$dir,size=44g,prealloc,reuse,paralloc
define file name=orderlineindex,path=$dir,size=6g,prealloc,reuse,paralloc
define file name=historyindex,path=$dir,size=500m,prealloc,reuse,paralloc
define file name=warehouseindex,path=$dir,size=2m,prealloc,reuse,paralloc
define file name=districtindex,path=$dir,size=4m,prealloc,reuse,paralloc
define file name=itemindex,path=$dir,size=20m,prealloc,reuse,paralloc
define file name=neworderindex,path=$dir,size=300m,prealloc,reuse,paralloc
define file name=systemspace,path=$dir,size=800m,prealloc,reuse,paralloc
define file name=auxiliary,path=$dir,size=200m,prealloc,reuse,paralloc
define file name=rollback1,path=$dir,size=4g,prealloc,reuse,paralloc
define file name=rollback2,path=$dir,size=4g,prealloc,reuse,paralloc
define file name=temporary,path=$dir,size=5g,prealloc,reuse,paralloc
define file name=logfile1,path=$dir,size=3g,prealloc,reuse,paralloc

define process name=logwriter,instances=1
{
  thread name=lgwr,memsize=10m
  {
    flowop aiowrite name=lg-write,filename=logfile1,iosize=$logiosize,random,dsync,directio
    flowop aiowait name=lg-aiowait
    flowop semblock name=lg-block,value=3200,highwater=1000
  }
}

define process name=databasewriter,instances=$ndbwriters
{
  thread name=dbwr,memsize=10m
  {
    flowop aiowrite name=write-warehouse,filename=warehouse,fd=1,iosize=$iosize,random,dsync,directio
    flowop aiowrite name=write-district,filename=district,fd=2,iosize=$iosize,random,dsync,directio
    flowop aiowrite name=write-item,filename=item,fd=3,iosize=$iosize,random,dsync,directio
    flowop aiowrite name=write-neworder,filename=neworder,fd=4,iosize=$iosize,random,dsync,directio
    flowop aiowrite name=write-history,filename=history,fd=5,iosize=$iosize,random,dsync,directio
    flowop aiowrite name=write-orders,filename=orders,fd=6,iosize=$iosize,random,dsync,directio
    flowop aiowrite name=write-orderindex1,filename=orderindex1,fd=7,iosize=$iosize,random,dsync,directio
    flowop aiowrite name=write-orderindex2,filename=orderindex2,fd=8,iosize=$iosize,random,dsync,directio
    flowop aiowrite name=write-customer1,filename=customer1,fd=9,iosize=$iosize,random,dsync,
        directio,workingset=$workingset
    flowop aiowrite name=write-customer2,filename=customer2,fd=10,iosize=$iosize,random,dsync,
        directio,workingset=$workingset
    flowop aiowrite name=write-customer3,filename=customer3,fd=11,iosize=$iosize,random,dsync,
        directio,workingset=$workingset
    flowop aiowrite name=write-customerindex1,filename=customerindex1,fd=12,iosize=$iosize,random,
        dsync,directio
    flowop aiowrite name=write-customerindex2,filename=customerindex2,fd=13,iosize=$iosize,random,
        dsync,directio
    flowop aiowrite name=write-stock1,filename=stock1,fd=14,iosize=$iosize,random,dsync,directio,
        workingset=$workingset
    flowop aiowrite name=write-stock2,filename=stock2,fd=15,iosize=$iosize,random,dsync,directio,
        workingset=$workingset
    flowop aiowrite name=write-stock3,filename=stock3,fd=16,iosize=$iosize,random,dsync,directio,
        workingset=$workingset
    flowop aiowrite name=write-stockindex,filename=stockindex,fd=17,iosize=$iosize,random,dsync,directio
    flowop aiowrite name=write-orderline,filename=orderline,fd=18,iosize=$iosize,random,dsync,
        directio,workingset=$workingset
    flowop aiowrite name=write-orderlineindex,filename=orderlineindex,fd=19,iosize=$iosize,random,
        dsync,directio
    flowop aiowrite name=write-historyindex,filename=historyindex,fd=20,iosize=$iosize,random,dsync,directio
    flowop aiowrite name=write-warehouseindex,filename=warehouseindex,fd=21,iosize=$iosize,random,
        dsync,directio
    flowop aiowrite name=write-districtindex,filename=districtindex,fd=22,iosize=$iosize,random,
        dsync,directio
    flowop aiowrite name=write-itemindex,filename=itemindex,fd=23,iosize=$iosize,random,dsync,directio
    flowop aiowrite name=write-neworderindex,filename=neworderindex,fd=24,iosize=$iosize,random,
        dsync,directio
    flowop aiowrite name=write-system,filename=systemspace,fd=25,iosize=$iosize,random,dsync,directio
    flowop aiowrite name=write-auxiliary,filename=auxiliary,fd=26,iosize=$iosize,random,dsync,directio
    flowop aiowrite name=write-rollback1,filename=rollback1,fd=27,iosize=$iosize,random,dsync,directio
    flowop aiowrite name=write-rollback2,filename=rollback2,fd=28,iosize=$iosize,random,dsync,directio
    flowop aiowrite name=write-temporary,filename=temporary,fd=29,iosize=$iosize,random,dsync,directio
    flowop hog name=dbwr-hog,value=10000
    flowop semblock name=dbwr-block,value=1000,highwater=2000
    flowop aiowait name=dbwr-aiowait
  }
}

define process name=shadow,instances=$nshadows
{
  thread name=shadow,memsize=1m,useism
  {
    flowop read name=read-warehouse,filename=warehouse,fd=1,iosize=$iosize,random,dsync,directio
    flowop read name=read-district,filename=district,fd=2,iosize=$iosize,random,dsync,directio
    flowop read name=read-item,filename=item,fd=3,iosize=$iosize,random,dsync,directio
    flowop read name=read-neworder,filename=neworder,fd=4,iosize=$iosize,random,dsync,directio
    flowop read name=read-history,filename=history,fd=5,iosize=$iosize,random,dsync,directio
    flowop read name=read-orders,filename=orders,fd=6,iosize=$iosize,random,dsync,directio
    flowop read name=read-orderindex1,filename=orderindex1,fd=7,iosize=$iosize,random,dsync,directio
    flowop read name=read-orderindex2,filename=orderindex2,fd=8,iosize=$iosize,random,dsync,directio
    flowop read name=read-customer1,filename=customer1,fd=9,iosize=$iosize,random,dsync,directio,
        workingset=$workingset
    flowop read name=read-customer2,filename=customer2,fd=10,iosize=$iosize,random,dsync,directio,
        workingset=$workingset
    flowop read name=read-customer3,filename=customer3,fd=11,iosize=$iosize,random,dsync,directio,
        workingset=$workingset
    flowop read name=read-customerindex1,filename=customerindex1,fd=12,iosize=$iosize,random,dsync,directio
    flowop read name=read-customerindex2,filename=customerindex2,fd=13,iosize=$iosize,random,dsync,directio
    flowop read name=read-stock1,filename=stock1,fd=14,iosize=$iosize,random,dsync,directio,
        workingset=$workingset
    flowop read name=read-stock2,filename=stock2,fd=15,iosize=$iosize,random,dsync,directio,
        workingset=$workingset
    flowop read name=read-stock3,filename=stock3,fd=16,iosize=$iosize,random,dsync,directio,
        workingset=$workingset
    flowop read name=read-stockindex,filename=stockindex,fd=17,iosize=$iosize,random,dsync,directio
    flowop read name=read-orderline,filename=orderline,fd=18,iosize=$iosize,random,dsync,directio,
        workingset=$workingset
    flowop read name=read-orderlineindex,filename=orderlineindex,fd=19,iosize=$iosize,random,dsync,directio
    flowop read name=read-historyindex,filename=historyindex,fd=20,iosize=$iosize,random,dsync,directio
    flowop read name=read-warehouseindex,filename=warehouseindex,fd=21,iosize=$iosize,random,dsync,directio
    flowop read name=read-districtindex,filename=districtindex,fd=22,iosize=$iosize,random,dsync,directio
    flowop read name=read-itemindex,filename=itemindex,fd=23,iosize=$iosize,random,dsync,directio
    flowop read name=read-neworderindex,filename=neworderindex,fd=24,iosize=$iosize,random,dsync,directio
    flowop read name=read-system,filename=systemspace,fd=25,iosize=$iosize,random,dsync,directio
    flowop read name=read-auxiliary,filename=auxiliary,fd=26,iosize=$iosize,random,dsync,directio
    flowop read name=read-rollback1,filename=rollback1,fd=27,iosize=$iosize,random,dsync,directio
    flowop read name=read-rollback2,filename=rollback2,fd=28,iosize=$iosize,random,dsync,directio
    flowop read name=read-temporary,filename=temporary,fd=29,iosize=$iosize,random,dsync,directio
    flowop hog name=shadowhog,value=$usermode
    flowop sempost name=shadow-post-lg,value=1,target=lg-block,blocking
    flowop sempost name=shadow-post-dbwr,value=1,target=dbwr-block,blocking
  }
}

echo "tpcso: $ndbwriters writers, $nshadows shadows"
run $runtime
