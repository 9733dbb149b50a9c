//! Pools for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use crest::design::CrestDesign;
use design::{Design, Mutant, Options};
use media::nvmm::Region;
use media::{Medium, Storage};
use sim::ledger::Snapshot;
use sim::{Bytes, Machine};
use vfs::FileSystem;

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

/// Zones that this task has emptied in steps.
pub(crate) fn zones_emptied() -> u64 {
    let emptied = CrestDesign.counts().iter().find(|count| count.name() == "crest.emptied");
    Snapshot::of_task().count_all(emptied.expect("it is counted"))
}
