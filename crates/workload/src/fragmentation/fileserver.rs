//! fileserver and fileserver-small: files that grow by small appends in turns, then are read whole past the cache.
//!
//! Two scripts in Filebench's language, as the artifact runs them one after the other on the same tree: the first makes files of
//! 128 KiB in random order by up to 32 tasks and lets ten threads append to one after the other, the second reads them. Between
//! them everything is synchronised and dropped.
//!
//! | reading | here |
//! |---|---|
//! | what is read | 128 KiB: the second script says that files have this size, and Filebench cuts them (`whole`: everything) |
//! | appends | so many to each file, not 30 s of them: they would fill the device |
//! | contiguous files | written whole, in index order, by one task, as a copy of the tree is (`copied`) |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sim::KIB;
use vfs::Syscalls;

use super::target::{settle, told};
use crate::filebench::{Engine, Options, Overrides, Value, load};
use crate::suite::{How, Job, JobError, Measured, Phase, Processes};

/// The size of a file before appends.
const FILE: u64 = 128 * KIB;

const APPEND: &str = "\
set $dir=/tree
set $files=10000
set $threads=10
set $append=32k
define fileset name=tree,path=$dir,size=128k,entries=$files,dirwidth=20,prealloc=100,paralloc
define process name=server,instances=1
{
  thread name=appender,memsize=10m,instances=$threads
  {
    flowop openfile name=open1,filename=tree,fd=1
    flowop appendfile name=append1,iosize=$append,fd=1
    flowop closefile name=close1,fd=1
  }
}
run 30
";

const COPY: &str = "\
set $dir=/tree
set $files=10000
set $size=384k
define fileset name=tree,path=$dir,size=$size,entries=$files,dirwidth=20,prealloc=100
define process name=server,instances=1
{
  thread name=idle,memsize=10m,instances=1
  {
    flowop statfile name=stat1,filename=tree
  }
}
run 1
";

const READ: &str = "\
set $dir=/tree
set $files=10000
set $threads=10
set $whole=false
define fileset name=tree,path=$dir,size=128k,entries=$files,dirwidth=20,prealloc=100,reuse,trusttree=$whole
define process name=server,instances=1
{
  thread name=reader,memsize=10m,instances=$threads
  {
    flowop openfile name=open1,filename=tree,fd=1,directio
    flowop readwholefile name=read1,iosize=1m,fd=1
    flowop closefile name=close1,fd=1
  }
}
run 60
";

/// What is done.
#[derive(Clone, Debug)]
pub(super) struct FileServer {
    pub(super) files: u64,
    pub(super) threads: u64,
    /// Bytes of an append.
    pub(super) append: u64,
    /// Appends to each file.
    pub(super) appends: u64,
    /// The files are written whole, in order.
    pub(super) copied: bool,
    /// Appended data is read as well.
    pub(super) whole: bool,
    /// The files are made in index order by one task, and not at random by many.
    pub(super) ordered: bool,
}

struct Run {
    plan: FileServer,
    how: How,
    reading: Arc<Engine>,
    calls: Arc<dyn Syscalls>,
    /// Appends to each file that 30 s would have held, at the rate of those that were made.
    in_30_s: AtomicU64,
}

/// An error of the engine in words.
fn words(error: impl std::fmt::Display) -> JobError {
    JobError::Failed(error.to_string())
}

impl FileServer {
    pub(super) fn data_bytes(&self) -> u64 {
        self.files * (FILE + self.append * self.appends)
    }

    pub(super) fn job(self, how: &How, processes: &dyn Processes) -> Result<Arc<dyn Job>, JobError> {
        let whole = if self.whole { Value::Bool(true) } else { Value::Bool(false) };
        let reading = self.engine("read.f", READ, [("whole", whole)], how, |options| {
            options.interrupt.clone_from(&how.interrupt);
            match how.stop {
                crate::suite::Stop::After(time) => options.duration = Some(time),
                crate::suite::Stop::Operations(count) => options.stop_after_ops = Some(count),
            }
        })?;
        let in_30_s = AtomicU64::new(0);
        Ok(Arc::new(Run { plan: self, how: how.clone(), reading, calls: processes.start(), in_30_s }))
    }

