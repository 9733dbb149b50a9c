//! `weir fsck`: every invariant of an image's format, without changing it.

use std::path::PathBuf;

use clap::Args;
use fs::FsckReport;
use media::Storage;
use media::nvmm::Access;

use super::image;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Check an image. It is never changed: recovery is tried on a copy in memory.
#[derive(Args, Debug)]
#[command(after_help = "Exit codes: 0 clean, 5 violations, 4 the image cannot be read")]
pub(crate) struct Fsck {
    /// The design [default: the one that recognises the image]
    #[arg(long)]
    fs: Option<String>,
    /// The image
    image: PathBuf,
}

impl Fsck {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let region = image::open(&self.image, None, Access::ReadOnly)?;
        let design = image::design(&region, self.fs.as_deref(), &self.image)?;
        let copy = image::copy(&region, &self.image)?;
        let mut notes =
            design.recover(&Storage::from(&copy)).map_err(|error| image::unusable(&self.image, error))?;
        let mut found = design.fsck(&Storage::from(&copy));
        notes.append(&mut found.notes);
        found.notes = notes;
        if output.is_json() {
            output.document(&document(design.name(), &found));
        } else {
            output.data(&text(&found));
        }
        match found.violations.len() {
            0 => Ok(()),
            count => {
                let message =
                    format!("{}: {count} violations; the image was not changed", self.image.display());
                Err(Failure::new(Exit::Corrupt, message))
            }
        }
    }
}

fn text(found: &FsckReport) -> String {
    let notes = found.notes.iter().map(|note| format!("note: {note}"));
    let violations = found.violations.iter().map(|violation| format!("violation: {violation}"));
    let checked: Vec<_> = found.checked.iter().map(|(what, count)| format!("{count} {what}")).collect();
    let verdict = if found.violations.is_empty() { "clean" } else { "damaged" };
    let last = format!("{verdict}: {} checked\n", checked.join(", "));
    notes.chain(violations).chain([last]).collect::<Vec<_>>().join("\n")
}

fn document(design: &str, found: &FsckReport) -> serde_json::Value {
    let violations = found
        .violations
        .iter()
        .map(|violation| serde_json::json!({ "predicate": violation.predicate, "what": violation.what }));
    let checked = found.checked.iter().map(|(what, count)| ((*what).to_owned(), (*count).into()));
    serde_json::json!({
        "schema": "weir.fsck/1",
        "fs": design,
        "clean": found.violations.is_empty(),
        "violations": violations.collect::<Vec<_>>(),
        "notes": found.notes,
        "checked": checked.collect::<serde_json::Map<String, serde_json::Value>>(),
    })
}
