//! `weir trace anonymize`, `cut`, `compile`: another file from a trace.

use std::fs::File;
use std::io::{BufWriter, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use trace::anonymize::Anonymizer;
use trace::compile::{self, Packed, Summary};
use trace::cut::Part;
use trace::record::{End, Record};
use trace::{Ending, Error, Reader, Writer};

use super::stat::{cut_note, losses_document};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// A file that is written beside its place and put there when it is whole.
#[derive(Debug)]
pub(crate) struct NewTrace {
    path: PathBuf,
    part: PathBuf,
}

impl NewTrace {
    /// Begins a file. One that is there is not overwritten.
    pub(crate) fn create(path: &Path) -> Result<(Self, BufWriter<File>), Failure> {
        if path.exists() {
            let what = format!("{} exists: name another file with -o, or remove it", path.display());
            return Err(Failure::usage(what));
        }
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = File::create(&part).map_err(|error| Failure::io("create", &part, &error))?;
        Ok((Self { path: path.to_owned(), part }, BufWriter::with_capacity(256 << 10, file)))
    }

    /// Puts it in its place.
    fn keep(self) -> Result<(), Failure> {
        std::fs::rename(&self.part, &self.path).map_err(|error| Failure::io("write", &self.path, &error))
    }

    /// Keeps it if all went well, removes it otherwise.
    pub(crate) fn settle<T>(self, done: Result<T, Failure>) -> Result<T, Failure> {
        match done {
            Ok(value) => self.keep().map(|()| value),
            Err(failure) => {
                let _ = std::fs::remove_file(&self.part);
                Err(failure)
            }
        }
    }
}

fn unwritten(path: &Path) -> impl Fn(std::io::Error) -> Failure + '_ {
    |error| Failure::io("write", path, &error)
}

/// Replace every name, so that a trace can be given away
#[derive(Args, Debug)]
#[command(after_help = "\
Equal names stay equal, under HMAC-SHA-256: the tree has the same shape. Without --key-file the key is random and not kept. Sizes, \
times, numbers of processes and results stay.")]
pub(crate) struct Anonymize {
    /// The trace
    #[arg(value_name = "TRACE")]
    file: PathBuf,
    /// The new trace
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Take the key from this file, so that several traces get the same names
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Keep what stands behind the last dot of names
    #[arg(long)]
    keep_extensions: bool,
}

/// Bytes of a key that is drawn.
const KEY_BYTES: u64 = 32;

impl Anonymize {
    fn key(&self) -> Result<Vec<u8>, Failure> {
        if let Some(path) = &self.key_file {
            let key = std::fs::read(path).map_err(|error| Failure::io("read", path, &error))?;
            if key.is_empty() {
                return Err(Failure::usage(format!(
                    "{} is empty: a key has at least one byte",
                    path.display()
                )));
            }
            return Ok(key);
        }
        let (path, mut key) = (Path::new("/dev/urandom"), Vec::new());
        let drawn = File::open(path).and_then(|file| file.take(KEY_BYTES).read_to_end(&mut key));
        drawn.map_err(|error| Failure::io("read", path, &error)).map(|_| key)
    }

    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let mut anonymizer = Anonymizer::new(&self.key()?, self.keep_extensions);
        let reader = Reader::open(&self.file)?;
        let head = anonymizer.head(reader.head());
        let (new, out) = NewTrace::create(&self.output)?;
        let done = self.copy(reader, Writer::new(out, &head, true), &mut anonymizer, output);
        let calls = new.settle(done)?;
        tell(output, "anonymize", &self.output, calls);
        Ok(())
    }

    fn copy(
        &self,
        mut reader: Reader,
        writer: std::io::Result<Writer<BufWriter<File>>>,
        anonymizer: &mut Anonymizer,
        output: &Output,
    ) -> Result<u64, Failure> {
        let mut writer = writer.map_err(unwritten(&self.output))?;
        while let Some(record) = reader.next()? {
            writer.write(&anonymizer.record(record)).map_err(unwritten(&self.output))?;
        }
        if let Ending::Cut(line) = reader.ending() {
            output.note(&cut_note(&self.file, line));
        }
        writer.flush().map_err(unwritten(&self.output))?;
        Ok(writer.calls())
    }
}

fn tell(output: &Output, what: &str, file: &Path, calls: u64) {
    if output.is_json() {
        output.document(&json!({ "schema": format!("weir.trace-{what}/1"), "file": file, "calls": calls }));
    } else {
        output.note(&format!("{}: {calls} calls", file.display()));
    }
}

/// Keep a part of a trace, by time, process or count of calls
#[derive(Args, Debug)]
#[command(after_help = "\
What earlier or other calls have made and the part needs, it gets as something that existed: files, open descriptors, threads. \
Example: weir trace cut a.wtrace --from 10 --until 20 -o b.wtrace")]
pub(crate) struct Cut {
    /// The trace
    #[arg(value_name = "TRACE")]
    file: PathBuf,
    /// The new trace
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Keep calls that begin at this time or later, in seconds from the beginning
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    from: Option<u64>,
    /// Keep calls that begin before this time
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    until: Option<u64>,
    /// Keep calls of this process; may be given several times
    #[arg(long, value_name = "PID")]
    process: Vec<u32>,
    /// Keep the first N calls, or those from M to N
    #[arg(long, value_name = "[M..]N", value_parser = range)]
    calls: Option<(u64, u64)>,
}

