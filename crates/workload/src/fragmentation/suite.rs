//! The study's experiments as a suite: what needs a file system.
//!
//! An operation is a page of 4 KiB that was read, whatever the calls were: 256 operations a second are 1 MiB/s. Only the reads that
//! the study times are timed; before each, caches are dropped and the device is left idle.
//!
//! All variables are numbers, sizes or flags; each experiment has its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use sim::{KIB, Nanos};

use super::fileserver::FileServer;
use super::sqlite::{Database, PAGE_STEPS};
use super::target::{Spacing, Target};
use super::{GRANULE, STRIPE, TARGET};
use crate::suite::{
    Entry, How, Job, JobError, LoadError, Processes, Settings, Suite, Switch, Workload, full_name,
};

/// The suite.
#[derive(Clone, Copy, Debug)]
pub struct Fragmentation;

/// What an experiment does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Target { overwrite: bool, whole: bool },
    Degree,
    Pseudo { overwrite: bool },
    Sqlite,
    FileServer,
}

/// A variable with its default.
type Variable = (&'static str, u64);

/// A row of the table.
#[derive(Debug)]
struct Experiment {
    entry: Entry,
    kind: Kind,
    variables: &'static [Variable],
    detail: &'static str,
}

const READS: Variable = ("reads", 10);

const fn experiment(
    name: &'static str,
    summary: &'static str,
    kind: Kind,
    variables: &'static [Variable],
    detail: &'static str,
) -> Experiment {
    Experiment { entry: Entry { name, summary }, kind, variables, detail }
}

const APPENDS: &str = "\
256 times: append 32 KiB to the target and fdatasync; write a new dummy file and fdatasync it.
Then, `reads` times: drop caches, wait 5 s, open with O_DIRECT, read 8 MiB in calls of 1 MiB.
dummy: bytes of each dummy file; 0: sizes of 1 to 32 granules of 32 KiB, with published=true those that the artifact's
generator gives, else by the seed of the run and, in the random experiments, the number of the draw.
";

const OVERWRITES: &str = "\
Write the target of 8 MiB in calls of 1 MiB and fsync. 256 times: overwrite its next 32 KiB and fdatasync; write a new dummy file
and fdatasync it. Then read it as append-worst does; the variables are the same.
";

const TABLE: &[Experiment] = &[
    experiment(
        "contiguous",
        "figure 12: a file of 8 MiB that was written at once, read directly",
        Kind::Target { overwrite: true, whole: true },
        &[READS],
        "Write the target of 8 MiB in calls of 1 MiB and fsync. Then read it as append-worst does.\n",
    ),
    experiment(
        "append-worst",
        "figure 12: 256 appends, dummies of a stripe less a granule between them",
        Kind::Target { overwrite: false, whole: false },
        &[READS, ("dummy", STRIPE - GRANULE), ("published", 1)],
        APPENDS,
    ),
    experiment(
        "append-random",
        "figure 12: 256 appends, dummies of random sizes between them",
        Kind::Target { overwrite: false, whole: false },
        &[READS, ("dummy", 0), ("published", 1), ("draw", 0)],
        APPENDS,
    ),
    experiment(
        "overwrite-worst",
        "figure 12: 256 overwrites in place, dummies of a stripe less a granule between them",
        Kind::Target { overwrite: true, whole: false },
        &[READS, ("dummy", STRIPE - GRANULE), ("published", 1)],
        OVERWRITES,
    ),
    experiment(
        "overwrite-random",
        "figure 12: 256 overwrites in place, dummies of random sizes between them",
        Kind::Target { overwrite: true, whole: false },
        &[READS, ("dummy", 0), ("published", 1), ("draw", 0)],
        OVERWRITES,
    ),
    experiment(
        "degree",
        "figures 3 and 4: a file of 8 MiB in a given number of pieces, read in one call",
        Kind::Degree,
        &[("reads", 1), ("pieces", 32)],
        "`pieces` times: append 8 MiB / pieces and fdatasync; write a new dummy file that makes it a period of 8 MiB.\n\
         Remove the dummies, drop caches, wait, read all with one O_DIRECT call.\n",
    ),
    experiment(
        "pseudo-append",
        "figure 11: 256 appends, with dummies that place each on the same die, or on the next",
        Kind::Pseudo { overwrite: false },
        &[READS, ("restored", 0)],
        "As append-worst; with restored=true the dummies are a whole stripe, so that each piece lies on the die after its\n\
         predecessor's.\n",
    ),
    experiment(
        "pseudo-overwrite",
        "figure 11: 256 overwrites, with dummies that place each on the same die, or on the next",
        Kind::Pseudo { overwrite: true },
        &[READS, ("restored", 0)],
        "As overwrite-worst; with restored=true the dummies are a whole stripe.\n",
    ),
    experiment(
        "sqlite",
        "figure 12: SQLite inserts rows while another file grows, then scans them",
        Kind::Sqlite,
        &[READS, ("rows", 10_000), ("other", 100 * KIB), ("page_steps", PAGE_STEPS)],
        "Without journal, each row a transaction; after each, another file grows by `other` bytes and is synced (0: it does\n\
         not). Then `reads` times: sync, drop caches, wait 5 s, SELECT *. Only the SELECT is timed. page_steps: SQLite's own\n\
         work on a page, in steps of a search.\n",
    ),
    experiment(
        "fileserver",
        "figure 12: ten threads append to files in turns, then read them past the cache",
        Kind::FileServer,
        SERVER,
        SERVER_DETAIL,
    ),
    experiment(
        "fileserver-small",
        "figure 12: fileserver with appends of 16 KiB",
        Kind::FileServer,
        SMALL_SERVER,
        SERVER_DETAIL,
    ),
];

const SERVER: &[Variable] = &[
    ("files", 10_000),
    ("threads", 10),
    ("append", 32 * KIB),
    ("appends", 32),
    ("copied", 0),
    ("whole", 0),
    ("ordered", 0),
];

const SMALL_SERVER: &[Variable] = &[
    ("files", 10_000),
    ("threads", 10),
    ("append", 16 * KIB),
    ("appends", 32),
    ("copied", 0),
    ("whole", 0),
    ("ordered", 0),
];

const SERVER_DETAIL: &str = "\
`files` files of 128 KiB; `threads` threads append `append` bytes to one after the other, `appends` times to each on the average;
sync, drop caches, wait; as many threads read one file after the other with O_DIRECT in calls of 1 MiB.
copied: instead, files of that size are written whole in index order. whole: what was appended is read as well. ordered: the
files are made in index order by one task before they grow.
";

/// An experiment with the values of its variables.
#[derive(Debug)]
struct Loaded {
    experiment: &'static Experiment,
    values: BTreeMap<&'static str, u64>,
}

fn find(name: &str) -> Option<&'static Experiment> {
    TABLE.iter().find(|experiment| experiment.entry.name == name)
}

