//! Every interleaving of two readers, a writer, the copier and a thief of frames on one entry.
//!
//! Each actor is a small program whose steps are single atomic operations: a load, a compare-and-swap that a change in between
//! makes fail, a copy of half a frame. The world (word, page, source, frame, block and who holds what) is copied at each step,
//! and every order of steps is tried, once for each world that it leads to. Readers that hit run without the
//! inode's lock here, so that every rule of the word is needed; an insertion holds it from the lookup of the block until the entry
//! is published, and a write until the entry is doomed. What must hold:
//!
//! * a reader that gets bytes gets those of the last write that had returned when it began, or of a later one;
//! * while the copier writes a frame, no other actor has it, and no reader sees what a thief puts there;
//! * a block that the copier reads is not free;
//! * in the end nothing is pinned or doomed, and the entry can be used again.
//!
//! The copier takes an entry that waits because it was asked to, or because a sweep has found it.
//!
//! Orders of memory are not modelled: one step comes after the other.

use std::collections::BTreeMap;

use super::{State, Word};

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// 1 claims an entry that the copier has.
    ClaimsUnderCopy,
    /// 2 publishes an entry as if it had been copied.
    PublishesUncopied,
    /// 3 gives an entry up as if it were still what it was.
    RetractsToReady,
    /// 4 copies for an entry that its owner has not published.
    CopiesUnpublished,
    /// 5 does not look whether the entry is doomed.
    ReadyThoughDoomed,
    /// 6 does not end a doomed copy.
    DoomedCopyStays,
    /// 7, 8 pin an entry that is doomed.
    PinsDoomed,
    /// 8 counts no second reader.
    SecondReaderUncounted,
    /// 9 takes the last reader away with the first.
    UnpinsAll,
    /// 10 leaves an entry in use.
    LastReaderKeeps,
    /// 11 makes a doomed entry ready again.
    LastReaderForgets,
    /// 12 leaves an entry in Prep.
    PrepSurvives,
    /// 13 makes a copy invalid at once, as the paper does.
    CopyIsTaken,
    /// 14 leaves an entry ready.
    ReadySurvives,
    /// 15 makes an entry invalid under its readers.
    ReadersIgnored,
    /// 16 steals an entry that is read.
    StealsPinned,
    /// The block of a doomed copy is free at once.
    FreesUnderCopy,
}

const FLAWS: [Flaw; 17] = [
    Flaw::ClaimsUnderCopy,
    Flaw::PublishesUncopied,
    Flaw::RetractsToReady,
    Flaw::CopiesUnpublished,
    Flaw::LastReaderKeeps,
    Flaw::StealsPinned,
    Flaw::ReadyThoughDoomed,
    Flaw::DoomedCopyStays,
    Flaw::PinsDoomed,
    Flaw::SecondReaderUncounted,
    Flaw::UnpinsAll,
    Flaw::LastReaderForgets,
    Flaw::PrepSurvives,
    Flaw::CopyIsTaken,
    Flaw::ReadySurvives,
    Flaw::ReadersIgnored,
    Flaw::FreesUnderCopy,
];

const READER: u64 = super::READER;
const DOOMED: u64 = super::DOOMED;

impl Flaw {
    fn claimed(self, word: Word) -> Option<Word> {
        match self {
            Self::ClaimsUnderCopy if word.state() == State::Copy => Some(word.plain(1)),
            _ => word.claimed(),
        }
    }

    fn published(self, word: Word) -> Option<Word> {
        match self {
            Self::PublishesUncopied if word.is_owned() => Some(word.plain(4)),
            _ => word.published(),
        }
    }

    fn retracted(self, word: Word) -> Option<Word> {
        match self {
            Self::RetractsToReady if word.is_owned() => Some(word.plain(4)),
            _ => word.retracted(),
        }
    }

    fn copying(self, word: Word) -> Option<Word> {
        match self {
            Self::CopiesUnpublished if word.is_owned() => Some(word.plain(3)),
            _ => word.copying(),
        }
    }

    fn stolen(self, word: Word) -> Option<Word> {
        match self {
            Self::StealsPinned if word.readers() > 0 => Some(Word(word.given_up().0 | 1)),
            _ => word.stolen(),
        }
    }

    fn ready(self, word: Word) -> Option<Word> {
        match self {
            Self::ReadyThoughDoomed if word.state() == State::Copy => Some(word.plain(4)),
            _ => word.ready(),
        }
    }

