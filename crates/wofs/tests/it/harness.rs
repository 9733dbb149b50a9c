//! The design as the reliability harnesses of `check` reach it. What the format has no place for is left out of their programs.

use std::collections::BTreeMap;
use std::sync::Arc;

use check::Configured;
use check::configured::usual_size;
use check::crash::Subject;
use check::crash::programs::{self, Program};
use check::op::Op;
use design::{Design, Mutant, Options};
use media::recorder::Mode;
use vfs::RenameFlags;
use wofs::design::WofsDesign;
use wofs::layout::NAME_MAX;

pub(crate) const SEED: u64 = 20_261_129;

pub(crate) static WOFS: WofsDesign = WofsDesign;

/// The design with few blocks for each append, and with a seeded bug if one is given.
pub(crate) fn small(mutant: Option<Mutant>) -> Arc<Configured> {
    with(&[("extend", "4")], mutant)
}

/// The design with these options.
pub(crate) fn with(given: &[(&str, &str)], mutant: Option<Mutant>) -> Arc<Configured> {
    let given: BTreeMap<_, _> =
        given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let options = Options::resolve("wofs", WOFS.options(), &given).expect("options of the design");
    let options = mutant.map_or(options.clone(), |mutant| options.with_mutant(mutant));
    Arc::new(Configured::new(&WOFS, options, mutant.map_or(String::new(), |mutant| mutant.name().to_owned())))
}

pub(crate) fn subject(mutant: Option<Mutant>) -> Subject {
    let design = small(mutant);
    let (size, promises) = (usual_size(&design), design.promises());
    Subject { design, size, promises, mode: Mode::Adr }
}

/// Whether the format has a place for what an operation asks for.
pub(crate) fn has(op: &Op) -> bool {
    let lacks = RenameFlags::EXCHANGE | RenameFlags::WHITEOUT;
    let text = format!("{op:?}");
    match op {
        _ if text.split(['/', '"']).any(|word| !word.contains(' ') && word.len() > NAME_MAX) => false,
        Op::SetXattr(..)
        | Op::RemoveXattr(..)
        | Op::Fallocate(..)
        | Op::Nameless(_)
        | Op::Clone(..)
        | Op::LinkOpened(..) => false,
        Op::Rename(_, _, flags) => !flags.intersects(lacks),
        _ => true,
    }
}

/// The programs of all designs, without those that the format has no place for.
pub(crate) fn programs() -> Vec<Program> {
    let has_all = |program: &Program| program.setup.iter().chain(&program.core).all(has);
    programs::all().into_iter().filter(has_all).collect()
}