impl Suite for Fragmentation {
    fn name(&self) -> &'static str {
        "fragmentation"
    }

    fn summary(&self) -> &'static str {
        "fragmented files on flash, written and read as in the study of FAST 2024"
    }

    fn entries(&self) -> Vec<Entry> {
        TABLE.iter().map(|experiment| experiment.entry).collect()
    }

    fn usual(&self) -> Vec<Entry> {
        self.entries()[..5].to_vec()
    }

    /// The experiments end by themselves.
    fn usual_time(&self, _modelled: bool) -> Nanos {
        Nanos::from_secs(60)
    }

    fn switches(&self) -> &'static [Switch] {
        &[]
    }

    fn load(&self, name: &str, settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
        let experiment = find(name).ok_or_else(|| LoadError::Unknown(name.to_owned()))?;
        Ok(Arc::new(Loaded { experiment, values: values(experiment, settings)? }))
    }

    fn describe(&self, name: &str) -> Option<String> {
        find(name).map(|experiment| experiment.detail.to_owned())
    }
}

/// The values of all variables.
fn values(
    experiment: &'static Experiment,
    settings: &Settings,
) -> Result<BTreeMap<&'static str, u64>, LoadError> {
    let mut values: BTreeMap<&str, u64> = experiment.variables.iter().copied().collect();
    let threads = settings.threads.iter().map(|text| ("threads", text));
    for (name, text) in settings.vars.iter().map(|(name, text)| (name.as_str(), text)).chain(threads) {
        let known = experiment.variables.iter().find(|(known, _)| *known == name);
        let Some((name, _)) = known else {
            let names: Vec<_> = experiment.variables.iter().map(|(name, _)| *name).collect();
            return Err(LoadError::Wrong(format!(
                "fragmentation/{} has no variable \"{name}\"; it has: {}",
                experiment.entry.name,
                names.join(", ")
            )));
        };
        values.insert(name, number(name, text)?);
    }
    let pieces = values.get("pieces").copied().unwrap_or(1);
    if !pieces.is_power_of_two() || pieces > TARGET / 4096 {
        return Err(LoadError::Wrong(format!("pieces = {pieces}: a power of two up to 2048")));
    }
    Ok(values)
}

