//! Inside the run: the file system is made, mounted, worked on and unmounted, and the ledger is read around the work.

use std::path::Path;
use std::sync::Arc;

use fs::{FsType, Options};
use media::Region;
use results::Sample;

use super::Run;
use crate::plan::CellSpec;

/// A cell's work, ready to be moved into a run.
pub(super) struct Job {
    spec: CellSpec,
    run: Run,
}

impl Job {
    pub(super) fn new(spec: &CellSpec, run: &Run) -> Self {
        Self { spec: spec.clone(), run: run.clone() }
    }

    /// On a design in this process.
    pub(super) fn on_design(
        self,
        design: &'static dyn FsType,
        region: &Arc<Region>,
        options: &Options,
    ) -> Result<Sample, String> {
        let _ = (design, region, options, &self.spec, &self.run);
        Err("the workload engine is not there yet".to_owned())
    }

    /// On a directory of the host.
    pub(super) fn on_host(self, path: &Path) -> Result<Sample, String> {
        let _ = path;
        Err("the workload engine is not there yet".to_owned())
    }
}
