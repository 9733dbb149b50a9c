//! The recorder against a naive model written from the definitions (`docs/models/crash.md`), and its
//! images.

use std::collections::BTreeSet;
use std::sync::Arc;

use media::event::{StoreKind, Tap, TaskId};
use media::nvmm::null::Null;
use media::recorder::{
    Choice, CrashPoint, Durability, Image, Mode, Persistency, Plan, Point, Recorder, Scratch, Snapshot,
    Trace, UnitKind,
};
use media::{Event, Mark, MediaError, Promise, Region};
use proptest::prelude::*;
use sim::{ByteRun, Bytes, Seed};

const LEN: u64 = 4 * 64;

fn memory() -> Region {
    Region::anonymous(Bytes(LEN), Box::new(Null)).expect("memory")
}

#[derive(Clone, Debug)]
enum Step {
    Store { off: u64, data: Vec<u8> },
    Word { off: u64, value: u64 },
    Pair { off: u64, value: u64 },
    Nt { off: u64, words: usize, value: u8 },
    Flush { off: u64, len: u64 },
    Fence,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..LEN, 1..40usize, any::<u8>()).prop_map(|(off, len, byte)| {
            let len = len.min((LEN - off) as usize);
            Step::Store { off, data: (0..len).map(|i| byte.wrapping_add(i as u8)).collect() }
        }),
        2 => (0..LEN / 8, any::<u64>()).prop_map(|(word, value)| Step::Word { off: word * 8, value }),
        1 => (0..LEN / 16, any::<u64>()).prop_map(|(pair, value)| Step::Pair { off: pair * 16, value }),
        2 => (0..LEN / 8, 1..12usize, any::<u8>()).prop_map(|(word, words, value)| {
            Step::Nt { off: word * 8, words: words.min((LEN / 8 - word) as usize), value }
        }),
        3 => (0..LEN, 1..100u64).prop_map(|(off, len)| Step::Flush { off, len: len.min(LEN - off) }),
        2 => Just(Step::Fence),
    ]
}

/// A piece as the definition has it: bytes of one line that persist together.
#[derive(Clone, Debug)]
struct Piece {
    line: u64,
    at: Vec<(u64, u8)>,
    nt: bool,
    task: TaskId,
    when: usize,
}

/// The whole history, kept plainly; every question is answered by searching it.
#[derive(Default)]
struct Naive {
    pieces: Vec<Piece>,
    flushes: Vec<(u64, TaskId, usize)>,
    fences: Vec<(TaskId, usize)>,
    clock: usize,
}

impl Naive {
    fn tell(&mut self, task: TaskId, step: &Step) {
        self.clock += 1;
        match step {
            Step::Store { off, data } => self.bytes(task, *off, data, false),
            Step::Word { off, value } => self.bytes(task, *off, &value.to_le_bytes(), false),
            Step::Pair { off, value } => {
                let at = (0..16).map(|i| (off + i, value.to_le_bytes()[(i % 8) as usize])).collect();
                self.pieces.push(Piece { line: off / 64, at, nt: false, task, when: self.clock });
            }
            Step::Nt { off, words, value } => self.bytes(task, *off, &vec![*value; words * 8], true),
            Step::Flush { off, len } => {
                let lines = off / 64..=(off + len - 1) / 64;
                self.flushes.extend(lines.map(|line| (line, task, self.clock)));
            }
            Step::Fence => self.fences.push((task, self.clock)),
        }
    }

    fn bytes(&mut self, task: TaskId, off: u64, data: &[u8], nt: bool) {
        for (index, byte) in data.iter().enumerate() {
            let at = off + index as u64;
            match self.pieces.last_mut().filter(|piece| index > 0 && piece.at[0].0 / 8 == at / 8) {
                Some(piece) => piece.at.push((at, *byte)),
                None => self.pieces.push(Piece {
                    line: at / 64,
                    at: vec![(at, *byte)],
                    nt,
                    task,
                    when: self.clock,
                }),
            }
        }
    }

    fn is_guaranteed(&self, piece: &Piece) -> bool {
        let fenced = |task, after| self.fences.iter().any(|(other, when)| *other == task && *when > after);
        if piece.nt {
            return fenced(piece.task, piece.when);
        }
        let mut flushes = self.flushes.iter();
        flushes.any(|(line, task, when)| *line == piece.line && *when > piece.when && fenced(*task, *when))
    }

