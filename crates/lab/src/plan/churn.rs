//! What a plan says of a churn before its workloads (`cell/churn.rs`), and which cells can have one: a design in this process on a
//! region whose size the plan says, with room for the files of the churn and of the workload.

use sim::Bytes;

use super::matrix::{CellSpec, Subject, resolve};
use super::{Plan, Workload};
use crate::cell::{LIVE, SHARE, files_in};
use crate::error::{Error, rounded_up};

/// More than this is a mistake: each takes as long as the one before, and changes nothing that the first have not.
const MOST: u32 = 100;

/// How many times the size of the region is stored.
///
/// # Errors
/// What the text should have been.
pub fn times(text: &str) -> Result<u32, String> {
    let times = text.parse().ok().filter(|times| (1..=MOST).contains(times));
    times.ok_or_else(|| {
        format!("\"{text}\": expected how many times the size of the region a churn stores, from 1 to {MOST}")
    })
}

impl Plan {
    /// Whether a cell of this workload can have the churn of the plan.
    pub(super) fn check_churn(&self, cell: &CellSpec, workload: &Workload) -> Result<(), Error> {
        if self.churn.is_none() {
            return Ok(());
        }
        let says = |message: String| Err(Error::Setting(format!("plan {}: a churn {message}", self.name)));
        let Subject::Design { design, options } = &cell.subject else {
            let title = cell.title();
            return says(format!(
                "changes files of a design in this process, which {title} has not: leave it out"
            ));
        };
        let name = design.name();
        if let Some(why) = design.without_image() {
            return says(format!("needs storage that can wear: {why}; leave out {name}"));
        }
        if let Some(block) = &cell.block {
            return says(format!(
                "is counted in bytes that are stored to memory, and {} is a block device: leave out {name}",
                block.name()
            ));
        }
        let Some(region) = cell.region else {
            return says(
                "stores a multiple of the region's size: give --region SIZE (in a plan: region = \"64MiB\")"
                    .to_owned(),
            );
        };
        let options = resolve(*design, options)?;
        let files = |region: u64| Bytes(cell.workload.data_bytes().saturating_add(region / LIVE));
        let per_inode = design.format().bytes_per_inode(&options);
        let fits = |region: u64| {
            let inodes = cell.workload.small_files().saturating_add(files_in(region));
            region >= SHARE
                && design.format().size_for(files(region), &options).0 <= region
                && inodes.saturating_mul(per_inode) <= region
        };
        if fits(region.0) {
            return Ok(());
        }
        let enough =
            std::iter::successors(Some(region.0), |size| size.checked_mul(2)).find(|size| fits(*size));
        let enough = enough.map_or_else(
            || "it fits no region".to_owned(),
            |size| format!("give it --region {0} (in a plan: region = \"{0}\")", rounded_up(Bytes(size))),
        );
        let message = format!(
            "leaves files in a quarter of the region; with those of \"{}\", {}, {name} does not have them in {region}: {enough}",
            workload.name,
            Bytes(cell.workload.data_bytes()),
        );
        Err(workload.at.problem(message))
    }
}
