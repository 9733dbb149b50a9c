//! `weir trace import`: a trace of another program's file.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::json;
use trace::Writer;
use trace::import::strace::{Importer, Start};
use trace::import::{Emitter, ImportError, Sums, dbench, fio, mobigen, nbw};
use trace::record::Head;
use trace::scope::Scope;

use super::NewTrace;
use super::stat::{losses_document, notes_of_counts};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Make a trace of the output of strace, a load file of dbench, or a published trace
#[derive(Args, Debug)]
#[command(after_help = "\
Best output of strace: strace -f -y -s 255 --absolute-timestamps=unix,ns --syscall-times=ns -o FILE PROGRAM. \
Example: weir trace import strace out.txt --root /srv -o srv.wtrace")]
pub(crate) struct Import {
    /// What it is
    #[arg(value_enum, value_name = "strace|dbench|mobigen|nbw|fio", hide_possible_values = true)]
    format: Format,
    /// The files; of nbw, all files of a day; of strace -ff, those of all processes
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The new trace
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Store only calls on files below this directory; may be given several times [default: all files]
    #[arg(long, value_name = "DIR")]
    root: Vec<PathBuf>,
    /// Where the program was started, for output of strace without -y [default: the root, or /]
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    directory: Option<PathBuf>,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Strace,
    Dbench,
    Mobigen,
    Nbw,
    #[value(hide = true)]
    Ibench,
    #[value(hide = true)]
    Lasr,
    Fio,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Strace => "strace",
            Self::Dbench => "dbench",
            Self::Mobigen => "mobigen",
            Self::Nbw => "nbw",
            Self::Ibench => "ibench",
            Self::Lasr => "lasr",
            Self::Fio => "fio",
        }
    }
}

/// A source that is read to its end, and what messages call it.
type Source = (BufReader<Box<dyn Read>>, String);