/// A number, a size (`128KiB`) or a flag.
fn number(name: &str, text: &str) -> Result<u64, LoadError> {
    match text {
        "true" => return Ok(1),
        "false" => return Ok(0),
        _ => {}
    }
    let parsed = text.parse::<sim::Bytes>().map(|bytes| bytes.0);
    parsed.map_err(|_| LoadError::Wrong(format!("{name} = \"{text}\" is no number, size or flag")))
}

impl Loaded {
    fn value(&self, name: &str) -> u64 {
        self.values.get(name).copied().unwrap_or_default()
    }

    fn dummy(&self) -> Spacing {
        match (self.value("dummy"), self.value("published")) {
            (0, 0) => Spacing::Random,
            (0, _) => Spacing::Published,
            (bytes, _) => Spacing::Bytes(bytes),
        }
    }

    /// The file of 8 MiB, if the experiment is about one.
    fn target(&self) -> Target {
        let base = Target { reads: self.value("reads"), draw: self.value("draw"), ..Target::default() };
        match self.experiment.kind {
            Kind::Target { overwrite, whole: true } => Target { overwrite, pieces: 0, ..base },
            Kind::Target { overwrite, whole: false } => {
                Target { overwrite, pieces: 256, spacing: self.dummy(), ..base }
            }
            Kind::Degree => {
                let pieces = self.value("pieces");
                let spacing = Spacing::Bytes(TARGET - TARGET / pieces);
                Target { pieces, spacing, call: TARGET, removes: true, ..base }
            }
            Kind::Pseudo { overwrite } => {
                let spacing = if self.value("restored") == 1 { STRIPE } else { STRIPE - GRANULE };
                Target { overwrite, pieces: 256, spacing: Spacing::Bytes(spacing), ..base }
            }
            Kind::Sqlite | Kind::FileServer => base,
        }
    }

    fn database(&self) -> Database {
        Database {
            rows: self.value("rows"),
            other: self.value("other"),
            reads: self.value("reads"),
            page_steps: self.value("page_steps"),
        }
    }

    fn file_server(&self) -> FileServer {
        FileServer {
            files: self.value("files"),
            threads: self.value("threads"),
            append: self.value("append"),
            appends: self.value("appends"),
            copied: self.value("copied") == 1,
            whole: self.value("whole") == 1,
            ordered: self.value("ordered") == 1,
        }
    }
}

impl Workload for Loaded {
    fn settings(&self) -> String {
        format!("{} {:?}", full_name(&Fragmentation, self.experiment.entry), self.values)
    }

    fn variables(&self) -> Vec<(String, String)> {
        let variable = |(name, _): &Variable| ((*name).to_owned(), self.value(name).to_string());
        self.experiment.variables.iter().map(variable).collect()
    }

    fn data_bytes(&self) -> u64 {
        match self.experiment.kind {
            Kind::Sqlite => self.database().data_bytes(),
            Kind::FileServer => self.file_server().data_bytes(),
            _ => self.target().data_bytes(),
        }
    }

    fn tasks(&self) -> u64 {
        self.value("threads").max(1)
    }

    fn sizes(&self) -> &'static [&'static str] {
        &["pieces", "rows", "files"]
    }

    fn job(&self, how: &How, processes: Arc<dyn Processes>) -> Result<Arc<dyn Job>, JobError> {
        match self.experiment.kind {
            Kind::Sqlite => Ok(self.database().job(how, &*processes)),
            Kind::FileServer => self.file_server().job(how, &*processes),
            _ => Ok(self.target().job(how, &*processes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_an_experiment_does_not_have_is_named() {
        let settings = |name: &str, value: &str| Settings {
            vars: [(name.to_owned(), value.to_owned())].into(),
            ..Settings::default()
        };
        let load = |settings: &Settings| Fragmentation.load("degree", settings);
        assert!(load(&settings("pieces", "64")).is_ok());
        let told = load(&settings("dummies", "1")).unwrap_err().to_string();
        assert!(told.contains("it has: reads, pieces"), "{told}");
        assert!(load(&settings("pieces", "48")).is_err() && load(&settings("pieces", "many")).is_err());
    }
}
