//! What cores contend for: the classes of locks and of cache lines that results name, and that can be free in a run.
//!
//! Each crate lists those that it declares; a cell has those of its design and of its suite, and of what is between them.

use std::collections::BTreeMap;

use design::Design;
use results::Sample;
use sim::LockClass;
use workload::{SUITES, Suite};

/// Those that a cell can have; `kernel`: its mount stands for a kernel.
pub(crate) fn of_cell(
    design: &dyn design::Design,
    suite: &dyn Suite,
    kernel: bool,
) -> Vec<&'static LockClass> {
    let kernel: &[_] = if kernel { vfs::charges::KERNEL_CLASSES } else { &[] };
    sorted([&*design.classes(), suite.classes(), &between(), kernel].concat())
}

/// Those of what every cell can have between its design and its suite, and below the design.
fn between() -> Vec<&'static LockClass> {
    [vfs::charges::CLASSES, media::block::CLASSES, sim::ledger::CLASSES].concat()
}

/// All of them.
pub fn all() -> Vec<&'static LockClass> {
    let designs = fs::all().flat_map(Design::classes);
    let suites = SUITES.iter().flat_map(|suite| suite.classes().iter().copied());
    let kernel = vfs::charges::KERNEL_CLASSES.iter().copied();
    sorted(designs.chain(suites).chain(between()).chain(kernel).collect())
}

/// In the order of names, each name once.
fn sorted(mut classes: Vec<&'static LockClass>) -> Vec<&'static LockClass> {
    classes.sort_unstable_by_key(|class| class.name());
    classes.dedup_by_key(|class| class.name());
    classes
}

/// The cache lines that samples name and that are no lock's, with what is on them.
pub(crate) fn lines_of(samples: &[Sample]) -> BTreeMap<String, String> {
    let waited = |name: &str| {
        let mut operations = samples.iter().flat_map(|sample| sample.operations.iter().chain(&sample.served));
        operations.any(|operation| operation.line_wait_ns.contains_key(name))
    };
    let lines = all().into_iter().filter_map(|class| Some((class.name(), class.line()?)));
    lines.filter(|(name, _)| waited(name)).map(|(name, what)| (name.to_owned(), what.to_owned())).collect()
}
