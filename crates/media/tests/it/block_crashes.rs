//! Which images a crash may leave of a block device: exactly those of an oracle that tries every subset of the writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use media::block::{BlockDevice, Geometry, MemoryDevice, Request, Ticket, WriteFlags};
use media::event::{Event, Mark, Promise, Tap};
use media::nvmm::Region;
use media::nvmm::null::Null;
use media::recorder::{Mode, Plan, Point, Recorder, Rule, SECTOR, Trace};
use rand::RngExt;
use sim::{ByteRun, Bytes, Seed};

const SECTORS: u64 = 4;

fn region() -> Arc<Region> {
    Arc::new(Region::anonymous(Bytes(SECTORS * SECTOR), Box::new(Null)).expect("memory"))
}

/// The first byte of each sector, which is all that these tests write.
type Content = [u8; SECTORS as usize];

/// What happens to a device.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Submits a write of a value to sectors, the first and how many; with FUA or not.
    Write(u64, u64, u8, bool),
    Discard(u64),
    Flush,
    /// Waits for the oldest request that was not waited for.
    Wait,
}

fn random_steps(seed: u64) -> Vec<Step> {
    let mut rng = Seed(seed).derive("block_crashes", 0).rng();
    let mut steps = Vec::new();
    for value in 1..=9 {
        let first = rng.random_range(0..SECTORS);
        steps.push(match rng.random_range(0..10) {
            0..4 => {
                Step::Write(first, rng.random_range(1..=SECTORS - first), value, rng.random_range(0..4) == 0)
            }
            4 => Step::Discard(first),
            5..7 => Step::Flush,
            _ => Step::Wait,
        });
    }
    steps
}

fn carry_out(device: &dyn BlockDevice, steps: &[Step]) -> Vec<Ticket> {
    let mut outstanding = Vec::new();
    for step in steps {
        match *step {
            Step::Write(first, count, value, fua) => {
                let data = vec![value; (count * SECTOR) as usize];
                let flags = WriteFlags { fua, ..WriteFlags::default() };
                outstanding.push(device.submit(Request::Write { off: first * SECTOR, data: &data, flags }));
            }
            Step::Discard(first) => {
                outstanding.push(device.submit(Request::Discard { off: first * SECTOR, len: SECTOR }));
            }
            Step::Flush => outstanding.push(device.submit(Request::Flush)),
            Step::Wait if outstanding.is_empty() => {}
            Step::Wait => device.wait(outstanding.remove(0)).expect("nothing fails"),
        }
    }
    outstanding
}

/// The images by definition: any subset of the sectors that were written, with all that are guaranteed, in the order of
/// submission.
fn oracle(steps: &[Step]) -> BTreeSet<Content> {
    let mut written: Vec<(usize, u64, u8, bool)> = Vec::new();
    let (mut complete, mut covered, mut outstanding) = (BTreeSet::new(), Vec::new(), Vec::new());
    let mut guaranteed = BTreeSet::new();
    for (request, step) in steps.iter().enumerate() {
        match *step {
            Step::Write(first, count, value, fua) => {
                written.extend((first..first + count).map(|sector| (request, sector, value, fua)));
            }
            Step::Discard(first) => written.push((request, first, 0, false)),
            Step::Flush => covered.push((request, complete.clone())),
            Step::Wait if outstanding.is_empty() => continue,
            Step::Wait => {
                let done = outstanding.remove(0);
                complete.insert(done);
                guaranteed
                    .extend(written.iter().filter(|write| write.0 == done && write.3).map(|write| write.0));
                let flushed = covered.iter().filter(|(flush, _)| *flush == done);
                guaranteed.extend(flushed.flat_map(|(_, covered)| covered.clone()));
                continue;
            }
        }
        outstanding.push(request);
    }
    let images = (0..1_u32 << written.len()).filter_map(|subset| {
        let mut content = Content::default();
        for (place, (request, sector, value, _)) in written.iter().enumerate() {
            match subset >> place & 1 {
                1 => content[*sector as usize] = *value,
                _ if guaranteed.contains(request) => return None,
                _ => {}
            }
        }
        Some(content)
    });
    images.collect()
}