    fn not_copied(self, word: Word) -> Option<Word> {
        word.not_copied().filter(|_| self != Self::DoomedCopyStays || !word.is_doomed())
    }

    fn pinned(self, word: Word) -> Option<Word> {
        match self {
            Self::PinsDoomed if word.is_doomed() && word.readers() > 0 => Some(Word(word.0 + READER)),
            Self::SecondReaderUncounted if word.pinned().is_some() && word.readers() > 0 => Some(word),
            _ => word.pinned(),
        }
    }

    fn unpinned(self, word: Word) -> Option<Word> {
        match self {
            Self::UnpinsAll if word.readers() > 1 => Some(word.plain(4)),
            Self::LastReaderKeeps if word.readers() == 1 && !word.is_doomed() => Some(word.plain(1)),
            Self::LastReaderForgets if word.readers() == 1 => Some(word.plain(4)),
            _ => word.unpinned(),
        }
    }

    fn doomed(self, word: Word) -> Option<Word> {
        match (self, word.state()) {
            (Self::PrepSurvives, State::Prep) | (Self::ReadySurvives, State::Ready) => None,
            (Self::CopyIsTaken, State::Copy) => Some(word.given_up()),
            (Self::ReadersIgnored, State::InUse) if word.readers() > 0 => Some(word.given_up()),
            _ => word.doomed(),
        }
    }
}

/// An actor: its next step, and what it has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Actor {
    step: u8,
    seen: u64,
    block: u8,
    /// The content of page 0 when it began.
    began: u8,
}

const DONE: u8 = 99;
/// What a thief fills the frame with.
const THIEFS: u8 = 77;

/// Page 0 is first in block 1, then in block 2, then in block 3. A block holds its own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    word: Word,
    source: u8,
    /// The two halves of the frame.
    frame: [u8; 2],
    mapped: u8,
    /// The block that the last write has mapped that has returned.
    returned: u8,
    /// Free blocks; a doomed copy's waits.
    free: u8,
    /// The copier writes the frame.
    fills: bool,
    /// Requests that the copier has to serve.
    requested: Option<u64>,
    readers: [Actor; 2],
    writer: Actor,
    copier: Actor,
    thief: Actor,
}

impl World {
    fn new() -> Self {
        Self {
            word: Word::NEW,
            source: 0,
            frame: [0; 2],
            mapped: 1,
            returned: 1,
            free: 0,
            fills: false,
            requested: None,
            readers: [Actor::default(); 2],
            writer: Actor::default(),
            copier: Actor::default(),
            thief: Actor { step: DONE, ..Actor::default() },
        }
    }

    /// A compare-and-swap.
    fn swap(&mut self, seen: u64, new: Option<Word>) -> bool {
        let Some(new) = new.filter(|_| self.word.0 == seen) else { return false };
        self.word = new;
        true
    }
}

/// What a step has found wrong.
type Wrong = Result<(), &'static str>;

/// A reader looks once, reads what it can, and inserts what it misses.
fn reader(world: &mut World, who: usize, flaw: Flaw) -> Wrong {
    let mut me = world.readers[who];
    match me.step {
        0 => {
            (me.began, me.seen) = (world.returned, world.word.0);
            me.step = 1;
        }
        // A hit, if the word lets it.
        1 => match flaw.pinned(Word(me.seen)) {
            pinned if world.swap(me.seen, pinned) => me.step = 2,
            _ => me.step = 10,
        },
        2 => {
            me.block = world.frame[0];
            me.step = 3;
        }
        3 => {
            if me.block == THIEFS || world.frame[1] == THIEFS {
                return Err("a reader gets what a thief has put there");
            }
            if me.block != world.frame[1] || me.block == 0 {
                return Err("a reader gets halves of two copies");
            }
            if me.block < me.began {
                return Err("a reader gets what was there before it began");
            }
            me.step = 4;
        }
        4 => {
            me.seen = world.word.0;
            me.step = 5;
        }
        5 => {
            let word = Word(me.seen);
            match flaw.unpinned(word) {
                None => return Err("a pin is gone under its reader"),
                unpinned if world.swap(me.seen, unpinned) => me.step = DONE,
                _ => me.step = 4,
            }
        }
        _ => return inserter(world, who, flaw),
    }
    world.readers[who] = me;
    Ok(())
}

