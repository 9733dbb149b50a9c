//! `weir fsck`: every invariant of a pool's format, and repair.

use std::path::{Path, PathBuf};

use clap::Args;
use design::{Design, Format, FsError, FsckReport};
use media::Storage;
use media::nvmm::Access;
use sim::{Machine, Seed, Setup};

use super::image;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::partition::Part;

/// Check a pool. Without --repair the pool is not changed: what recovery stores stays in memory.
#[derive(Args, Debug)]
#[command(after_help = "Exit codes: 0 clean, 5 violations, 4 the pool cannot be read\n\
    With --repair, as for e2fsck: 0 clean, 1 repaired, 4 violations are left, or a repair would lose names that can be read \
    and\n    nothing was changed, 8 the pool cannot be read or written. With --dry-run: those of the repair")]
pub(crate) struct Fsck {
    /// The design [default: the design that recognises the pool]
    #[arg(long)]
    fs: Option<String>,
    /// Recover and repair the pool in place; make a copy first
    #[arg(long)]
    repair: bool,
    /// With --repair: carry it out even if it loses names that can be read
    #[arg(long, requires = "repair")]
    force_loss: bool,
    /// Tell what --repair would do, and how many names it would lose; the pool is not changed
    #[arg(long, conflicts_with_all = ["repair", "force_loss"])]
    dry_run: bool,
    /// The file with the journal, if the journal is not in the pool (ext4) [default: a file beside the pool]
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    #[command(flatten)]
    part: Part,
    /// The pool
    pool: PathBuf,
}

/// What was found and done.
struct Outcome {
    found: FsckReport,
    repairs: Vec<String>,
    /// Why a repair would not be carried out.
    refused: Option<String>,
}

