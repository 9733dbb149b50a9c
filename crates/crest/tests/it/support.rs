//! Pools for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crest::design::CrestDesign;
use design::{Design, Mutant, Options};
use media::nvmm::Region;
use media::{Medium, Storage};
use sim::ledger::Snapshot;
use sim::{Bytes, Machine};
use vfs::{FileSystem, Ino};

/// Options by name and value.
pub(crate) type Given<'a> = &'a [(&'a str, &'a str)];

/// The options of the design with these values, and a seeded bug if one is given.
pub(crate) fn options(given: Given<'_>, bug: Option<Mutant>) -> Options {
    let values: BTreeMap<_, _> =
        given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let options =
        Options::resolve(CrestDesign.name(), CrestDesign.options(), &values).expect("options are valid");
    match bug {
        Some(bug) => options.with_mutant(bug),
        None => options,
    }
}

/// A region on a medium that is priced as Optane.
pub(crate) fn region(size: Bytes) -> Arc<Region> {
    let medium = Medium::named("optane.100x6").and_then(|medium| medium.build()).expect("a preset");
    Arc::new(Region::anonymous(size, medium).expect("memory"))
}

/// A machine with so many cores.
pub(crate) fn machine(cores: u16) -> Machine {
    Machine { cores_per_socket: cores, ..Machine::unit() }
}

/// A new pool, mounted.
pub(crate) fn made(region: &Arc<Region>, options: &Options) -> Arc<dyn FileSystem> {
    CrestDesign.format().mkfs(&Storage::from(region), options).expect("mkfs");
    mounted(region, options)
}

/// A pool that is there, mounted.
pub(crate) fn mounted(region: &Arc<Region>, options: &Options) -> Arc<dyn FileSystem> {
    CrestDesign.mount(&Storage::from(region), options).expect("mount")
}

/// Asserts that a pool is sound.
pub(crate) fn assert_sound(region: &Arc<Region>) {
    assert_eq!(CrestDesign.format().fsck(&Storage::from(region)).violations, []);
}

/// The region as a crash of this moment leaves it, in which all is durable.
pub(crate) fn copy_of(from: &Arc<Region>) -> Arc<Region> {
    let size = Bytes(from.len());
    let (copy, mut bytes) = (region(size), vec![0; size.0 as usize]);
    from.peek(0, &mut bytes).expect("it can be read");
    copy.nt_store(0, &bytes).expect("it can be stored");
    copy.fence();
    copy
}

/// The names of a directory.
pub(crate) fn names_in(fs: &dyn FileSystem, dir: Ino) -> BTreeSet<Vec<u8>> {
    let mut names = BTreeSet::new();
    let list = fs.readdir(dir, 0, &mut |entry| names.insert(entry.name.to_vec()));
    list.expect("a directory");
    names.remove(&b"."[..]);
    names.remove(&b".."[..]);
    names
}

/// Zones that this task has emptied in steps.
pub(crate) fn zones_emptied() -> u64 {
    counted("crest.emptied")
}

/// A count of this task.
pub(crate) fn counted(name: &str) -> u64 {
    let count = CrestDesign.counts().iter().find(|count| count.name() == name);
    Snapshot::of_task().count_all(count.expect("it is counted"))
}

/// The numbers that a variable of the environment gives.
pub(crate) fn numbers(variable: &str, usual: &[u64]) -> Vec<u64> {
    let Ok(given) = std::env::var(variable) else { return usual.to_vec() };
    given.split(',').map(|one| one.parse().expect("a number")).collect()
}