/// A reader that has missed looks its block up, and publishes an entry if there is a place.
fn inserter(world: &mut World, who: usize, flaw: Flaw) -> Wrong {
    let mut me = world.readers[who];
    match me.step {
        10 => {
            (me.block, me.seen) = (world.mapped, world.word.0);
            me.step = 11;
        }
        11 => {
            let claimed = flaw.claimed(Word(me.seen));
            me.step = if world.swap(me.seen, claimed) { 12 } else { DONE };
            me.seen = claimed.map_or(0, |word| word.0);
        }
        12 => {
            world.source = me.block;
            me.step = 13;
        }
        13 => {
            if !world.swap(me.seen, flaw.published(Word(me.seen))) {
                return Err("an owner has lost its entry");
            }
            me.step = 14;
        }
        // The copier may have found the entry by itself.
        _ => {
            world.requested = Some(Word(me.seen).version());
            me.step = DONE;
        }
    }
    world.readers[who] = me;
    Ok(())
}

impl World {
    /// Whether a reader has the inode's lock: it inserts.
    fn is_inserting(&self) -> bool {
        self.readers.iter().any(|reader| (11..=13).contains(&reader.step))
    }

    /// Whether the writer has it: the mapping has changed, and the entry is not doomed yet.
    fn is_writing(&self) -> bool {
        self.writer.step != DONE && !self.writer.step.is_multiple_of(10)
    }

    fn reader_waits(&self, who: usize) -> bool {
        self.readers[who].step == 10 && self.is_writing()
    }

    fn writer_waits(&self) -> bool {
        self.is_inserting() && self.writer.step.is_multiple_of(10)
    }
}

/// The writer moves page 0 twice: maps the new block, dooms what is cached, frees the old block.
fn writer(world: &mut World, flaw: Flaw) -> Wrong {
    let mut me = world.writer;
    match me.step % 10 {
        0 => {
            (me.block, world.mapped) = (world.mapped, world.mapped + 1);
            me.step += 1;
        }
        1 => {
            me.seen = world.word.0;
            // An entry of another block is for what was mapped since, or for nothing.
            me.step += if world.source == me.block { 1 } else { 3 };
        }
        2 => {
            let word = Word(me.seen);
            match flaw.doomed(word) {
                None => me.step += 2,
                doomed if world.swap(me.seen, doomed) => {
                    let kept = word.state() == State::Copy && flaw != Flaw::FreesUnderCopy;
                    me.step += if kept { 3 } else { 2 };
                }
                _ => me.step -= 1,
            }
        }
        4 => {
            world.free |= 1 << me.block;
            world.returned = me.block + 1;
            if world.fills && world.copier.block == me.block {
                return Err("a block is free that the copier reads");
            }
            me.step += 1;
        }
        // The copier frees the block.
        5 => {
            world.returned = me.block + 1;
            me.step = if me.step < 10 { 10 } else { DONE };
        }
        _ => me.step += 1,
    }
    world.writer = me;
    Ok(())
}

fn copier(world: &mut World, flaw: Flaw) -> Wrong {
    let mut me = world.copier;
    match me.step {
        0 => {
            let version = world.requested.take();
            me.seen = world.word.0;
            me.step = u8::from(version.is_none_or(|version| Word(me.seen).version() == version));
        }
        1 => {
            if world.swap(me.seen, flaw.copying(Word(me.seen))) {
                (me.block, me.step) = (world.source, 2);
                world.fills = true;
            } else {
                me.step = 0;
            }
        }
        2 | 3 => {
            if world.word.state() == State::InUse && world.word.readers() > 0 {
                return Err("the copier writes a frame that is read");
            }
            if world.word.state() != State::Copy {
                return Err("the copier writes a frame that it has not");
            }
            world.frame[usize::from(me.step - 2)] = me.block;
            me.step += 1;
        }
        4 => {
            me.seen = world.word.0;
            me.step = 5;
        }
        _ => {
            let word = Word(me.seen);
            let ended = flaw.ready(word).or_else(|| flaw.not_copied(word));
            if ended.is_none() {
                return Err("a copy cannot end");
            }
            let was_doomed = word.is_doomed();
            if world.swap(me.seen, ended) {
                world.fills = false;
                world.free |= if was_doomed { 1 << me.block } else { 0 };
                me = Actor::default();
            } else {
                me.step = 4;
            }
        }
    }
    world.copier = me;
    Ok(())
}

