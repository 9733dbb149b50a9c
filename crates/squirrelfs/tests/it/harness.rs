//! The design with options, as the harnesses reach it.

use std::collections::BTreeMap;
use std::sync::Arc;

use check::Configured;
use check::configured::usual_size;
use check::crash::Subject;
use design::{Design, Mutant, Options};
use media::recorder::Mode;
use squirrelfs::design::SquirrelDesign;

pub(crate) static DESIGN: SquirrelDesign = SquirrelDesign;

fn options(given: &[(&str, &str)]) -> Options {
    let given: BTreeMap<_, _> =
        given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Options::resolve(DESIGN.name(), DESIGN.options(), &given).expect("options of the test are valid")
}

/// The design, small and with these options.
pub(crate) fn small_with(more: &[(&str, &str)]) -> Arc<Configured> {
    let given = [DESIGN.checking().small, more].concat();
    Arc::new(Configured::new(&DESIGN, options(&given), String::new()))
}

/// The design, small, with a seeded bug.
pub(crate) fn with_mutant(mutant: Mutant) -> Arc<Configured> {
    let options = options(DESIGN.checking().small).with_mutant(mutant);
    Arc::new(Configured::new(&DESIGN, options, mutant.name().to_owned()))
}

/// A design whose crashes are explored.
pub(crate) fn subject(design: Arc<Configured>) -> Subject {
    let (size, promises) = (usual_size(&design), design.promises());
    Subject { design, size, promises, mode: Mode::Adr }
}
