//! Making, mounting and checking images in tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use fs::{FsType, Options};
use media::nvmm::Region;
use sim::{Bytes, Machine, Seed, Setup};

/// Memory that costs nothing.
pub fn region(size: Bytes) -> Arc<Region> {
    Arc::new(Region::anonymous(size, Box::new(media::nvmm::null::Null)).expect("memory for a region"))
}

/// The design's options with these values.
pub fn options(design: &dyn FsType, given: &[(&str, &str)]) -> Options {
    let given: BTreeMap<_, _> =
        given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Options::resolve(design.name(), design.options(), &given).expect("options of the test are valid")
}

/// Runs `body` under the virtual clock.
pub fn virtually<T: Send + 'static>(seed: u64, body: impl FnOnce() -> T + Send + 'static) -> T {
    let setup = Setup::virtual_clock(Machine::unit(), Seed(seed));
    sim::run(&setup, body).unwrap_or_else(|error| panic!("seed {seed}: {error}"))
}

/// What fsck holds against an image, in words; none when it is clean and could be checked.
pub fn fsck_complaint(design: &dyn FsType, region: &Region) -> Option<String> {
    let report = design.fsck(region);
    if let Some(violation) = report.violations.first() {
        return Some(format!("fsck: {violation}"));
    }
    report.checked.is_empty().then(|| format!("fsck checked nothing: {:?}", report.notes))
}