/// Another page wants the frame: the thief takes the entry, has the frame filled, and gives the entry up.
fn thief(world: &mut World, flaw: Flaw) -> Wrong {
    let mut me = world.thief;
    match me.step {
        0 => {
            me.seen = world.word.0;
            me.step = 1;
        }
        1 => {
            let word = Word(me.seen);
            let owned = word.claimed().or_else(|| flaw.stolen(word));
            me.step = if world.swap(me.seen, owned) { 2 } else { DONE };
            me.seen = owned.map_or(0, |word| word.0);
        }
        2 | 3 => {
            world.frame[usize::from(me.step - 2)] = THIEFS;
            me.step += 1;
        }
        _ => {
            if !world.swap(me.seen, flaw.retracted(Word(me.seen))) {
                return Err("a thief has lost its entry");
            }
            me.step = DONE;
        }
    }
    world.thief = me;
    Ok(())
}

fn check_end(world: &World) -> Wrong {
    let word = world.word;
    match word.state() {
        State::InUse => Err("an entry stays in use"),
        State::Copy => Err("a copy does not end"),
        _ if word.is_doomed() => Err("an entry stays doomed"),
        State::Ready if world.frame[0] != world.mapped => Err("an entry stays that is stale"),
        State::Prep if world.source != world.mapped => Err("an entry stays that would be stale"),
        _ => Ok(()),
    }
}

/// Tries every order from `world` on; answers how many there are, worlds that were met before counted again but not tried.
fn explore(world: &World, flaw: Flaw, known: &mut BTreeMap<World, u128>) -> Result<u128, &'static str> {
    if let Some(count) = known.get(world) {
        return Ok(*count);
    }
    let mut count = 0;
    let mut step = |can: bool, act: &dyn Fn(&mut World) -> Wrong| {
        if !can {
            return Ok(());
        }
        let mut next = *world;
        act(&mut next)?;
        count += explore(&next, flaw, known)?;
        Ok(())
    };
    for who in 0..2 {
        let goes_on = world.readers[who].step != DONE && !world.reader_waits(who);
        step(goes_on, &|world| reader(world, who, flaw))?;
    }
    step(world.writer.step != DONE && !world.writer_waits(), &|world| writer(world, flaw))?;
    let is_asked = world.requested.is_some();
    step(world.copier.step > 0 || is_asked, &|world| copier(world, flaw))?;
    // A sweep looks at the entry without being asked.
    let waits = flaw.copying(world.word).is_some();
    step(world.copier.step == 0 && !is_asked && waits, &|world| copier(world, flaw))?;
    step(world.thief.step != DONE, &|world| thief(world, flaw))?;
    if count == 0 {
        check_end(world)?;
        count = 1;
    }
    known.insert(*world, count);
    Ok(count)
}

/// From an empty entry, from one that the copier is asked to fill, and from one that is ready, with and without a thief: with two
/// readers, each rule is needed somewhere.
fn beginnings() -> Vec<World> {
    let empty = World::new();
    let prep = Word::NEW.claimed().and_then(Word::published).expect("claimed and published");
    let requested = World { word: prep, source: 1, requested: Some(0), ..empty };
    let ready = prep.copying().and_then(Word::ready).expect("copied");
    let cached = World { word: ready, source: 1, frame: [1; 2], ..empty };
    vec![empty, requested, cached, World { thief: Actor::default(), ..cached }]
}

fn explore_all(flaw: Flaw) -> Result<(u128, usize), &'static str> {
    let mut known = BTreeMap::new();
    let mut all = 0;
    for world in beginnings() {
        all += explore(&world, flaw, &mut known)?;
    }
    Ok((all, known.len()))
}

#[test]
fn no_order_of_steps_shows_stale_bytes_or_loses_an_entry() {
    let (orders, worlds) = explore_all(Flaw::None).expect("every order is sound");
    println!("{orders} interleavings through {worlds} worlds");
    assert!(orders > 1_000_000, "{orders}");
}

#[test]
fn every_rule_that_is_broken_is_found() {
    for flaw in FLAWS {
        let found = explore_all(flaw).expect_err("an order that shows it");
        println!("{flaw:?}: {found}");
    }
}

#[test]
fn readers_that_do_not_fit_read_the_medium_instead() {
    let ready = Word(4);
    let mut word = ready.pinned().expect("ready");
    for _ in 1..super::READERS_MAX {
        word = word.pinned().expect("there is room");
    }
    assert_eq!(word.pinned(), None);
    assert_eq!(Word(word.0 | DOOMED).unpinned().map(Word::readers), Some(super::READERS_MAX - 1));
}