/// Seconds as nanoseconds.
fn seconds(word: &str) -> Result<u64, String> {
    let seconds: f64 = word.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if !(0.0..1e9).contains(&seconds) {
        return Err("not a time from 0 to a billion seconds".to_owned());
    }
    Ok((seconds * 1e9) as u64)
}

fn range(word: &str) -> Result<(u64, u64), String> {
    let (first, last) = word.split_once("..").unwrap_or(("1", word));
    let number = |word: &str| word.parse::<u64>().ok().filter(|number| *number > 0);
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => Ok((first, last)),
        _ => Err("give N, or M..N with 1 <= M <= N".to_owned()),
    }
}

impl Cut {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let part = Part {
            from_ns: self.from,
            until_ns: self.until,
            processes: self.process.clone(),
            first_call: self.calls.map(|(first, _)| first),
            last_call: self.calls.map(|(_, last)| last),
        };
        let nothing = part.from_ns.is_none() && part.until_ns.is_none();
        if nothing && part.processes.is_empty() && self.calls.is_none() {
            return Err(Failure::usage("say which part: --from, --until, --process or --calls"));
        }
        let reader = Reader::open(&self.file)?;
        let head = trace::cut::head(reader.head(), &part);
        let (new, out) = NewTrace::create(&self.output)?;
        let writer = Writer::new(out, &head, true).map_err(unwritten(&self.output));
        let done = writer.and_then(|writer| self.copy(reader, writer, &part));
        let calls = new.settle(done)?;
        tell(output, "cut", &self.output, calls);
        if calls == 0 {
            output.note("note: the part has no call");
        }
        Ok(())
    }

    fn copy(&self, reader: Reader, mut writer: Writer<BufWriter<File>>, part: &Part) -> Result<u64, Failure> {
        let path = self.output.display().to_string();
        let mut write =
            |record: &Record| writer.write(record).map_err(|error| Error::Io { file: path.clone(), error });
        let end: End = trace::cut::cut(reader, part, &mut write)?;
        let calls = writer.calls();
        writer.finish([], end).map_err(unwritten(&self.output))?;
        Ok(calls)
    }
}

/// Resolve names and descriptors, and find the order of a replay
#[derive(Args, Debug)]
#[command(after_help = "\
A replay compiles a trace by itself; a compiled one begins sooner. The file is for this version of Weir: keep the trace.")]
pub(crate) struct Compile {
    /// The trace
    #[arg(value_name = "TRACE")]
    file: PathBuf,
    /// The compiled trace
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Take a trace that has lost calls, and leave out calls on descriptors that no call has opened
    #[arg(long)]
    allow_drops: bool,
}

impl Compile {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let reader = Reader::open(&self.file)?;
        let (new, out) = NewTrace::create(&self.output)?;
        let done = self.compile(reader, out);
        let sums = new.settle(done)?;
        if let Some(line) = sums.cut_after {
            output.note(&cut_note(&self.file, line));
        }
        if output.is_json() {
            output.document(&self.document(&sums));
        } else {
            output.data(&sentences(&sums));
        }
        Ok(())
    }

    fn compile(&self, reader: Reader, out: BufWriter<File>) -> Result<Summary, Failure> {
        let mut packed = Packed::new(out, &self.output.display().to_string())?;
        let sums = compile::compile(reader, compile::Options { allow_drops: self.allow_drops }, &mut packed)?;
        let out = packed.finish()?;
        let written = out.into_inner().map_err(|error| Failure::new(Exit::Run, error.to_string()));
        written.map(|_| sums)
    }

    fn document(&self, sums: &Summary) -> serde_json::Value {
        json!({
            "schema": "weir.trace-compile/1",
            "file": self.output,
            "steps": sums.steps,
            "calls": sums.calls,
            "waits": sums.waits,
            "handles": sums.handles,
            "unopened": sums.unopened,
            "contradictions": sums.contradictions,
            "lost": sums.lost,
            "losses": losses_document(&sums.losses),
            "cut_after": sums.cut_after,
            "level_ns": sums.level_ns,
            "span_ns": sums.span_ns,
        })
    }
}

fn sentences(sums: &Summary) -> String {
    let steps = format!(
        "{} steps of {} calls, {} handles, {} waits for other threads\n",
        sums.steps, sums.calls, sums.handles, sums.waits
    );
    let others = [
        (sums.unopened, "calls on descriptors that no call has opened are left out"),
        (sums.contradictions, "results contradict what the trace shows before; a replay will differ there"),
        (sums.lost, "calls are missing in the trace"),
    ];
    let others = others.iter().filter(|(count, _)| *count > 0);
    let text = others.fold(steps, |text, (count, what)| format!("{text}{count} {what}\n"));
    sums.losses.lines().iter().fold(text, |text, line| format!("{text}  {line}\n"))
}
