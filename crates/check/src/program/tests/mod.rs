//! Small programs, written as the calls of a trace, and what a power loss leaves of them.

mod causes;
mod mapped;
mod mutations;
mod promises;
mod random;
mod rules;
mod seeds;
mod speed;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use trace::contents::{Channel, Sent, Writer, beside};
use trace::record::Kind;

use super::checker::Verdict;
use super::folder::FolderError;
use super::judge::{Asked, Limits, Oracle};
use super::model::Model;
use super::operations::Operations;
use super::run::{Outcome, run};
use super::story::{Acknowledge, Story};
use crate::tree::Tree;

/// A program as its calls.
pub(super) struct Recorded {
    folder: TempDir,
    text: String,
    before: String,
    writer: Option<Writer>,
    calls: u64,
    fds: i32,
    clocks: BTreeMap<u32, u64>,
    thread: u32,
    channel: Channel,
}

const GAP_NS: u64 = 1000;
const CALL_NS: u64 = 100;

impl Recorded {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let out = File::create(beside(&folder.path().join("x.wtrace"))).unwrap();
        let writer = Some(Writer::new(Box::new(out), "id", 1 << 30).unwrap());
        let clocks = BTreeMap::from([(1, 0), (2, 0)]);
        let (text, before) = (String::new(), String::new());
        let channel = Channel::Stdout;
        Self { folder, text, before, writer, calls: 0, fds: 2, clocks, thread: 1, channel }
    }

    fn kept(&mut self) -> &mut Writer {
        self.writer.as_mut().expect("the program has not ended")
    }

    /// A file that existed before.
    pub(super) fn had(&mut self, path: &str, bytes: &[u8]) -> &mut Self {
        let _ = writeln!(self.before, "S f 0644 {} \"{path}\"", bytes.len());
        self.kept().initial(path.as_bytes(), bytes).unwrap();
        self
    }

    /// A folder that existed before.
    pub(super) fn had_folder(&mut self, path: &str) -> &mut Self {
        let _ = writeln!(self.before, "S d 0755 0 \"{path}\"");
        self
    }

    /// A folder that existed before, in which another file system is mounted.
    pub(super) fn had_mount(&mut self, path: &str) -> &mut Self {
        self.kept().mount(path.as_bytes()).unwrap();
        self.had_folder(path)
    }

    /// The calls that follow are of this thread; it begins at a time.
    pub(super) fn thread(&mut self, thread: u32, at_ns: u64) -> &mut Self {
        self.thread = thread;
        self.clocks.insert(thread, at_ns.max(self.clocks[&thread]));
        self
    }

    /// A call that takes so long; it begins after the gap.
    pub(super) fn call_for(&mut self, (gap_ns, took_ns): (u64, u64), call: &str, result: i64) -> &mut Self {
        let begun: u64 = self.clocks[&self.thread] + gap_ns;
        self.clocks.insert(self.thread, begun + took_ns);
        self.calls += 1;
        let _ = writeln!(self.text, "{} {gap_ns} {took_ns} {call} = {result}", self.thread);
        self
    }

    /// A look at a mapped file when the next call, an msync, has returned, or at the end.
    pub(super) fn sample(&mut self, path: &str, parts: &[(u64, &[u8])]) -> &mut Self {
        let calls = self.calls;
        self.kept().sample(calls, path.as_bytes(), parts).unwrap();
        self
    }

    /// A call that begins after the gap and never returns; it would write these bytes.
    pub(super) fn half(&mut self, call: &str, bytes: &[u8]) -> &mut Self {
        let begin_ns = self.clocks[&self.thread] + GAP_NS;
        let (thread, name) = (self.thread, call.split(' ').next().unwrap_or_default());
        let line = format!("{thread} 0 0 {call} = {}", bytes.len());
        let effect = (line.as_bytes(), (!bytes.is_empty()).then_some(bytes), 0);
        let when = (self.calls, thread, begin_ns);
        self.kept().half(when, name.as_bytes(), Some(effect)).unwrap();
        self
    }

    pub(super) fn call(&mut self, call: &str) -> &mut Self {
        self.call_for((GAP_NS, CALL_NS), call, 0)
    }

    pub(super) fn open(&mut self, path: &str, flags: &str) -> i32 {
        self.fds += 1;
        let fd = self.fds;
        self.call_for((GAP_NS, CALL_NS), &format!("open \"{path}\" {flags} 0644"), i64::from(fd));
        fd
    }

    pub(super) fn write(&mut self, fd: i32, bytes: &[u8]) -> &mut Self {
        self.call_for(
            (GAP_NS, CALL_NS),
            &format!("write {fd} {}", bytes.len()),
            bytes.len().cast_signed() as i64,
        );
        let calls = self.calls;
        self.kept().call(calls, bytes, 0).unwrap();
        self
    }

    pub(super) fn pwrite(&mut self, fd: i32, at: u64, bytes: &[u8]) -> &mut Self {
        self.call_for(
            (GAP_NS, CALL_NS),
            &format!("pwrite {fd} {} {at}", bytes.len()),
            bytes.len().cast_signed() as i64,
        );
        let calls = self.calls;
        self.kept().call(calls, bytes, 0).unwrap();
        self
    }

    pub(super) fn set_attribute(&mut self, path: &str, value: &[u8]) -> &mut Self {
        self.call(&format!("setxattr \"{path}\" \"user.x\" {} -", value.len()));
        let calls = self.calls;
        self.kept().call(calls, value, 0).unwrap();
        self
    }

    pub(super) fn fsync(&mut self, fd: i32) -> &mut Self {
        self.call(&format!("fsync {fd}"))
    }

    /// Opens a folder and syncs it.
    pub(super) fn fsync_folder(&mut self, path: &str) -> &mut Self {
        let fd = self.open(path, "rdonly,directory");
        self.fsync(fd)
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> &mut Self {
        self.call(&format!("rename \"{from}\" \"{to}\" -"))
    }

    /// Writes a whole new file.
    pub(super) fn save(&mut self, path: &str, bytes: &[u8]) -> i32 {
        let fd = self.open(path, "wronly,creat,trunc");
        self.write(fd, bytes);
        fd
    }

    /// What is told is sent to a socket.
    pub(super) fn answers_on_a_socket(&mut self) -> &mut Self {
        self.channel = Channel::Socket;
        self
    }

    pub(super) fn told(&mut self, line: &str) -> &mut Self {
        let begin_ns = self.clocks[&self.thread] + GAP_NS;
        let (calls, thread, channel) = (self.calls, self.thread, self.channel);
        let sent = Sent { calls, thread, begin_ns, end_ns: begin_ns + CALL_NS, channel, bytes: 0 };
        self.kept().sent(&sent, format!("{line}\n").as_bytes()).unwrap();
        self
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("x.wtrace")
    }

    /// The trace's text, ended.
    pub(super) fn end(&mut self) -> Story {
        self.writer.take().expect("it ends once").finish().unwrap();
        let (before, text, calls) = (&self.before, &self.text, self.calls);
        let text = format!(
            "#weir-trace 1\n#root /r\n#contents id\n{before}T 1 10 10 \"one\"\nT 2 10 11 \"two\"\nF 1 2 0 thread,files\n\
             {text}E at=1 calls={calls} dropped=0 level=0\n"
        );
        std::fs::write(self.path(), text).unwrap();
        let how = if self.channel == Channel::Socket { Acknowledge::Socket } else { Acknowledge::Lines };
        Story::open(&self.path(), &how, false).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// What a rule sees of a recovered tree.
pub(super) struct View<'a> {
    asked: &'a Asked<'a>,
    story: &'a Story,
}

impl View<'_> {
    fn inode(&self, path: &str) -> Option<u32> {
        let found = self.asked.names.paths.iter().find(|(names, _)| {
            let names: Vec<_> =
                names.iter().map(|name| String::from_utf8_lossy(&self.story.names[*name as usize])).collect();
            names.join("/") == path
        });
        found.map(|(_, inode)| *inode)
    }

    /// The bytes of a file.
    pub(super) fn file(&self, path: &str) -> Option<Vec<u8>> {
        let found = self.asked.trees.found(self.inode(path)?, self.asked.state);
        if found.about.kind != Kind::File {
            return None;
        }
        let mut bytes = vec![0; found.size() as usize];
        let put = &mut |at: u64, part: &[u8]| {
            bytes[at as usize..at as usize + part.len()].copy_from_slice(part);
            Ok::<(), FolderError>(())
        };
        found.contents(put).unwrap();
        Some(bytes)
    }

    /// Whether a file has these bytes.
    pub(super) fn holds(&self, path: &str, bytes: &[u8]) -> bool {
        self.file(path).is_some_and(|own| own == bytes)
    }

    /// Whether a folder is there.
    pub(super) fn folder(&self, path: &str) -> bool {
        self.inode(path).is_some_and(|inode| {
            self.asked.trees.found(inode, self.asked.state).about.kind == Kind::Directory
        })
    }

    pub(super) fn attribute(&self, path: &str) -> bool {
        let found = self.asked.trees.found(self.inode(path).unwrap(), self.asked.state);
        !found.about.attributes.is_empty()
    }

    pub(super) fn target(&self, path: &str) -> Option<Vec<u8>> {
        let found = self.asked.trees.found(self.inode(path)?, self.asked.state);
        found.about.target.map(Vec::from)
    }

    pub(super) fn told(&self) -> String {
        let told = self.asked.acks.checked_sub(1).map_or(0, |last| self.story.acks[last].bytes);
        String::from_utf8_lossy(&self.story.told[..told]).into_owned()
    }
}

