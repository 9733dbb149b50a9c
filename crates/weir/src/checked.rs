//! The designs as the checks make them: with the options given, and those that make them small.

use std::collections::BTreeMap;
use std::sync::Arc;

use check::Configured;
use design::{Mutant, Options};
use vfs::Promises;

use crate::failure::Failure;

/// Which of a design's small options a check takes where the user does not say otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// [`design::Checking::small`].
    Small,
    /// [`design::Checking::tiny`], for tasks that work at once.
    Tiny,
}

/// What a design promises of a crash with these options.
pub(crate) fn promises(name: &str, given: &BTreeMap<String, String>) -> Result<Promises, Failure> {
    let design = lab::plan::matrix::design(name)?;
    let resolved = Options::resolve(design.name(), design.options(), given)
        .map_err(|error| Failure::usage(error.to_string()))?;
    Ok(design.promises(&resolved))
}

/// The design called `name`, with the options given and those that make it small.
pub(crate) fn checked(
    name: &str,
    given: &BTreeMap<String, String>,
    size: Size,
) -> Result<Arc<Configured>, Failure> {
    Ok(Arc::new(configured(name, given, size)?))
}

/// The same with a seeded bug.
pub(crate) fn seeded(
    name: &str,
    given: &BTreeMap<String, String>,
    mutant: Mutant,
) -> Result<Arc<Configured>, Failure> {
    let sound = configured(name, given, Size::Small)?;
    let options = sound.options().clone().with_mutant(mutant);
    Ok(Arc::new(Configured::new(sound.design(), options, sound.arguments().to_owned())))
}

/// The ways in which a design is mounted: as given, and with each variant that is not given otherwise.
pub(crate) fn mounts(
    name: &str,
    given: &BTreeMap<String, String>,
) -> Result<Vec<BTreeMap<String, String>>, Failure> {
    let variants = lab::plan::matrix::design(name)?.checking().variants.iter();
    let new = variants.filter(|variant| variant.iter().all(|(option, _)| !given.contains_key(*option)));
    let with = |variant: &design::Given| given.clone().into_iter().chain(owned(variant)).collect();
    Ok(std::iter::once(given.clone()).chain(new.map(with)).collect())
}

fn owned(options: &[(&str, &str)]) -> Vec<(String, String)> {
    options.iter().map(|(option, value)| ((*option).to_owned(), (*value).to_owned())).collect()
}

fn configured(name: &str, given: &BTreeMap<String, String>, size: Size) -> Result<Configured, Failure> {
    let design = lab::plan::matrix::design(name)?;
    let usual = match size {
        Size::Small => design.checking().small,
        Size::Tiny => design.checking().tiny,
    };
    let mut all = given.clone();
    for (option, value) in owned(usual) {
        all.entry(option).or_insert(value);
    }
    let options = Options::resolve(design.name(), design.options(), &all)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let arguments: Vec<_> = given.iter().map(|(name, value)| format!("-O {name}={value}")).collect();
    Ok(Configured::new(design, options, arguments.join(" ")))
}
