//! The designs of this crate as the reliability harnesses of `check` reach them, with options.

use std::collections::BTreeMap;
use std::sync::Arc;

use check::Configured;
use check::configured::usual_size;
pub(crate) use check::configured::{region, virtually};
use check::crash::Subject;
use design::{Checking, Design, Mutant, Needs, Options};
use fs::FILE_SYSTEMS;
use media::nvmm::Region;
use media::recorder::Mode;
use sim::Bytes;
use vfs::Promises;

/// Options by name and value.
pub(crate) type Given<'a> = &'a [(&'a str, &'a str)];

/// The design's options with these values.
pub(crate) fn options(design: &dyn Design, given: &[(&str, &str)]) -> Options {
    let given: BTreeMap<_, _> =
        given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Options::resolve(design.name(), design.options(), &given).expect("options of the test are valid")
}

/// How checks make and mount the design called `name`.
pub(crate) fn checking(name: &str) -> Checking {
    fs::by_name(name).expect("a design").checking()
}

/// The options that make a design small, and these.
fn small_and<'a>(name: &str, more: Given<'a>) -> Vec<(&'a str, &'a str)> {
    [checking(name).small, more].concat()
}

/// The design called `name`, small.
pub(crate) fn small(name: &str) -> Arc<Configured> {
    small_with(name, &[])
}

/// The same with these options as well.
pub(crate) fn small_with(name: &str, more: Given<'_>) -> Arc<Configured> {
    with_options(name, &small_and(name, more))
}

/// The design called `name` as small as tasks that work at once want it.
pub(crate) fn tiny(name: &str) -> Arc<Configured> {
    with_options(name, checking(name).tiny)
}

/// Whether the design called `name` is made on memory.
pub(crate) fn is_in_memory(name: &str) -> bool {
    let design = fs::by_name(name).expect("a design");
    design.format().needs(&options(design, design.checking().small)) == Needs::Memory
}

/// The names of all designs of the table.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FILE_SYSTEMS.iter().map(|design| design.name())
}

/// The design called `name`, small and with these options, on memory that keeps its caches in a power loss no more than ADR does.
pub(crate) fn subject(name: &str, more: Given<'_>) -> Subject {
    let design = small_with(name, more);
    let size = usual_size(&design);
    Subject { design, size, promises: promises(name, &small_and(name, more)), mode: Mode::Adr }
}

/// A design in each way in which it is mounted, with a seeded bug if one is given.
pub(crate) fn mounts(name: &str, mutant: Option<Mutant>) -> Vec<Subject> {
    let variants = checking(name).variants.iter().copied();
    let mounted = |more: Given<'_>| {
        let sound = subject(name, more);
        let bug = |mutant| with_mutant(name, &small_and(name, more), mutant);
        Subject { design: mutant.map_or(Arc::clone(&sound.design), bug), ..sound }
    };
    std::iter::once(&[][..]).chain(variants).map(mounted).collect()
}

/// Every design of the table in each way in which it is mounted.
pub(crate) fn subjects() -> Vec<Subject> {
    names().flat_map(|name| mounts(name, None)).collect()
}

/// The bytes of a pool.
pub(crate) fn bytes_of(region: &Region) -> Vec<u8> {
    let mut bytes = vec![0; region.len() as usize];
    region.peek(0, &mut bytes).expect("a load");
    bytes
}

/// A pool of these bytes.
pub(crate) fn region_of(bytes: &[u8]) -> Arc<Region> {
    let region = region(Bytes(bytes.len() as u64));
    region.store(0, bytes).expect("a store");
    region
}

/// The design called `name` with these options.
pub(crate) fn with_options(name: &str, given: &[(&str, &str)]) -> Arc<Configured> {
    let design = fs::by_name(name).expect("a design");
    let arguments: Vec<_> = given.iter().map(|(name, value)| format!("-O {name}={value}")).collect();
    Arc::new(Configured::new(design, options(design, given), arguments.join(" ")))
}

/// What a design promises with these options.
pub(crate) fn promises(name: &str, given: &[(&str, &str)]) -> Promises {
    let design = fs::by_name(name).expect("a design");
    design.promises(&options(design, given))
}

/// The seeded bug of a design that has this name.
pub(crate) fn mutant(design: &str, name: &str) -> Mutant {
    let mutants = fs::by_name(design).expect("a design").mutants();
    *mutants.iter().find(|mutant| mutant.name() == name).expect("the design has the bug")
}

/// The design with a seeded bug.
pub(crate) fn with_mutant(name: &str, given: &[(&str, &str)], mutant: Mutant) -> Arc<Configured> {
    let design = fs::by_name(name).expect("a design");
    let options = options(design, given).with_mutant(mutant);
    Arc::new(Configured::new(design, options, mutant.name().to_owned()))
}