impl Import {
    /// Formats that a user may have heard of here.
    fn unknown(&self) -> Failure {
        let name = self.format.name();
        let why = "we have found no description of its lines, and none is guessed";
        Failure::usage(format!(
            "traces of {name} cannot be imported: {why}; convert them to the format of docs/traces.md"
        ))
    }

    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        if matches!(self.format, Format::Ibench | Format::Lasr) {
            return Err(self.unknown());
        }
        let sources = self.sources()?;
        let scope = self.scope()?;
        let mut head = Head::new(&format!("import {}", self.format.name()), scope.base());
        let names: Vec<_> = self.files.iter().map(|file| file.display().to_string()).collect();
        head.set("imported", names.join(" ").as_bytes());
        let clock: &[u8] = if self.format == Format::Strace { b"traced" } else { b"wall" };
        head.set("clock", clock);
        let (new, out) = NewTrace::create(&self.output)?;
        let done = self.import(sources, scope, &head, out, output);
        let sums = new.settle(done)?;
        self.tell(output, &sums);
        Ok(())
    }

    /// The files, unpacked where they are compressed.
    fn sources(&self) -> Result<Vec<Source>, Failure> {
        let open = |path: &PathBuf| {
            let name = path.display().to_string();
            let file = File::open(path).map_err(|error| Failure::io("read", path, &error))?;
            let is_gzip = path.extension().is_some_and(|end| end == "gz");
            let source: Box<dyn Read> =
                if is_gzip { Box::new(flate2::read::MultiGzDecoder::new(file)) } else { Box::new(file) };
            Ok((BufReader::with_capacity(256 << 10, source), name))
        };
        if self.files.len() > 1 && !matches!(self.format, Format::Nbw | Format::Strace) {
            return Err(Failure::usage(
                "only traces of nbw and of strace -ff have several files; import the others one by one",
            ));
        }
        self.files.iter().map(open).collect()
    }

    fn scope(&self) -> Result<Scope, Failure> {
        if !self.root.is_empty() && self.format != Format::Strace {
            return Err(Failure::usage("--root is for strace; the other formats have one tree"));
        }
        if let Some(relative) = self.root.iter().find(|root| !root.is_absolute()) {
            return Err(Failure::usage(format!(
                "--root {}: give the directory as the program named it, from / on",
                relative.display()
            )));
        }
        let roots: Vec<&[u8]> = self.root.iter().map(|root| root.as_os_str().as_bytes()).collect();
        Ok(if roots.is_empty() { Scope::new(&[b"/"]) } else { Scope::new(&roots) })
    }

    fn import(
        &self,
        mut sources: Vec<Source>,
        scope: Scope,
        head: &Head,
        out: BufWriter<File>,
        output: &Output,
    ) -> Result<Sums, Failure> {
        let failed = |error: std::io::Error| Failure::io("write", &self.output, &error);
        let emitter = Emitter::new(Writer::new(out, head, true).map_err(failed)?);
        if self.format == Format::Nbw {
            return finished(nbw::import(sources, emitter).map_err(|error| refused(&error))?);
        }
        if self.format == Format::Strace {
            return self.strace(sources, scope, emitter, output);
        }
        let Some((source, name)) = sources.pop() else { return Err(Failure::usage("name a file")) };
        let done = match self.format {
            Format::Dbench => dbench::import(source, &name, emitter).map_err(|error| refused(&error))?,
            Format::Mobigen => mobigen::import(source, &name, emitter).map_err(|error| refused(&error))?,
            Format::Fio => fio::import(source, &name, emitter).map_err(|error| refused(&error))?,
            Format::Ibench | Format::Lasr => return Err(self.unknown()),
            Format::Nbw | Format::Strace => return Err(Failure::usage("name the files of a day")),
        };
        finished(done)
    }

    fn strace(
        &self,
        mut sources: Vec<Source>,
        scope: Scope,
        emitter: Emitter<BufWriter<File>>,
        output: &Output,
    ) -> Result<Sums, Failure> {
        let root = self.root.first().cloned().unwrap_or_else(|| PathBuf::from("/"));
        let directory = self.directory.clone().unwrap_or(root);
        let mut importer = Importer::new(emitter, scope, Start::Unknown, directory.as_os_str().as_bytes());
        let read = match (sources.len(), sources.pop()) {
            (1, Some((source, name))) => importer.read(source, &name),
            (_, last) => {
                sources.extend(last);
                importer.read_each(sources)
            }
        };
        read.map_err(|error| refused(&error))?;
        if let Some((lines, first, why)) = importer.strange() {
            output.note(&format!(
                "note: {lines} lines were not understood, the first is line {first} ({why}); the trace counts them as lost"
            ));
        }
        finished(importer.finish(None).map_err(|error| Failure::io("write", &self.output, &error))?)
    }

    fn tell(&self, output: &Output, sums: &Sums) {
        if output.is_json() {
            output.document(&json!({
                "schema": "weir.trace-import/1",
                "file": self.output,
                "calls": sums.calls,
                "threads": sums.threads,
                "span_ns": sums.span_ns,
                "not_stored": sums.counts,
                "lost": sums.losses.calls(),
                "losses": losses_document(&sums.losses),
            }));
            return;
        }
        let span = sums.span_ns as f64 / 1e9;
        output.note(&format!(
            "{}: {} calls of {} threads, {span:.3} s",
            self.output.display(),
            sums.calls,
            sums.threads
        ));
        for line in notes_of_counts(&sums.counts) {
            output.note(&format!("  not stored: {line}"));
        }
        for line in sums.losses.lines() {
            output.note(&format!("  missing: {line}"));
        }
        if let Some(names) = sums.losses.names() {
            output.note(&format!(
                "note: {} calls or more are missing ({names}), so that a replay would differ",
                sums.losses.calls()
            ));
        }
    }
}

fn finished((out, sums): (BufWriter<File>, Sums)) -> Result<Sums, Failure> {
    out.into_inner().map(|_| sums).map_err(|error| Failure::new(Exit::Run, error.to_string()))
}

fn refused(error: &ImportError) -> Failure {
    let exit = if matches!(error, ImportError::Io(_)) { Exit::Run } else { Exit::Usage };
    Failure::new(exit, error.to_string())
}