fn images(recorder: &Recorder) -> BTreeSet<Content> {
    let point = recorder.crash_point();
    let plan = Plan { exhaustive_max: usize::MAX, ..Plan::default() };
    let image = |choice| {
        let image = point.image(choice);
        let first = |sector: u64| image.line_at(sector * SECTOR)[0];
        for sector in 0..SECTORS {
            let whole =
                (0..SECTOR).step_by(64).all(|at| image.line_at(sector * SECTOR + at) == [first(sector); 64]);
            assert!(whole, "sector {sector} is torn");
        }
        [0, 1, 2, 3].map(first)
    };
    point.choices(&plan).iter().map(image).collect()
}

#[test]
fn a_crash_leaves_exactly_the_subsets_that_contain_what_is_guaranteed() {
    let mut sizes = BTreeSet::new();
    for seed in 0..400 {
        let (steps, device) = (random_steps(seed), MemoryDevice::exposed(region()));
        let recorder = Recorder::attach_block(&*device, Mode::Adr, None).expect("a recorder");
        drop(carry_out(&*device, &steps));
        let (found, expected) = (images(&recorder), oracle(&steps));
        assert_eq!(found, expected, "seed {seed}: {steps:?}");
        sizes.insert(found.len());
    }
    assert!(sizes.len() > 10 && sizes.contains(&1), "the sequences leave one image and many: {sizes:?}");
}

/// Canary: an oracle that takes completion for durability finds other images.
#[test]
fn a_device_that_loses_what_was_not_flushed_differs_from_one_that_does_not() {
    let device = |volatile: bool| {
        let geometry = Geometry::memory(Bytes(SECTORS * SECTOR)).with_volatile_cache(volatile);
        MemoryDevice::over(region(), geometry).expect("a device")
    };
    let steps = [Step::Write(0, 2, 7, false), Step::Wait];
    for (volatile, expected) in [(false, 1), (true, 4)] {
        let device = device(volatile);
        let recorder = Recorder::attach_block(&*device, Mode::Adr, None).expect("a recorder");
        drop(carry_out(&*device, &steps));
        assert_eq!(images(&recorder).len(), expected, "volatile: {volatile}");
    }
}

#[test]
fn a_flush_that_is_dropped_guarantees_nothing() {
    let device = MemoryDevice::exposed(region());
    let recorder = Recorder::attach_block(&*device, Mode::Adr, None).expect("a recorder");
    device.inject(media::fault::Fault::DropNth { target: media::fault::Target::Flush, nth: 1 });
    let steps = [Step::Write(0, 3, 7, false), Step::Wait, Step::Flush, Step::Wait];
    drop(carry_out(&*device, &steps));
    assert_eq!(images(&recorder).len(), 8);
}

#[test]
fn many_sectors_are_tried_in_groups_that_include_each_torn_write() {
    let region = Arc::new(Region::anonymous(Bytes::kib(64), Box::new(Null)).expect("memory"));
    let device = MemoryDevice::exposed(region);
    let recorder = Recorder::attach_block(&*device, Mode::Adr, None).expect("a recorder");
    device.write(0, &[1; 16 * 1024], WriteFlags::default()).expect("written");
    let point = recorder.crash_point();
    assert_eq!(point.units().len(), 4, "a unit for each 4 KiB");
    assert!(point.units().iter().all(|unit| unit.variants() == 7 && unit.lines.len() == 8));
    let sizes: BTreeSet<_> = point
        .choices(&Plan::default())
        .iter()
        .map(|choice| point.image(choice).persisted_lines().len())
        .collect();
    assert!(
        sizes.contains(&0) && sizes.contains(&256) && sizes.contains(&32) && sizes.contains(&56),
        "{sizes:?}"
    );
}

