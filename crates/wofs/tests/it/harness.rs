//! The design as the reliability harnesses of `check` reach it.

use std::collections::BTreeMap;
use std::sync::Arc;

use check::Configured;
use check::configured::usual_size;
use check::crash::Subject;
use design::{Design, Mutant, Options};
use media::recorder::Mode;
use wofs::design::WofsDesign;

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