impl Fsck {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let (design, outcome) = match self.repair || self.dry_run {
            true => self.repair().map_err(|failure| Failure { exit: Exit::Unrepairable, ..failure })?,
            false => self.check()?,
        };
        if output.is_json() {
            output.document(&self.document(design.name(), &outcome));
        } else {
            output.data(&self.text(&outcome));
        }
        let (left, pool) = (outcome.found.violations.len(), self.pool.display());
        if let Some(what) = outcome.refused {
            return Err(Failure::new(Exit::Run, format!("{pool}: {what}")));
        }
        match (left, self.repair || self.dry_run) {
            (0, _) if outcome.repairs.is_empty() => Ok(()),
            (0, _) => Err(Failure::new(Exit::Check, String::new())),
            (_, true) => {
                let loss = if self.force_loss {
                    ""
                } else {
                    ", or give --force-loss, which gives up what is damaged where the design can"
                };
                let what = format!(
                    "{pool}: {left} violations are left; copy what can be read to another pool{loss}"
                );
                Err(Failure::new(Exit::Run, what))
            }
            (_, false) => {
                let what = format!(
                    "{pool}: {left} violations; the pool was not changed; `weir fsck --repair` repairs what can be"
                );
                Err(Failure::new(Exit::Corrupt, what))
            }
        }
    }

    fn check(&self) -> Result<(&'static dyn Design, Outcome), Failure> {
        let open = |file: &Path| image::open(file, None, Access::Private);
        let region = open(&self.pool)?;
        let (design, part) = image::identify(&region, self.fs.as_deref(), (&self.pool, self.part))?;
        let (storage, _) = image::storage(design, &part, self.names(), &open)?;
        let found = self.checked(design, &storage, |format, storage| format.replay(storage))?;
        Ok((design, Outcome { found, repairs: Vec::new(), refused: None }))
    }

    /// The pool and, if it is named, its journal.
    fn names(&self) -> (&Path, Option<&Path>) {
        (&self.pool, self.journal.as_deref())
    }

    /// Recovers, whole or in part, and checks.
    fn checked(
        &self,
        design: &'static dyn Design,
        storage: &Storage,
        recover: fn(&dyn Format, &Storage) -> Result<Vec<String>, FsError>,
    ) -> Result<FsckReport, Failure> {
        let mut notes = recover(design.format(), storage).map_err(|error| match error {
            // Nothing is wrong with it.
            FsError::Unsupported { .. } => {
                Failure::new(Exit::Run, format!("{}: {error}", self.pool.display()))
            }
            error => image::unusable(&self.pool, error),
        })?;
        let mut found = design.format().fsck(storage);
        notes.append(&mut found.notes);
        // The note says why; a pool of which nothing was read is not clean.
        if found.violations.is_empty() && found.checked.is_empty() {
            found.violate("can_be_checked", "nothing was checked");
        }
        Ok(FsckReport { notes, ..found })
    }

    /// Repairs; with `--dry-run` a private mapping.
    fn repair(&self) -> Result<(&'static dyn Design, Outcome), Failure> {
        let access = if self.dry_run { Access::Private } else { Access::ReadWrite };
        let region = image::open(&self.pool, None, access)?;
        let (design, part) = image::identify(&region, self.fs.as_deref(), (&self.pool, self.part))?;
        let open = |file: &Path| image::open(file, None, access);
        let (storage, journal) = image::storage(design, &part, self.names(), &open)?;
        // Recovery takes what an unmount has saved, as a mount does: where nothing is to be said, nothing is changed.
        let untouched = design.format().fsck(&storage);
        if untouched.violations.is_empty() && untouched.notes.is_empty() {
            return Ok((design, Outcome { found: untouched, repairs: Vec::new(), refused: None }));
        }
        let recovered = match self.checked(design, &storage, |format, storage| format.replay(storage)) {
            Ok(found) if found.violations.is_empty() => {
                let found = FsckReport {
                    notes: found.notes,
                    ..self.checked(design, &storage, |format, storage| format.recover(storage))?
                };
                return Ok((design, Outcome { found, repairs: Vec::new(), refused: None }));
            }
            Err(failure) if failure.exit != Exit::Corrupt => return Err(failure),
            recovered => recovered,
        };
        let mut notes = recovered.as_ref().map_or_else(|_| Vec::new(), |found| found.notes.clone());
        let (repairs, refused) = match self.repaired(design, &storage, self.force_loss)? {
            Ok(repairs) => (repairs, None),
            // Of a private mapping it is told what would be done.
            Err(why) if self.dry_run => (
                self.repaired(design, &storage, true)?.map_err(|why| Failure::new(Exit::Run, why))?,
                Some(why),
            ),
            Err(why) => {
                let found = FsckReport { notes, ..recovered.unwrap_or_default() };
                return Ok((design, Outcome { found, repairs: Vec::new(), refused: Some(why) }));
            }
        };
        // What is left may be what no recovery gets over.
        let mut found = match design.format().fsck(&storage) {
            found if found.violations.is_empty() => {
                self.checked(design, &storage, |format, storage| format.recover(storage))?
            }
            found => found,
        };
        notes.append(&mut found.notes);
        if !self.dry_run {
            let synced = journal.map_or(Ok(()), |journal| journal.sync()).and_then(|()| region.sync());
            synced.map_err(|error| image::refused(&self.pool, &error))?;
        }
        Ok((design, Outcome { found: FsckReport { notes, ..found }, repairs, refused }))
    }

    /// What a repair has done; or why it was not carried out.
    fn repaired(
        &self,
        design: &'static dyn Design,
        storage: &Storage,
        at_any_loss: bool,
    ) -> Result<Result<Vec<String>, String>, Failure> {
        let setup = Setup::real_clock(Machine::unit(), Seed(0));
        let repaired = sim::run(&setup, {
            let storage = storage.clone();
            move || match at_any_loss {
                true => design.format().repair_at_any_loss(&storage),
                false => design.format().repair(&storage),
            }
        });
        match repaired.map_err(|error| Failure::new(Exit::Internal, error.to_string()))? {
            Ok(done) => Ok(Ok(done)),
            Err(FsError::WouldLose { what }) => Ok(Err(what)),
            Err(error) => Err(image::unusable(&self.pool, error)),
        }
    }

    fn text(&self, Outcome { found, repairs, .. }: &Outcome) -> String {
        let (done, after) =
            if self.dry_run { ("would be repaired", ", after the repair") } else { ("repaired", "") };
        let repairs = repairs.iter().map(|repair| format!("{done}: {repair}"));
        let notes = found.notes.iter().map(|note| format!("note: {note}"));
        let violations = found.violations.iter().map(|violation| format!("violation: {violation}"));
        let checked: Vec<_> = found.checked.iter().map(|(what, count)| format!("{count} {what}")).collect();
        let verdict = if found.violations.is_empty() { "clean" } else { "damaged" };
        let last = format!("{verdict}{after}: {} checked\n", checked.join(", "));
        notes.chain(repairs).chain(violations).chain([last]).collect::<Vec<_>>().join("\n")
    }

    fn document(&self, design: &str, Outcome { found, repairs, refused }: &Outcome) -> serde_json::Value {
        let violations = found.violations.iter();
        let violations = violations
            .map(|violation| serde_json::json!({ "predicate": violation.predicate, "what": violation.what }));
        let checked = found.checked.iter().map(|(what, count)| ((*what).to_owned(), (*count).into()));
        serde_json::json!({
            "schema": "weir.fsck/1",
            "fs": design,
            "clean": found.violations.is_empty(),
            "violations": violations.collect::<Vec<_>>(),
            "notes": found.notes,
            "repairs": repairs,
            "dry_run": self.dry_run,
            "refused": refused,
            "checked": checked.collect::<serde_json::Map<String, serde_json::Value>>(),
        })
    }
}