    fn apply<'a>(line: u64, pieces: impl Iterator<Item = &'a Piece>) -> [u8; 64] {
        let mut bytes = [0; 64];
        for (at, byte) in pieces.flat_map(|piece| &piece.at) {
            bytes[(at - line * 64) as usize] = *byte;
        }
        bytes
    }

    /// Everything that a crash may leave of a line. None when there are too many ways to list.
    fn allowed(&self, line: u64) -> Option<BTreeSet<[u8; 64]>> {
        let pieces: Vec<(&Piece, bool)> = self
            .pieces
            .iter()
            .filter(|piece| piece.line == line)
            .map(|piece| (piece, self.is_guaranteed(piece)))
            .collect();
        let open: Vec<usize> = (0..pieces.len()).filter(|index| !pieces[*index].1).collect();
        let content = |chosen: &dyn Fn(usize) -> bool| {
            let kept = (0..pieces.len()).filter(|index| pieces[*index].1 || chosen(*index));
            Self::apply(line, kept.map(|index| pieces[index].0))
        };
        let unordered = open.iter().any(|index| pieces[*index].0.nt);
        if !unordered {
            return Some(
                (0..=open.len()).map(|count| content(&|index| open[..count].contains(&index))).collect(),
            );
        }
        (open.len() <= 12).then(|| {
            let subsets = 0..1_u32 << open.len();
            let chosen = |subset: u32| {
                content(&|index| {
                    open.iter().position(|other| *other == index).is_some_and(|bit| subset >> bit & 1 == 1)
                })
            };
            subsets.map(chosen).collect()
        })
    }

    fn is_unordered(&self, line: u64) -> bool {
        self.pieces.iter().any(|piece| piece.line == line && piece.nt && !self.is_guaranteed(piece))
    }
}

/// Tells the recorder's state what two tasks do, and makes the stores in `memory`.
fn tell(state: &mut Persistency, memory: &Region, task: TaskId, step: &Step) {
    match step {
        Step::Store { off, data } => {
            state.apply(task, Event::Store { off: *off, data, kind: StoreKind::Bytes });
            memory.store(*off, data).expect("in range");
        }
        Step::Word { off, value } => {
            state.apply(task, Event::Store { off: *off, data: &value.to_le_bytes(), kind: StoreKind::Word });
            memory.store_u64(*off, *value).expect("in range");
        }
        Step::Pair { off, value } => {
            let data = [value.to_le_bytes(), value.to_le_bytes()].concat();
            state.apply(task, Event::Store { off: *off, data: &data, kind: StoreKind::Pair });
            memory.store_pair(*off, [*value; 2]).expect("in range");
        }
        Step::Nt { off, words, value } => {
            let data = vec![*value; words * 8];
            state.apply(task, Event::NtStore { off: *off, data: &data });
            memory.nt_store(*off, &data).expect("in range");
        }
        Step::Flush { off, len } => state.apply(task, Event::Flush { off: *off, len: *len }),
        Step::Fence => state.apply(task, Event::Fence),
    }
}

fn plan(seed: u64) -> Plan {
    Plan { seed: Seed(seed), ..Plan::default() }
}