/// A region and a device on it: lines and sectors are in flight at once, and one recorder knows both.
#[test]
fn memory_and_a_device_on_it_are_recorded_together() {
    let region = region();
    let device = MemoryDevice::exposed(Arc::clone(&region));
    let trace = Trace::attach(&region).expect("a trace");
    region.mark(Mark::OpBegin("both"));
    region.store_u64(0, u64::from_le_bytes([5; 8])).expect("stored");
    device.write(SECTOR, &[6; SECTOR as usize], WriteFlags::default()).expect("written");
    region.flush(0, 8);
    region.fence();
    device.flush().expect("flushed");
    region.mark(Mark::OpEnd("both", Promise::All));
    let mut replay = trace.replay(Mode::Adr);
    let mut seen = Vec::new();
    while let Some(point) = replay.next_point(|_, _| ()) {
        let first = |image: &media::recorder::Image| [0, SECTOR].map(|off| image.line_at(off)[0]);
        let point_now = replay.state().crash_point();
        let images: BTreeSet<_> = point_now
            .choices(&Plan::default())
            .iter()
            .map(|choice| first(&point_now.image(choice)))
            .collect();
        seen.push((point, images.into_iter().collect::<Vec<_>>()));
    }
    let expected = vec![
        (Point::BeforeFence, vec![[0, 0], [0, 6], [5, 0], [5, 6]]),
        (Point::AfterFence, vec![[5, 0], [5, 6]]),
        (Point::BeforeFence, vec![[5, 0], [5, 6]]),
        (Point::AfterFence, vec![[5, 6]]),
        (Point::OpEnd, vec![[5, 6]]),
    ];
    assert_eq!(seen, expected);
}

/// Two devices on one region one after the other, as two mounts have, number their requests differently.
#[test]
fn requests_of_a_later_device_are_told_apart_from_those_of_an_earlier_one() {
    let region = region();
    let trace = Trace::attach(&region).expect("a trace");
    for (off, value) in [(0, 1_u8), (SECTOR, 2)] {
        let device = MemoryDevice::exposed(Arc::clone(&region));
        device.write(off, &[value; SECTOR as usize], WriteFlags::default()).expect("written");
    }
    let mut replay = trace.replay(Mode::Adr);
    while replay.next_point(|_, _| ()).is_some() {}
    assert_eq!(replay.state().sectors_in_flight().collect::<Vec<_>>(), [(0, 1), (SECTOR, 1)]);
}

#[test]
fn a_commit_block_that_is_written_before_its_log_is_durable_breaks_the_rule() {
    for flushed in [true, false] {
        let device = MemoryDevice::exposed(region());
        let recorder = Recorder::attach_block(&*device, Mode::Adr, None).expect("a recorder");
        device.write(0, &[1; SECTOR as usize], WriteFlags::default()).expect("written");
        if flushed {
            device.flush().expect("flushed");
        }
        device.port().mark(Mark::Commit { at: SECTOR, needs: &[ByteRun::new(0, SECTOR)] });
        device.write(SECTOR, &[2; SECTOR as usize], WriteFlags::FUA).expect("written");
        let broken = recorder.lints().iter().any(|lint| lint.rule == Rule::CommitOrder);
        assert_eq!(broken, !flushed);
    }
}

/// What a tap hears of an exposed device are requests, never the stores below.
#[test]
fn an_exposed_device_tells_requests_and_no_stores() {
    struct Stores(std::sync::atomic::AtomicU64);
    impl Tap for Stores {
        fn event(&self, _: u32, event: Event<'_>) {
            if matches!(event, Event::Store { .. } | Event::NtStore { .. } | Event::Fence) {
                self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
    }
    let (region, stores) = (region(), Arc::new(Stores(0.into())));
    region.attach(Arc::clone(&stores) as Arc<dyn Tap>);
    let device = MemoryDevice::exposed(Arc::clone(&region));
    device.write(0, &[9; SECTOR as usize], WriteFlags::FUA).expect("written");
    let mut bytes = [0; 8];
    region.load(0, &mut bytes).expect("loaded");
    assert_eq!((bytes, stores.0.load(std::sync::atomic::Ordering::Relaxed)), ([9; 8], 0));
}
