//! Block devices: bytes, limits, faults, events, time.

use std::sync::Arc;

use media::block::{BlockDevice, BlockModel, Geometry, Hint, MemoryDevice, Request, WriteFlags};
use media::event::{Counting, TaskId};
use media::fault::{Fault, Target};
use media::{BlockEvent, Event, MediaError, Medium, Storage, Tap};
use parking_lot::Mutex;
use sim::{Bytes, Machine, Nanos, Seed, Setup, TaskSpec};

fn ram(bytes: u64) -> Arc<MemoryDevice> {
    MemoryDevice::ram(Bytes(bytes)).expect("memory")
}

fn sector(fill: u8) -> [u8; 512] {
    [fill; 512]
}

#[test]
fn what_was_written_is_read_and_what_was_discarded_is_zero() {
    let disk = ram(1 << 16);
    disk.write(1024, &sector(7), WriteFlags::default()).expect("in range");
    let mut back = sector(0);
    disk.read(1024, &mut back).expect("in range");
    assert_eq!(back, sector(7));
    disk.discard(1024, 512).expect("in range");
    disk.read(1024, &mut back).expect("in range");
    assert_eq!(back, sector(0));
}

#[test]
fn several_requests_can_be_outstanding() {
    let disk = ram(1 << 16);
    let datas: Vec<_> = (0..8).map(sector).collect();
    let submit = |(index, data)| {
        let flags = WriteFlags { fua: false, hint: Hint::Overwrite };
        disk.submit(Request::Write { off: index as u64 * 512, data, flags })
    };
    let tickets = datas.iter().map(|data| &data[..]).enumerate().map(submit).collect();
    disk.wait_all(tickets).expect("in range");
    let mut back = [0; 8 * 512];
    disk.read(0, &mut back).expect("in range");
    assert!(back.chunks(512).zip(&datas).all(|(back, data)| back == data));
}

#[test]
fn a_request_that_does_not_fit_is_refused_and_says_why() {
    let disk = ram(1 << 16);
    let none = WriteFlags::default();
    assert_eq!(disk.write(100, &sector(1), none), Err(MediaError::Misaligned { offset: 100, align: 512 }));
    let beyond = MediaError::OutOfRange { offset: 1 << 16, len: 512, size: 1 << 16 };
    assert_eq!(disk.write(1 << 16, &sector(1), none), Err(beyond));
    let geometry = Geometry { max_transfer_bytes: 512, discard: false, ..Geometry::memory(Bytes(1 << 16)) };
    let small = MemoryDevice::over(Arc::clone(disk.region()), geometry).expect("fits");
    let long = MediaError::TransferTooLarge { len: 1024, most: 512 };
    assert_eq!(small.write(0, &[0; 1024], none), Err(long));
    assert_eq!(small.discard(0, 512), Err(MediaError::NoDiscard));
}

#[test]
fn the_nth_request_fails_or_is_torn_once_and_a_flush_can_fail_or_be_lost() {
    let disk = ram(1 << 16);
    let counts = Arc::new(Counting::new());
    disk.attach(Arc::clone(&counts) as Arc<dyn Tap>);
    disk.inject(Fault::FailNth { target: Target::Store, nth: 2 });
    let none = WriteFlags::default();
    let write = |fill| disk.write(0, &[fill; 2048], none);
    write(1).expect("the first");
    write(2).expect_err("the second");
    write(3).expect("the third");
    disk.inject(Fault::TearNth { nth: 1, blocks: 3 });
    write(4).expect_err("torn");
    let mut back = [0; 2048];
    disk.read(0, &mut back).expect("in range");
    assert_eq!(back.chunks(512).map(|sector| sector[0]).collect::<Vec<_>>(), [4, 4, 4, 3]);
    disk.inject(Fault::FailNth { target: Target::DeviceFlush, nth: 1 });
    disk.flush().expect_err("a flush that fails says so");
    disk.inject(Fault::DropNth { target: Target::Flush, nth: 1 });
    disk.flush().expect("a lost flush says nothing");
    disk.flush().expect("memory");
    assert_eq!(counts.of(Event::Block(BlockEvent::Flush { id: 0 })), 1);
    assert_eq!(disk.clear_faults(), 4);
    disk.inject(Fault::Poison { offset: 600 });
    assert_eq!(disk.read(512, &mut sector(0)), Err(MediaError::Poisoned { offset: 576 }));
    disk.write(512, &sector(0), none).expect("a write heals");
    disk.read(512, &mut sector(0)).expect("healed");
}

#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Tap for Log {
    fn event(&self, _: TaskId, event: Event<'_>) {
        let Event::Block(event) = event else { return };
        self.0.lock().push(match event {
            BlockEvent::Write { id, off, data, flags } => {
                format!("write {id} {off}+{} fua={} {:?}", data.len(), flags.fua, flags.hint)
            }
            BlockEvent::Discard { id, off, len } => format!("discard {id} {off}+{len}"),
            BlockEvent::Flush { id } => format!("flush {id}"),
            BlockEvent::Complete { id } => format!("complete {id}"),
        });
    }
}

