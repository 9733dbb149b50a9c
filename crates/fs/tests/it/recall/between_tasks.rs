//! Lines that flush or fence for another task, or for a rare state: in few programs does their loss show. Each is left out
//! throughout
//! in a program that shows it; `docs/models/fences.md` has a row for each, since other programs run the line without need.

use check::Limits;
use check::crash::programs::{self, Program};
use check::crash::{Effort, Subject, Watch, explore_many};
use check::op::{File, Op, Pattern};
use media::fault::{Fault, Target};
use media::recorder::Mode;
use sim::Bytes;

use super::SEED;
use super::fences::lines_called;
use crate::shared::harness::{promises, with_options};

const PMFS: &[(&str, &str)] = &[("jsize", "64k")];
/// A small buffer, with two tasks that write back.
const TWO: &[(&str, &str)] =
    &[("jsize", "64k"), ("buffer", "16k"), ("medium_write", "200ns"), ("writeback_tasks", "2")];

/// A chunk of 32 inodes at a time.
const NOVA: &[(&str, &str)] = &[("shards", "1"), ("log_page", "512"), ("inode_chunk", "4k")];

type Given = &'static [(&'static str, &'static str)];

fn subject(design: &str, options: Given) -> Subject {
    Subject {
        design: with_options(design, options),
        size: Bytes::mib(1),
        promises: promises(design, options),
        mode: Mode::Adr,
    }
}

fn write(offset: u64, len: usize, tag: u8) -> Op {
    Op::Write(File::At("foo".into()), Some(offset), Pattern { len, tag })
}

fn fsync() -> Op {
    Op::Fsync(File::At("foo".into()))
}

fn foo(len: usize) -> Vec<Op> {
    vec![Op::Create("foo".into()), write(0, len, 1)]
}

/// Two operations at once.
fn pair(name: &str, setup: Vec<Op>, one: Op, other: Op) -> Program {
    Program { together: true, ..Program::new(name, setup, vec![one, other]) }
}

/// What fills the chunks of a table of inodes. The next chunk comes to lie where a file was.
fn full_table() -> Vec<Op> {
    let was = Op::Write(File::At("gone".into()), Some(0), Pattern { len: 600_000, tag: 9 });
    let files = (0..29).map(|number| Op::Create(format!("f{number}")));
    let begin = [Op::Create("gone".into()), was, Op::Unlink("gone".into()), Op::Mkdir("dir".into())];
    begin.into_iter().chain(files).collect()
}

fn creat_in_a_full_table() -> Program {
    Program::new("creat in a full table", full_table(), vec![Op::Create("foo".into())])
}

/// In which of so many seeds a case is explored until one shows the loss: the task that fences must go first.
const SEEDS: u64 = 40;

/// Whether crashes of a program show a violation under `faults`, with one of these seeds.
fn shows(subject: &Subject, program: &Program, faults: &[Fault], seeds: u64) -> bool {
    let watch = Watch { limits: Limits::of(1), explored: &|_| () };
    let one = |_: usize| program.clone();
    (0..seeds).any(|seed| {
        let effort = Effort { violations_max: 1, ..Effort::usual(SEED + 3 * seed, 0) };
        !explore_many(subject, (1, &one), (&effort, faults), &watch).violations.is_empty()
    })
}

/// The name of a line as the document has it, what it asks for, on what, and a program that shows its loss.
fn cases() -> Vec<(&'static str, Target, Subject, Program)> {
    let eager = || [foo(4096), vec![fsync(), write(0, 64, 2), fsync(), write(0, 64, 3), fsync()]].concat();
    let link = Op::Symlink("dir/link".into(), 100);
    let nameless = programs::nameless().into_iter().find(|program| program.name == "name a nameless file");
    vec![
        (
            "pmfs/truncate.rs truncate_resize flush 1",
            Target::Flush,
            subject("pmfs", PMFS),
            nameless.expect("a program"),
        ),
        (
            "hinfs/file.rs grow fence 1",
            Target::Fence,
            subject("hinfs", TWO),
            pair("grow, fsync", vec![Op::Create("foo".into())], write(3001, 7003, 2), fsync()),
        ),
        (
            "hinfs/file.rs write_pieces fence 1",
            Target::Fence,
            subject("hinfs", TWO),
            pair("write past the buffer, fsync", eager(), write(64, 128, 4), fsync()),
        ),
        (
            "hinfs/in_flight.rs write_out fence 1",
            Target::Fence,
            subject("hinfs", TWO),
            pair("write blocks, sync", foo(100), write(100, 12_000, 2), Op::Sync),
        ),
        (
            "nova/recovery.rs store_clean flush 1",
            Target::Flush,
            subject("nova", NOVA),
            Program::new("remount, write", foo(4096), vec![Op::Remount, write(0, 12_000, 2)]),
        ),
        ("nova/inode.rs link_chunk flush 1", Target::Flush, subject("nova", NOVA), creat_in_a_full_table()),
        (
            "nova/inode.rs link_chunk fence 2",
            Target::Fence,
            subject("nova", NOVA),
            pair("symlink, creat", full_table(), link, Op::Create("foo".into())),
        ),
        ("nova/inode.rs link_chunk fence 1", Target::Fence, subject("nova", NOVA), creat_in_a_full_table()),
    ]
}

#[test]
fn what_is_flushed_or_fenced_for_another_task_is_missed_when_the_line_is_gone() {
    let mut unseen = Vec::new();
    for (name, target, subject, program) in cases() {
        assert!(!shows(&subject, &program, &[], 4), "{name}: the program itself");
        let file = name.split(' ').next().unwrap_or_default();
        let file: &'static str = Box::leak(format!("crates/fs/src/{file}").into_boxed_str());
        let lines = lines_called(name);
        assert_eq!(lines.len(), 1, "{name}: lines {lines:?}");
        let fault = Fault::DropLine { target, file, line: lines[0] };
        match shows(&subject, &program, &[fault], SEEDS) {
            false => unseen.push(name),
            true => println!("{name}: {} shows the loss", program.name),
        }
    }
    assert_eq!(unseen, [""; 0]);
}