/// Contents of `line` over all images that the plan makes.
fn contents(point: &CrashPoint, choices: &[Choice], line: u64) -> BTreeSet<[u8; 64]> {
    choices.iter().map(|choice| point.image(choice).line_at(line * 64)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn images_are_what_the_definitions_allow(
        steps in prop::collection::vec((0..2u32, step()), 1..24),
        seed in any::<u64>(),
    ) {
        let memory = memory();
        let mut state = Persistency::new(Snapshot::of(&memory).expect("a snapshot"), Mode::Adr);
        let mut naive = Naive::default();
        for (task, step) in &steps {
            tell(&mut state, &memory, *task, step);
            naive.tell(*task, step);
        }
        let point = state.crash_point();
        let choices = point.choices(&plan(seed));
        for line in 0..LEN / 64 {
            let Some(allowed) = naive.allowed(line) else { continue };
            let found = contents(&point, &choices, line);
            prop_assert!(found.is_subset(&allowed), "line {line} holds what no crash can leave");
            if !naive.is_unordered(line) {
                prop_assert_eq!(&found, &allowed, "line {} misses a prefix", line);
            }
            let kept = naive.pieces.iter().filter(|piece| piece.line == line && naive.is_guaranteed(piece));
            prop_assert_eq!(point.image(&point.none()).line_at(line * 64), Naive::apply(line, kept));
            let mut now = [0; 64];
            memory.peek(line * 64, &mut now).expect("in range");
            prop_assert_eq!(point.image(&point.all()).line_at(line * 64), now);
        }
    }

    #[test]
    fn a_scratch_region_becomes_exactly_the_image(
        steps in prop::collection::vec((0..2u32, step()), 1..40),
        dirt in prop::collection::vec((0..LEN / 8, any::<u64>()), 0..8),
    ) {
        let memory = memory();
        let mut state = Persistency::new(Snapshot::of(&memory).expect("a snapshot"), Mode::Adr);
        let mut scratch = Scratch::new(Bytes(LEN), Box::new(Null)).expect("memory");
        for (task, step) in &steps {
            tell(&mut state, &memory, *task, step);
            let point = state.crash_point();
            for choice in point.choices(&plan(1)).iter().take(5) {
                let image = point.image(choice);
                let region = scratch.load(&image).expect("loaded");
                let found = Snapshot::of(region).expect("a snapshot");
                prop_assert_eq!(found.fingerprint(), image.fingerprint());
                for (word, value) in &dirt {
                    region.store_u64(word * 8, *value).expect("in range");
                }
            }
        }
    }
}

fn recorded(mode: Mode, work: impl FnOnce(&Region)) -> CrashPoint {
    let region = memory();
    let recorder = Recorder::attach(&region, mode, None).expect("a snapshot");
    work(&region);
    recorder.crash_point()
}

fn word(image: &Image, off: u64) -> u64 {
    let line = image.line_at(off);
    u64::from_le_bytes(*line[(off % 64) as usize..].first_chunk().expect("inside the line"))
}

/// Values that the words at `offs` take over all choices.
fn outcomes(point: &CrashPoint, offs: &[u64]) -> BTreeSet<Vec<u64>> {
    let choices = point.choices(&plan(7));
    choices.iter().map(|choice| offs.iter().map(|off| word(&point.image(choice), *off)).collect()).collect()
}

fn set(values: &[&[u64]]) -> BTreeSet<Vec<u64>> {
    values.iter().map(|values| values.to_vec()).collect()
}

#[test]
fn stores_to_one_line_persist_in_order_and_to_two_lines_in_any() {
    let one = recorded(Mode::Adr, |region| {
        region.store_u64(0, 1).expect("in range");
        region.store_u64(8, 2).expect("in range");
    });
    assert_eq!(outcomes(&one, &[0, 8]), set(&[&[0, 0], &[1, 0], &[1, 2]]));
    let two = recorded(Mode::Adr, |region| {
        region.store_u64(0, 1).expect("in range");
        region.store_u64(64, 2).expect("in range");
    });
    assert_eq!(outcomes(&two, &[0, 64]), set(&[&[0, 0], &[1, 0], &[0, 2], &[1, 2]]));
}

#[test]
fn a_pair_is_never_torn_but_a_copy_of_16_bytes_is() {
    let pair = recorded(Mode::Adr, |region| region.store_pair(16, [1, 2]).expect("in range"));
    assert_eq!(outcomes(&pair, &[16, 24]), set(&[&[0, 0], &[1, 2]]));
    let copy = recorded(Mode::Adr, |region| region.write(16, &[1_u64, 2]).expect("in range"));
    assert_eq!(outcomes(&copy, &[16, 24]), set(&[&[0, 0], &[1, 0], &[1, 2]]));
}

#[test]
fn a_fence_guarantees_what_its_own_task_has_flushed() {
    let region = memory();
    let mut state = Persistency::new(Snapshot::of(&region).expect("a snapshot"), Mode::Adr);
    let store = |off| Event::Store { off, data: &[1; 8], kind: StoreKind::Word };
    state.apply(1, store(0));
    state.apply(2, store(64));
    state.apply(1, Event::Flush { off: 0, len: 128 });
    state.apply(2, Event::Fence);
    assert!(!state.is_guaranteed(0, 8) && !state.is_guaranteed(64, 8), "task 2 had flushed nothing");
    assert!(state.in_flight().all(|line| line.durability == Durability::Unfenced));
    state.apply(1, store(8));
    assert_eq!(state.in_flight().next().map(|line| line.durability), Some(Durability::Dirty));
    state.apply(1, Event::Fence);
    assert!(state.is_guaranteed(0, 8) && state.is_guaranteed(64, 8), "task 1 flushed both lines");
    assert!(!state.is_guaranteed(8, 8), "stored after the flush");
}

#[test]
fn words_stored_past_the_cache_persist_independently_until_the_fence() {
    let point = recorded(Mode::Adr, |region| {
        region.nt_store(0, &[1; 8]).expect("in range");
        region.nt_store(16, &[2; 8]).expect("in range");
    });
    let (a, b) = (u64::from_le_bytes([1; 8]), u64::from_le_bytes([2; 8]));
    assert_eq!(outcomes(&point, &[0, 16]), set(&[&[0, 0], &[a, 0], &[0, b], &[a, b]]));
    let fenced = recorded(Mode::Adr, |region| {
        region.nt_store(0, &[1; 8]).expect("in range");
        region.fence();
    });
    assert_eq!(outcomes(&fenced, &[0]), set(&[&[a]]));
}

#[test]
fn a_contiguous_copy_is_one_unit_with_seven_variants() {
    let region = Region::anonymous(Bytes(1 << 20), Box::new(Null)).expect("memory");
    let recorder = Recorder::attach(&region, Mode::Adr, None).expect("a snapshot");
    region.nt_store(4096 * 3, &[1; 3 * 4096]).expect("in range");
    let point = recorder.crash_point();
    assert_eq!(point.units().len(), 1);
    assert_eq!((point.units()[0].kind, point.units()[0].variants()), (UnitKind::Copy, 7));
    let sizes: BTreeSet<usize> =
        point.choices(&plan(1)).iter().map(|choice| point.image(choice).persisted_lines().len()).collect();
    // None, either half, all but the middle line, all (also: all but a word).
    assert_eq!(sizes, BTreeSet::from([0, 96, 191, 192]));
}

#[test]
fn persistent_caches_leave_a_prefix_of_all_stores() {
    let point = recorded(Mode::Eadr, |region| {
        region.store_u64(0, 1).expect("in range");
        region.store_u64(64, 2).expect("in range");
        region.store_u64(8, 3).expect("in range");
    });
    let expected = set(&[&[0, 0, 0], &[1, 0, 0], &[1, 2, 0], &[1, 2, 3]]);
    assert_eq!(outcomes(&point, &[0, 64, 8]), expected);
}

#[test]
fn a_line_in_flight_may_become_unreadable() {
    let point = recorded(Mode::Poison, |region| region.store_u64(64, 1).expect("in range"));
    let unreadable = point.choices(&plan(1)).iter().any(|choice| {
        let region = point.image(choice).region(Box::new(Null)).expect("a region");
        region.load_u64(64) == Err(MediaError::Poisoned { offset: 64 })
    });
    assert!(unreadable);
}

#[test]
fn many_lines_are_tried_alone_in_pairs_and_both_sides_of_the_commit() {
    let region = Region::anonymous(Bytes(1 << 20), Box::new(Null)).expect("memory");
    let recorder = Recorder::attach(&region, Mode::Adr, None).expect("a snapshot");
    for line in 0..20 {
        region.store_u64(line * 64, 1).expect("in range");
    }
    region.store_u64(8, 9).expect("in range");
    region.mark(Mark::Commit { at: 16, needs: &[] });
    region.store_u64(16, 5).expect("in range");
    let point = recorder.crash_point();
    let choices = point.choices(&Plan { draws: 0, ..plan(1) });
    // none, all; 20 lines alone, the first in 3 variants; all but each; pairs; both sides of the commit.
    assert_eq!(choices.len(), 2 + 22 + 20 + 190 + 1);
    let all_but_commit = |image: &Image| {
        word(image, 8) == 9 && word(image, 16) == 0 && (1..20).all(|line| word(image, line * 64) == 1)
    };
    assert!(choices.iter().any(|choice| all_but_commit(&point.image(choice))));
    let commit_alone =
        |image: &Image| word(image, 16) == 5 && (1..20).all(|line| word(image, line * 64) == 0);
    assert!(choices.iter().any(|choice| commit_alone(&point.image(choice))));
    let drawn = point.choices(&Plan { draws: 64, ..plan(1) });
    assert_eq!(drawn, point.choices(&Plan { draws: 64, ..plan(1) }), "the seed decides");
    assert!(drawn.len() > choices.len() + 50);
}

#[test]
fn images_share_all_pages_but_those_that_they_change() {
    let region = Region::anonymous(Bytes(64 << 20), Box::new(Null)).expect("memory");
    let recorder = Recorder::attach(&region, Mode::Adr, None).expect("a snapshot");
    region.store_u64(0, 1).expect("in range");
    let point = recorder.crash_point();
    let before = point.image(&point.all()).fingerprint();
    region.flush(0, 8);
    region.fence();
    let after = recorder.crash_point();
    assert_eq!(after.image(&after.none()).fingerprint(), before, "the same content by another way");
    assert_ne!(point.image(&point.none()).fingerprint(), before, "an older point keeps its content");
}

#[test]
fn a_scratch_region_follows_pages_that_became_guaranteed() {
    let region = Region::anonymous(Bytes(1 << 16), Box::new(Null)).expect("memory");
    region.store_u64(40_000, 6).expect("in range");
    let recorder = Recorder::attach(&region, Mode::Adr, None).expect("a snapshot");
    let mut scratch = Scratch::new(Bytes(1 << 16), Box::new(Null)).expect("memory");
    let before = recorder.crash_point();
    for off in [0, 8192, 40_000] {
        region.nt_store(off, &[7; 8]).expect("in range");
    }
    region.fence();
    let after = recorder.crash_point();
    for (point, expected) in [(&before, [0, 0, 6]), (&after, [7; 3]), (&before, [0, 0, 6])] {
        let image = point.image(&point.none());
        let loaded = scratch.load(&image).expect("loaded");
        let found = [0, 8192, 40_000].map(|off| loaded.load_u64(off).expect("in range") & 0xff);
        assert_eq!(found, expected);
        assert_eq!(Snapshot::of(loaded).expect("a snapshot").fingerprint(), image.fingerprint());
    }
}

#[test]
fn a_cached_store_on_a_line_with_a_pending_word_may_persist_alone() {
    let point = recorded(Mode::Adr, |region| {
        region.nt_store(0, &[1; 8]).expect("in range");
        region.store_u64(8, 2).expect("in range");
        region.store_u64(16, 3).expect("in range");
    });
    assert_eq!(point.units()[0].kind, UnitKind::Unordered);
    let outcomes = outcomes(&point, &[8, 16]);
    assert!(outcomes.contains(&vec![0, 3]), "the last store alone");
    assert!(outcomes.contains(&vec![2, 3]) && outcomes.contains(&vec![0, 0]));
}

#[test]
fn a_trace_stops_at_every_crash_point() {
    let region = memory();
    let trace = Trace::attach(&region).expect("a snapshot");
    region.mark(Mark::OpBegin("op"));
    region.store_u64(0, 1).expect("in range");
    region.flush(0, 8);
    region.fence();
    region.mark(Mark::Commit { at: 64, needs: &[ByteRun::new(0, 8)] });
    region.store_u64(64, 1).expect("in range");
    region.flush(64, 8);
    region.fence();
    region.mark(Mark::OpEnd("op", Promise::All));
    let mut replay = trace.replay(Mode::Adr);
    let (mut points, mut events) = (Vec::new(), 0);
    while let Some(point) = replay.next_point(|_, _| events += 1) {
        points.push((point, replay.state().in_flight().count(), replay.position()));
    }
    let expected = [
        (Point::BeforeFence, 1, 3),
        (Point::AfterFence, 0, 4),
        (Point::AfterCommit, 1, 6),
        (Point::BeforeFence, 1, 7),
        (Point::AfterFence, 0, 8),
        (Point::OpEnd, 0, 9),
    ];
    assert_eq!(points, expected);
    assert_eq!(events, 9);
}

#[test]
fn recording_works_under_the_virtual_clock_with_tasks() {
    let setup = sim::Setup::virtual_clock(sim::Machine::unit(), Seed(1));
    let in_flight = sim::run(&setup, || {
        let region = Arc::new(memory());
        let recorder = Recorder::attach(&region, Mode::Adr, None).expect("a snapshot");
        let tasks: Vec<_> = (0..3_u64)
            .map(|n| {
                let region = Arc::clone(&region);
                sim::spawn(sim::TaskSpec::named(format!("t{n}")), move || {
                    region.store_u64(n * 64, 1).expect("in range");
                    region.flush(n * 64, 8);
                    sim::interact();
                    if n != 1 {
                        region.fence();
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(sim::JoinHandle::join);
        recorder.with(|state| state.in_flight().map(|line| line.offset).collect::<Vec<_>>())
    });
    assert_eq!(in_flight.expect("the run ends"), [64], "only the task without a fence");
}

#[test]
fn detached_recorders_hear_no_more() {
    let region = memory();
    let recorder = Recorder::attach(&region, Mode::Adr, None).expect("a snapshot");
    let other: Arc<dyn Tap> = Arc::new(media::event::Counting::new());
    region.attach(Arc::clone(&other));
    region.detach(&recorder);
    region.store_u64(0, 1).expect("in range");
    assert_eq!(recorder.with(|state| state.in_flight().count()), 0);
}