pub(super) type Rule = dyn Fn(&View<'_>) -> Result<(), String> + Sync;

struct ByRule<'a> {
    rule: &'a Rule,
}

impl Oracle for ByRule<'_> {
    fn judge(&self, of: &Asked<'_>) -> Result<Verdict, FolderError> {
        // The canaries are other programs: with their own names, which may be none.
        let view = View { asked: of, story: of.trees.story() };
        Ok((self.rule)(&view).map_or_else(Verdict::Broken, |()| Verdict::Sound))
    }

    fn judge_seen(&self, _: &Tree, _: usize, _: usize) -> Result<Verdict, FolderError> {
        Ok(Verdict::Nothing)
    }
}

pub(super) const LIMITS: Limits =
    Limits { states: 3000, time: Duration::from_secs(600), seed: 1, jobs: 1, stop: None };

/// Judges a program by a rule.
pub(super) fn judged(story: &Story, models: &[&str], rule: &Rule) -> Outcome {
    let models: Vec<Model> = models.iter().map(|name| Model::named(name).unwrap()).collect();
    let (oracle, operations) = (ByRule { rule }, Operations::of(story));
    run(story, &operations, &oracle, &models, &LIMITS, true).unwrap()
}

/// The promises that a program breaks on one model: `AD`, `A`, `D` or nothing.
pub(super) fn broken(story: &Story, model: &Model, rule: &Rule) -> String {
    let (oracle, operations) = (ByRule { rule }, Operations::of(story));
    let outcome = run(story, &operations, &oracle, std::slice::from_ref(model), &LIMITS, false).unwrap();
    assert!(outcome.faults.is_empty(), "{:?}", outcome.faults);
    outcome.broken(&model.name)
}
