//! The designs as the reliability harnesses reach them: one adapter for all.

use std::collections::BTreeMap;
use std::sync::Arc;

use check::Design;
use check::crash::Guarantee;
use fs::{FsType, Mutant, Options};
use media::nvmm::Region;
use sim::{Bytes, PAGE_BYTES};
use vfs::FileSystem;

use crate::failure::Failure;

/// Options that make a design small, so that its borders are near: set where a design has them and nobody says otherwise.
pub(crate) const SMALL: [(&str, &str); 3] = [("jsize", "64k"), ("buffer", "64k"), ("medium_write", "200ns")];

/// Smaller still, for tasks that meet: a buffer of three pages, and write-back that finds every block old.
pub(crate) const TINY: [(&str, &str); 6] = [
    ("jsize", "64k"),
    ("buffer", "12k"),
    ("medium_write", "200ns"),
    ("wake", "1us"),
    ("dirty_age", "1us"),
    ("writeback_tasks", "2"),
];

/// What a design promises of a crash with these options: data is buffered where a design could be mounted `sync` and is not.
pub(crate) fn guarantee(name: &str, given: &BTreeMap<String, String>) -> Result<Guarantee, Failure> {
    let design = lab::plan::matrix::design(name)?;
    let resolved = Options::resolve(design.name(), design.options(), given)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let has = |option: &str| design.options().iter().any(|known| known.name == option);
    if has("sync") && !resolved.flag("sync") {
        return Ok(Guarantee::Buffered);
    }
    let block = if has("block_size") { resolved.choice("block_size").parse::<Bytes>().ok() } else { None };
    Ok(Guarantee::InPlace { block: block.map_or(PAGE_BYTES as u64, |block| block.0) })
}

/// A design with its options.
pub(crate) struct Checked {
    design: &'static dyn FsType,
    options: Options,
    /// What was given.
    arguments: String,
}

/// The design called `name`, with the options given and, where it has them, those of `usual` that are not given.
pub(crate) fn checked(
    name: &str,
    given: &BTreeMap<String, String>,
    usual: &[(&str, &str)],
) -> Result<Arc<dyn Design>, Failure> {
    Ok(Arc::new(Checked::new(name, given, usual)?))
}

/// The same with a seeded bug.
pub(crate) fn seeded(
    name: &str,
    given: &BTreeMap<String, String>,
    mutant: Mutant,
) -> Result<Arc<dyn Design>, Failure> {
    let Checked { design, options, arguments } = Checked::new(name, given, &SMALL)?;
    Ok(Arc::new(Checked { design, options: options.with_mutant(mutant), arguments }))
}

/// The ways in which a design is mounted: one that could be mounted `sync` in both, unless that is said.
pub(crate) fn mounts(
    name: &str,
    given: &BTreeMap<String, String>,
) -> Result<Vec<BTreeMap<String, String>>, Failure> {
    let mut mounts = vec![given.clone()];
    if guarantee(name, given)? == Guarantee::Buffered && !given.contains_key("sync") {
        let sync = given.clone().into_iter().chain([("sync".to_owned(), "true".to_owned())]);
        mounts.push(sync.collect());
    }
    Ok(mounts)
}

impl Checked {
    fn new(name: &str, given: &BTreeMap<String, String>, usual: &[(&str, &str)]) -> Result<Self, Failure> {
        let design = lab::plan::matrix::design(name)?;
        let mut all = given.clone();
        for (option, value) in usual {
            if design.options().iter().any(|known| known.name == *option) {
                all.entry((*option).to_owned()).or_insert_with(|| (*value).to_owned());
            }
        }
        let options = Options::resolve(design.name(), design.options(), &all)
            .map_err(|error| Failure::usage(error.to_string()))?;
        let arguments: Vec<_> = given.iter().map(|(name, value)| format!("-O {name}={value}")).collect();
        Ok(Self { design, options, arguments: arguments.join(" ") })
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
        self.design.min_size(&self.options)
    }

    fn mkfs(&self, region: &Arc<Region>) -> Result<(), String> {
        self.design.mkfs(region, &self.options).map_err(|error| error.to_string())
    }

    fn mount(&self, region: &Arc<Region>) -> Result<Arc<dyn FileSystem>, String> {
        self.design.mount(region, &self.options).map_err(|error| error.to_string())
    }

    fn recover(&self, region: &Arc<Region>) -> Result<(), String> {
        self.design.recover(region).map(drop).map_err(|error| error.to_string())
    }

    fn fsck(&self, region: &Region) -> Vec<String> {
        let report = self.design.fsck(region);
        if report.violations.is_empty() && report.checked.is_empty() {
            return vec![format!("nothing could be checked: {}", report.notes.join("; "))];
        }
        report.violations.iter().map(ToString::to_string).collect()
    }

    fn dump_parts(&self) -> Vec<String> {
        self.design.dump_parts().iter().map(|(part, _)| (*part).to_owned()).collect()
    }

    fn dump(&self, region: &Region, part: &str) -> Result<String, String> {
        let mut text = Vec::new();
        self.design.dump(region, part, &mut text).map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}