#[test]
fn a_completion_is_told_when_the_submitter_has_waited() {
    let disk = ram(1 << 16);
    let log = Arc::new(Log::default());
    disk.attach(Arc::clone(&log) as Arc<dyn Tap>);
    let flags = WriteFlags { fua: true, hint: Hint::Append { previous_lba: 9 } };
    let first = disk.submit(Request::Write { off: 512, data: &sector(1), flags });
    let second = disk.submit(Request::Flush);
    disk.wait(second).expect("memory");
    disk.wait(first).expect("memory");
    let told = ["write 1 512+512 fua=true Append { previous_lba: 9 }", "flush 2", "complete 2", "complete 1"];
    assert_eq!(*log.0.lock(), told);
}

/// EuroSys 2016, section 5.1: 64 lines of 200 ns each, nothing to read.
#[test]
fn a_page_of_nvmmbd_costs_its_lines_and_a_read_costs_the_copy() {
    let setup = Setup::virtual_clock(Machine::unit(), Seed(1));
    let model = || Medium::named("hinfs").and_then(|medium| medium.build()).expect("a preset");
    let times = sim::run(&setup, move || {
        let disk = MemoryDevice::nvmm(Bytes::mib(1), model()).expect("memory");
        let (start, mut page) = (sim::now(), [1; 4096]);
        disk.write(0, &page, WriteFlags::default()).expect("in range");
        let written = sim::now();
        disk.read(0, &mut page).expect("in range");
        (written.since(start), sim::now().since(written))
    });
    let (write, read) = times.expect("no panic");
    let copy = Nanos(4096);
    assert_eq!(write.since(copy), Nanos(12_800) + Machine::unit().cost(media::charges::STORE_FENCE, 1));
    assert_eq!(read, copy);
}

#[test]
fn storage_says_what_is_missing() {
    let disk = ram(4096);
    let block = Storage::of_block(Arc::clone(&disk) as Arc<dyn BlockDevice>);
    assert_eq!(block.memory().map(drop), Err(MediaError::NoMemory));
    assert!(block.block().is_ok());
    let memory = Storage::of_memory(Arc::clone(disk.region()));
    assert_eq!(memory.block().map(drop), Err(MediaError::NoBlockDevice));
    assert!(memory.with_block(disk).block().is_ok());
}

/// A task that waits for the buffer of the device does not keep the others from it.
#[test]
fn several_tasks_that_find_the_buffer_of_an_ssd_full_all_go_on() {
    let written = sim::run(&Setup::virtual_clock(Machine::unit(), Seed(1)), || {
        let disk = BlockModel::parse("fast24").expect("a preset").build().expect("a device").device;
        let task = |task: u64| {
            let disk = Arc::clone(&disk);
            sim::spawn(TaskSpec::named(format!("task {task}")).on_core(task as u16), move || {
                let mut requests = 0;
                for number in 0..1000 {
                    let off = (task * 1000 + number * 7 % 1000) * 65_536;
                    disk.write(off, &vec![1; 65_536], WriteFlags::default()).expect("in range");
                    requests += 1;
                }
                requests
            })
        };
        let tasks: Vec<_> = (0..4).map(task).collect();
        tasks.into_iter().map(sim::JoinHandle::join).sum::<u64>()
    });
    assert_eq!(written.expect("no task waits for ever"), 4000);
}

/// Small writes that keep the buffer full do not take the room for which a large one waits.
#[test]
fn a_large_write_to_an_ssd_with_a_full_buffer_is_not_overtaken_for_ever() {
    let (large, small) = sim::run(&Setup::virtual_clock(Machine::unit(), Seed(1)), || {
        let disk = BlockModel::parse("fast24").expect("a preset").build().expect("a device").device;
        let task = |task: u64| {
            let disk = Arc::clone(&disk);
            sim::spawn(TaskSpec::named(format!("task {task}")).on_core(task as u16), move || {
                for number in 0..20_000 {
                    let off = (task * 20_000 + number) * 4096;
                    disk.write(off, &[1; 4096], WriteFlags::default()).expect("in range");
                }
                sim::now()
            })
        };
        let tasks: Vec<_> = (0..8).map(task).collect();
        sim::sleep(Nanos::from_millis(20));
        let bytes = disk.geometry().max_transfer_bytes as usize;
        let began = sim::now();
        disk.write(1 << 30, &vec![2; bytes], WriteFlags::default()).expect("in range");
        let large = sim::now().since(began);
        let small = tasks.into_iter().map(sim::JoinHandle::join).max().expect("eight");
        (large, small.since(began))
    })
    .expect("no task waits for ever");
    assert!(large.0 * 20 < small.0, "the large write took {large}, the small ones {small}");
}
