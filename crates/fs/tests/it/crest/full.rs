//! Histories that are too long to try all of: pools that fill up, files that are cut for ever; and what calls cost.

use fs::crest::format::mutant::Rules;
use fs::crest::format::zone::Use;

use super::explore::make_room;
use super::image::Unit;
use super::ops::{Call, Op, Path, Stop};
use super::view::View;
use super::world::{Setup, World};

/// A pool and what a user sees of it.
struct Run {
    world: World,
    want: View,
}

impl Run {
    fn new(setup: Setup, rules: Rules) -> Self {
        Self { world: World::format(setup, rules), want: View::new(1) }
    }

    fn call(&mut self, op: Op, shard: usize) -> Result<(), Stop> {
        let (mut world, mut want) = (self.world.clone(), self.want.clone());
        Call { world: &mut world, want: &mut want, shard, between: Vec::new() }.run(op)?;
        world.reap(shard as u8);
        (self.world, self.want) = (world, want);
        Ok(())
    }

    /// The same with a cleaner that keeps up, or one that runs only when a call finds no room.
    fn call_and_clean(&mut self, op: Op, lazy: bool) -> Result<Result<(), Stop>, String> {
        if !lazy {
            make_room(&mut self.world, 0)?;
        }
        match self.call(op, 0) {
            Err(Stop::NoSpace) => {
                make_room(&mut self.world, 0)?;
                Ok(self.call(op, 0))
            }
            done => Ok(done),
        }
    }

    fn check(&self, after: Op) -> Result<(), String> {
        let seen = self.world.view()?;
        if seen == self.want {
            Ok(())
        } else {
            Err(format!("after {after:?}: {seen:?}, not {:?}", self.want))
        }
    }
}

/// Fills a pool in the order of a pattern (bits: a new file, or a block for one), then removes all files: no removal may fail.
fn fill_and_empty(
    pattern: u8,
    order: u8,
    (remount, lazy): (bool, bool),
    rules: Rules,
) -> Result<usize, String> {
    let setup = Setup {
        zones: 16,
        zone_lines: 9,
        shards: 1,
        record_lines: 8,
        checked: false,
        scarce: true,
        keyed: true,
    };
    let mut run = Run::new(setup, rules);
    let (mut files, mut full, mut step) = (0_u8, [false; 2], 0_u32);
    while full != [true; 2] && step < 400 {
        let kind = usize::from(pattern >> (step % 4) & 1);
        let kind = if full[kind] { 1 - kind } else { kind };
        let block = (step / 2 % 8) as u8 * 2;
        let op = if kind == 0 || files == 0 {
            Op::Create((0, files + 1))
        } else {
            Op::Write((0, 1 + (step as u8 % files)), block, 2)
        };
        match run.call_and_clean(op, lazy)? {
            Ok(()) => files += u8::from(matches!(op, Op::Create(_))),
            Err(Stop::NoSpace) => full[usize::from(matches!(op, Op::Write(..)))] = true,
            Err(Stop::NotNow) => {}
        }
        step += 1;
        run.check(op)?;
    }
    if remount {
        run.call(Op::Remount, 0).map_err(|_| "a full pool does not mount".to_owned())?;
    }
    let mut names: Vec<Path> = (1..=files).map(|name| (0, name)).collect();
    match order {
        0 => {}
        1 => names.reverse(),
        _ => names.sort_by_key(|name| u32::from(name.1) * 7 % 11),
    }
    for name in names {
        let removed = run.call_and_clean(Op::Unlink(name), lazy)?;
        removed.map_err(|_| {
            format!("pattern {pattern:04b}, order {order}: no space to remove {name:?} of {files} files")
        })?;
        run.check(Op::Unlink(name))?;
    }
    run.call_and_clean(Op::Create((0, 1)), lazy)?.map_err(|_| "an empty pool is full".to_owned())?;
    Ok(usize::from(files))
}

/// Patterns, orders, with and without a mount of the full pool and a cleaner that keeps up; files made in all.
pub(crate) fn full_pools(rules: Rules) -> Result<usize, String> {
    let mut files = 0;
    for pattern in [0b0000, 0b1010, 0b1110] {
        for order in 0..3 {
            for ways in [(false, false), (true, false), (false, true), (true, true)] {
                files += fill_and_empty(pattern, order, ways, rules)?;
            }
        }
    }
    Ok(files)
}

/// Cuts and writes of one file by two shards, in a pool that is never cleaned: most log zones in use.
pub(crate) fn cut_for_ever(rules: Rules) -> Result<usize, String> {
    let setup = Setup {
        zones: 40,
        zone_lines: 6,
        shards: 2,
        record_lines: 8,
        checked: false,
        scarce: false,
        keyed: true,
    };
    let mut run = Run::new(setup, rules);
    let file = (0, 1);
    let mut most = 0;
    for op in [Op::Create(file), Op::Write(file, 0, 4)] {
        run.call(op, 0).map_err(|_| "an empty pool is full".to_owned())?;
    }
    for round in 0..60 {
        for (op, shard) in [(Op::Truncate(file, 1), round % 2), (Op::Write(file, 0, 4), (round / 2) % 2)] {
            run.call(op, shard).map_err(|_| format!("{op:?} of round {round} finds no zone"))?;
            run.check(op)?;
        }
        let zones = (0..setup.zones as u32).filter(|zone| run.world.word(*zone).usage == Use::Log);
        most = most.max(zones.count());
    }
    if most > 8 { Err(format!("{most} log zones for one file")) } else { Ok(most) }
}

/// Fences, and lines of the log, of one call in an open zone.
pub(crate) fn cost(start: &[Op], op: Op) -> (usize, usize) {
    let setup = Setup {
        zones: 12,
        zone_lines: 64,
        shards: 1,
        record_lines: 8,
        checked: false,
        scarce: false,
        keyed: true,
    };
    let mut run = Run::new(setup, Rules::ALL);
    for op in start {
        run.call(*op, 0).expect("the pool has room");
    }
    run.world.fence(0);
    run.world.moments.clear();
    run.call(op, 0).expect("the pool has room");
    let stored = run.world.moments.iter().flat_map(|moment| &moment.pending);
    let lines = stored.filter(|unit| matches!(unit, Unit::Line { .. })).count();
    (run.world.moments.len(), lines)
}