    fn engine<const N: usize>(
        &self,
        name: &str,
        text: &str,
        values: [(&str, Value); N],
        how: &How,
        change: impl FnOnce(&mut Options),
    ) -> Result<Arc<Engine>, JobError> {
        let mut overrides: Overrides =
            values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        overrides.insert("files".to_owned(), Value::Int(self.files));
        if text.contains("$threads") {
            overrides.insert("threads".to_owned(), Value::Int(self.threads));
        }
        let program = load(name, text, &overrides).map_err(words)?;
        let mut options = Options::new(how.seed);
        change(&mut options);
        Engine::new(Arc::new(program), options).map_err(words)
    }
}

impl Run {
    /// Makes the tree and lets it grow.
    fn grow(&self) -> Result<(), JobError> {
        let FileServer { files, append, appends, .. } = self.plan;
        let engine = self.plan.engine(
            "append.f",
            APPEND,
            [("append", Value::Int(append))],
            &self.how,
            // Opening, appending and closing are counted.
            |options| {
                options.stop_after_ops = Some(3 * files * appends);
                options.ordered = self.plan.ordered;
            },
        )?;
        engine.prepare(&self.calls).map_err(words)?;
        let outcome = engine.run_with(&|| Arc::clone(&self.calls), &mut |_| ()).map_err(words)?;
        let appends = outcome.written_bytes() / append.max(1);
        let rate = appends as f64 / outcome.elapsed.as_secs_f64();
        self.in_30_s.store((rate * 30.0 / files.max(1) as f64) as u64, Relaxed);
        Ok(())
    }

    /// Writes the files as a copy of the grown tree has them.
    fn copy(&self) -> Result<(), JobError> {
        let FileServer { append, appends, .. } = self.plan;
        let size = Value::Int(FILE + append * appends);
        let engine = self
            .plan
            .engine("copy.f", COPY, [("size", size)], &self.how, |options| options.ordered = true)?;
        engine.prepare(&self.calls).map_err(words)?;
        Ok(())
    }
}

impl Job for Run {
    fn prepare(&self) -> Result<(), JobError> {
        if self.plan.copied {
            self.copy()?;
        } else {
            self.grow()?;
        }
        self.calls.sync().map_err(told("sync"))?;
        settle(&*self.calls)?;
        self.reading.prepare(&self.calls).map_err(words)?;
        Ok(())
    }

    fn work(&self, watch: &mut dyn FnMut(Phase)) -> Result<Measured, JobError> {
        let outcome = self.reading.run_with(&|| Arc::clone(&self.calls), watch).map_err(words)?;
        let pages = outcome.read_bytes() / (4 * KIB);
        Ok(Measured {
            elapsed: outcome.elapsed,
            ops: pages,
            read_ops: pages,
            read_bytes: outcome.read_bytes(),
            steps: outcome.records(),
            counters: BTreeMap::from([
                ("appends_to_each_file".to_owned(), self.plan.appends),
                ("appends_that_30_s_would_hold".to_owned(), self.in_30_s.load(Relaxed)),
            ]),
            notes: outcome.messages.clone(),
            ..Measured::default()
        })
    }

    fn verify(&self, _calls: &dyn Syscalls) -> Result<(), JobError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_are_without_errors_and_warnings() {
        for (name, text) in [("append.f", APPEND), ("copy.f", COPY), ("read.f", READ)] {
            let program = load(name, text, &Overrides::default());
            let program = program.unwrap_or_else(|report| panic!("{report}"));
            assert!(program.warnings.is_empty(), "{name}: {:?}", program.warnings);
        }
    }
}
