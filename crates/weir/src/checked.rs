//! The designs as the reliability harnesses reach them: one adapter for all.

use std::collections::BTreeMap;
use std::sync::Arc;

use check::Design;
use fs::{FsType, Mutant, Options};
use media::Storage;
use media::nvmm::Region;
use sim::Bytes;
use vfs::{FileSystem, Promises};

use crate::failure::Failure;

/// Which of a design's small options a check takes where the user does not say otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// [`fs::Checking::small`].
    Small,
    /// [`fs::Checking::tiny`], for tasks that work at once.
    Tiny,
}

/// What a design promises of a crash with these options.
pub(crate) fn promises(name: &str, given: &BTreeMap<String, String>) -> Result<Promises, Failure> {
    let design = lab::plan::matrix::design(name)?;
    let resolved = Options::resolve(design.name(), design.options(), given)
        .map_err(|error| Failure::usage(error.to_string()))?;
    Ok(design.promises(&resolved))
}

/// A design with its options.
pub(crate) struct Checked {
    design: &'static dyn FsType,
    options: Options,
    /// What was given.
    arguments: String,
}

/// The design called `name`, with the options given and those that make it small.
pub(crate) fn checked(
    name: &str,
    given: &BTreeMap<String, String>,
    size: Size,
) -> Result<Arc<dyn Design>, Failure> {
    Ok(Arc::new(Checked::new(name, given, size)?))
}

/// The same with a seeded bug.
pub(crate) fn seeded(
    name: &str,
    given: &BTreeMap<String, String>,
    mutant: Mutant,
) -> Result<Arc<dyn Design>, Failure> {
    let Checked { design, options, arguments } = Checked::new(name, given, Size::Small)?;
    Ok(Arc::new(Checked { design, options: options.with_mutant(mutant), arguments }))
}

/// The ways in which a design is mounted: as given, and with each variant that is not given otherwise.
pub(crate) fn mounts(
    name: &str,
    given: &BTreeMap<String, String>,
) -> Result<Vec<BTreeMap<String, String>>, Failure> {
    let variants = lab::plan::matrix::design(name)?.checking().variants.iter();
    let new = variants.filter(|variant| variant.iter().all(|(option, _)| !given.contains_key(*option)));
    let with = |variant: &fs::Given| given.clone().into_iter().chain(owned(variant)).collect();
    Ok(std::iter::once(given.clone()).chain(new.map(with)).collect())
}

fn owned(options: &[(&str, &str)]) -> Vec<(String, String)> {
    options.iter().map(|(option, value)| ((*option).to_owned(), (*value).to_owned())).collect()
}

impl Checked {
    fn new(name: &str, given: &BTreeMap<String, String>, size: Size) -> Result<Self, Failure> {
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
        Ok(Self { design, options, arguments: arguments.join(" ") })
    }

    fn storage(&self, region: &Arc<Region>) -> Storage {
        self.design.needs(&self.options).on(region)
    }
}

impl Design for Checked {
    fn name(&self) -> &str {
        self.design.name()
    }

    fn arguments(&self) -> String {
        self.arguments.clone()
    }

    fn min_size(&self) -> Bytes {
        self.design.needs(&self.options).least(self.design.min_size(&self.options))
    }

    fn mkfs(&self, region: &Arc<Region>) -> Result<(), String> {
        self.design.mkfs(&self.storage(region), &self.options).map_err(|error| error.to_string())
    }

    fn mount(&self, region: &Arc<Region>) -> Result<Arc<dyn FileSystem>, String> {
        self.design.mount(&self.storage(region), &self.options).map_err(|error| error.to_string())
    }

    fn recover(&self, region: &Arc<Region>) -> Result<(), String> {
        self.design.recover(&self.storage(region)).map(drop).map_err(|error| error.to_string())
    }

    fn fsck(&self, region: &Arc<Region>) -> Vec<String> {
        let report = self.design.fsck(&self.storage(region));
        if report.violations.is_empty() && report.checked.is_empty() {
            return vec![format!("nothing could be checked: {}", report.notes.join("; "))];
        }
        report.violations.iter().map(ToString::to_string).collect()
    }

    fn dump_parts(&self) -> Vec<String> {
        self.design.dump_parts().iter().map(|(part, _)| (*part).to_owned()).collect()
    }

    fn dump(&self, region: &Arc<Region>, part: &str) -> Result<String, String> {
        let mut text = Vec::new();
        self.design.dump(&self.storage(region), part, &mut text).map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}
