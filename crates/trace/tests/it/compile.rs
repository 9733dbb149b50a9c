//! The order of a compiled trace: what must wait waits, and what need not does not.

use std::collections::BTreeSet;

use trace::call::Op;
use trace::compile::{Options, Packed, Program, Wait, compile};

use crate::shared::{compiled, reader, steps_of};

const TWO: &str = "T 1 1 1 \"\"\nT 2 1 2 \"\"\nF 1 2 0 thread,files\n";

fn two(calls: &str) -> Program {
    compiled(&format!("{TWO}{calls}"))
}

/// All steps that end before a step begins, by its thread's order and by waits.
fn before(program: &Program, step: u32) -> BTreeSet<u32> {
    let (mut found, mut open) = (BTreeSet::new(), vec![step]);
    while let Some(step) = open.pop() {
        let thread = program.get(step).thread;
        let of = &program.threads[program.thread_at(thread).unwrap()].steps;
        let place = of.iter().position(|own| *own == step).unwrap();
        let waits = program.waits(step).iter().map(|Wait { thread, step }| {
            program.threads[program.thread_at(*thread).unwrap()].steps[*step as usize]
        });
        let earlier = waits.chain(place.checked_sub(1).map(|place| of[place]));
        for step in earlier {
            if found.insert(step) {
                open.push(step);
            }
        }
    }
    found
}

/// Whether the call of the later line of the test's text waits for that of the earlier.
fn waits(program: &Program, earlier: usize, later: usize) -> bool {
    let lines = |line| *steps_of(program, line).last().unwrap();
    before(program, lines(later)).contains(&lines(earlier))
}

#[test]
fn a_write_waits_for_reads_and_reads_for_the_write_but_not_for_each_other() {
    let program = two("\
1 0 0 open \"f\" rdwr,creat 0 = 3
1 0 0 pread 3 4 0 = 4
2 0 0 pread 3 4 0 = 4
2 0 0 pwrite 3 4 0 = 4
1 0 0 pread 3 4 0 = 4
");
    assert!(!waits(&program, 5, 6), "two reads");
    assert!(waits(&program, 5, 7), "the write after the read of another thread");
    assert!(waits(&program, 7, 8), "the read after the write");
    assert!(waits(&program, 4, 6), "a use after the open");
}

#[test]
fn files_of_different_threads_do_not_wait() {
    let program = two("\
1 0 0 open \"a\" wronly,creat 0 = 3
2 0 0 open \"b\" wronly,creat 0 = 4
1 0 0 write 3 4 = 4
2 0 0 write 4 4 = 4
");
    assert!(!waits(&program, 6, 7) && !waits(&program, 4, 5));
}

#[test]
fn a_file_that_is_handed_on_by_a_rename_is_waited_for() {
    let program = two("\
1 0 0 open \"t\" wronly,creat,excl 0 = 3
1 0 0 write 3 9 = 9
1 0 0 close 3 = 0
1 0 0 rename \"t\" \"ready\" - = 0
2 0 0 open \"ready\" rdonly 0 = 3
2 0 0 read 3 100 = 9
2 0 0 unlink \"ready\" = 0
1 0 0 open \"t\" wronly,creat,excl 0 = 4
1 0 0 rename \"t\" \"ready\" - = 0
");
    assert!(waits(&program, 7, 8));
    assert!(waits(&program, 10, 12), "the name can be given again when it is free");
    assert!(!waits(&program, 10, 11), "another name does not wait");
}

#[test]
fn a_failed_look_up_happens_while_the_name_is_absent() {
    let program = two("\
1 0 0 stat \"x\" = -ENOENT
2 0 0 open \"x\" wronly,creat,excl 0 = 3
1 0 0 stat \"x\" = 0
2 0 0 unlink \"x\" = 0
1 0 0 stat \"x\" = -ENOENT
");
    assert!(waits(&program, 4, 5) && waits(&program, 5, 6) && waits(&program, 6, 7) && waits(&program, 7, 8));
}

#[test]
fn the_position_of_an_open_file_is_used_in_order() {
    let program = two("\
S f 0644 100 \"f\"
1 0 0 open \"f\" rdonly 0 = 3
1 0 0 read 3 10 = 10
2 0 0 read 3 10 = 10
1 0 0 read 3 10 = 10
");
    assert!(waits(&program, 6, 7) && waits(&program, 7, 8));
}

#[test]
fn forks_vforks_and_waits_order_parents_and_children() {
    let program = compiled(
        "\
T 1 1 1 \"\"
1 0 0 mkdir \"a\" 0755 = 0
T 2 2 2 \"\"
F 1 2 0 vfork
2 0 0 mkdir \"b\" 0755 = 0
2 0 0 exec \"/bin/x\" = 0
1 0 9 fork 2 = 0
2 0 0 mkdir \"c\" 0755 = 0
X 2 0 exit 0
1 0 5 wait 2 = 0
",
    );
    assert!(waits(&program, 2, 5) && waits(&program, 6, 7) && waits(&program, 8, 10));
    assert!(!waits(&program, 8, 7), "what the child does after exec");
}

#[test]
fn a_listing_waits_for_changes_of_names_and_these_for_the_listing_but_not_for_each_other() {
    let program = two("\
1 0 0 open \"d\" rdonly,directory 0 = 3
2 0 0 mkdir \"d/a\" 0755 = 0
1 0 0 mkdir \"d/b\" 0755 = 0
1 0 0 getdents 3 32768 = 96
2 0 0 rmdir \"d/a\" = 0
");
    assert!(waits(&program, 5, 7), "the listing has the name");
    assert!(waits(&program, 7, 8), "and has had it before it goes");
    assert!(!waits(&program, 5, 6), "two names");
}

#[test]
fn what_exists_at_the_end_is_known_with_its_sizes() {
    let program = compiled(
        "\
T 1 1 1 \"\"
S f 0644 10 \"old\"
S f 0644 20 \"gone\"
1 0 0 mkdir \"d\" 0755 = 0
1 0 0 open \"d/t\" wronly,creat 0600 = 3
1 0 0 write 3 7 = 7
1 0 0 pwrite 3 1 99 = 1
1 0 0 rename \"d\" \"e\" - = 0
1 0 0 link \"e/t\" \"u\" = 0
1 0 0 unlink \"gone\" = 0
1 0 0 symlink \"l\" \"e/t\" = 0
1 0 0 truncate \"old\" 3 = 0
",
    );
    let found: Vec<_> = program
        .last
        .iter()
        .map(|entry| {
            (String::from_utf8_lossy(&entry.path).into_owned(), entry.kind.letter() as char, entry.size)
        })
        .collect();
    let wanted = [("e", 'd', 0), ("l", 'l', 0), ("old", 'f', 3), ("u", 'f', 100), ("e/t", 'f', 100)];
    assert_eq!(found, wanted.map(|(path, kind, size)| (path.to_owned(), kind, size)));
}

#[test]
fn locks_are_taken_in_the_recorded_order() {
    let program = compiled(
        "\
T 1 1 1 \"\"
T 2 2 2 \"\"
1 0 0 open \"f\" rdwr,creat 0 = 3
2 0 0 open \"f\" rdwr 0 = 3
1 0 0 flock 3 ex = 0
1 0 0 flock 3 un = 0
2 0 0 flock 3 ex = 0
",
    );
    assert!(waits(&program, 6, 7));
}

#[test]
fn a_handle_is_closed_when_the_last_process_closes_it() {
    let program = compiled(
        "\
T 1 1 1 \"\"
1 0 0 open \"f\" rdwr,creat 0 = 3
T 2 2 2 \"\"
F 1 2 0 -
1 0 0 close 3 = 0
2 0 0 write 3 4 = 4
2 0 0 close 3 = 0
",
    );
    let (first, last) = (steps_of(&program, 5)[0], steps_of(&program, 7)[0]);
    assert_eq!(program.get(first).call.fd, None, "the child has it still");
    assert_eq!(program.get(last).call.fd, program.get(1).call.fd.or(program.get(0).opens));
}

#[test]
fn exec_exit_and_dup2_close_what_they_close() {
    let program = compiled(
        "\
T 1 1 1 \"\"
1 0 0 open \"a\" rdwr,creat,cloexec 0 = 3
1 0 0 open \"b\" rdwr,creat 0 = 4
1 0 0 open \"c\" rdwr,creat 0 = 5
1 0 0 dup 5 - = 4
1 0 0 exec \"/bin/x\" = 0
1 0 0 write 4 1 = 1
X 1 0 exit 0
",
    );
    let implied = |line| -> usize {
        steps_of(&program, line).iter().filter(|step| program.get(**step).implied).count()
    };
    assert_eq!((implied(5), implied(6), implied(8)), (1, 1, 2));
}

#[test]
fn what_existed_before_is_found_without_a_snapshot() {
    let program = compiled(
        "\
T 1 1 1 \"\"
1 0 0 open \"d/f\" rdonly 0 = 3
1 0 0 pread 3 100 4000 = 96
1 0 0 open \"d/g\" wronly,creat,trunc 0 = 4
1 0 0 lseek 3 0 end = 5000
1 0 0 rename \"d\" \"e\" - = 0
1 0 0 stat \"e/h\" = 0
1 0 0 stat \"e/none\" = -ENOENT
",
    );
    let found: Vec<_> = program
        .initial
        .iter()
        .map(|entry| (String::from_utf8_lossy(&entry.path).into_owned(), entry.size))
        .collect();
    let wanted = [("d", 0), ("d/f", 5000), ("d/h", 0)].map(|(path, size)| (path.to_owned(), size));
    assert_eq!(found, wanted);
    assert_eq!(program.summary.contradictions, 0);
}

/// `O_TMPFILE` as it is in memory, and as strace spells it.
#[test]
fn a_file_that_gets_its_name_later_is_a_file() {
    for flags in ["rdwr,directory,tmpfile", "rdwr,tmpfile"] {
        let program = compiled(&format!(
            "T 1 1 1 \"\"\n1 0 0 open \".\" {flags} 0644 = 3\n1 0 0 write 3 5 = 5\n1 0 0 linkfd 3 \"named\" = 0\n\
             1 0 0 write 3 2 = 2\n"
        ));
        let last: Vec<_> = program.last.iter().map(|entry| (&*entry.path, entry.kind, entry.size)).collect();
        assert_eq!(last, [(&b"named"[..], trace::record::Kind::File, 7)], "{flags}");
    }
}

#[test]
fn hard_and_symbolic_links_lead_to_one_file() {
    let program = two("\
S f 0644 10 \"a\" =7
S f 0644 10 \"b\" =7
S l 0777 0 \"l\" \"b\"
1 0 0 truncate \"a\" 5 = 0
2 0 0 stat \"l\" = 0
");
    assert!(waits(&program, 7, 8));
    assert_eq!(program.initial.len(), 3);
}

#[test]
fn a_call_on_a_descriptor_that_was_never_opened_is_told_with_line_and_call() {
    let lines = "T 1 1 1 \"\"\n1 0 0 write 7 4 = 4\n1 0 0 read 9 4 = -EBADF\n";
    let refused = Program::compile(reader(lines), Options::default()).unwrap_err().to_string();
    assert!(refused.starts_with("t:4: write: descriptor 7 was never opened"), "{refused}");
    let program = Program::compile(reader(lines), Options { allow_drops: true }).unwrap();
    assert_eq!((program.summary.unopened, program.summary.calls), (1, 1));
    assert_eq!(program.get(0).call.fd, None);
}

#[test]
fn a_trace_that_lost_calls_is_refused_unless_allowed() {
    let lines = "T 1 1 1 \"\"\n1 0 0 sync = 0\nE at=0 calls=1 dropped=2 level=0\n";
    let refused = Program::compile(reader(lines), Options::default()).unwrap_err().to_string();
    assert!(refused.contains("2 calls are missing") && refused.contains("--allow-drops"), "{refused}");
    assert_eq!(Program::compile(reader(lines), Options { allow_drops: true }).unwrap().summary.lost, 2);
}

#[test]
fn a_cut_trace_compiles_as_far_as_it_goes() {
    let program = compiled("T 1 1 1 \"\"\n1 0 0 sync = 0\n1 0 0 sync");
    assert_eq!((program.summary.calls, program.summary.cut_after), (1, Some(4)));
}

#[test]
fn a_packed_program_is_the_program() {
    let lines = format!(
        "{TWO}\
S l 0777 0 \"l\" \"b\"
1 1/2/3 4 open \"\\xff\" rdwr,creat 0600 = 3
2 0 0 write 3 9 = 9
1 0 0 pread 3 4 0 = 4
2 0 0 rename \"\\xff\" \"y\" - = 0
1 0 0 setxattr \"y\" \"user.a\" 3 - = -EPERM
"
    );
    let mut packed = Packed::new(Vec::new(), "p").unwrap();
    let summary = compile(reader(&lines), Options::default(), &mut packed).unwrap();
    let bytes = packed.finish().unwrap();
    let (loaded, direct) = (Program::load(&bytes[..], "p").unwrap(), compiled(&lines));
    assert_eq!(loaded.summary, summary);
    assert_eq!(loaded.steps(), direct.steps());
    assert_eq!((&loaded.paths, &loaded.initial), (&direct.paths, &direct.initial));
    assert_eq!(loaded.last, direct.last);
    let waits = |program: &Program| -> Vec<Vec<Wait>> {
        (0..program.steps().len() as u32).map(|step| program.waits(step).to_vec()).collect()
    };
    assert_eq!(waits(&loaded), waits(&direct));
    for end in 0..bytes.len() {
        assert!(Program::load(&bytes[..end], "p").is_err(), "{end}");
    }
}

#[test]
fn the_order_of_four_threads_that_hand_files_on_gives_the_recorded_results() {
    // Each file is made by one thread, renamed by the next, read by the third, removed by the fourth.
    let mut lines = String::new();
    (1..=4).for_each(|thread| lines += &format!("T {thread} 1 {thread} \"\"\n"));
    (2..=4).for_each(|thread| lines += &format!("F 1 {thread} 0 thread,files\n"));
    for round in 0..200 {
        let at = |place: usize| (round + place) % 4 + 1;
        lines += &format!("{} 0 0 open \"n\" wronly,creat,excl 0600 = 3\n{0} 0 0 close 3 = 0\n", at(0));
        lines += &format!("{} 0 0 rename \"n\" \"r\" - = 0\n", at(1));
        lines += &format!("{} 0 0 stat \"r\" = 0\n{} 0 0 unlink \"r\" = 0\n", at(2), at(3));
    }
    let program = compiled(&lines);
    // Each thread that may go on goes on, in orders that a seeded generator draws: the names must be as recorded.
    for seed in 1..=50_u64 {
        assert_eq!(replayed(&program, seed, true), 0, "seed {seed}");
    }
    let unordered: usize = (1..=10).map(|seed| replayed(&program, seed, false)).sum();
    assert!(unordered > 0, "canary: without the waits some result differs");
}

/// Plays a program on a set of names; gives how many results differ.
fn replayed(program: &Program, seed: u64, ordered: bool) -> usize {
    let (mut done, mut names, mut wrong, mut random) = (vec![0_usize; 4], BTreeSet::new(), 0, seed);
    loop {
        let may = |thread: &usize| {
            let Some(step) = program.threads[*thread].steps.get(done[*thread]) else { return false };
            !ordered
                || program.waits(*step).iter().all(|wait| done[wait.thread as usize - 1] > wait.step as usize)
        };
        let ready: Vec<usize> = (0..4).filter(may).collect();
        if ready.is_empty() {
            assert!(
                done.iter().zip(&program.threads).all(|(done, of)| *done == of.steps.len()),
                "seed {seed}: stuck"
            );
            return wrong;
        }
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let thread = ready[(random >> 33) as usize % ready.len()];
        let step = program.get(program.threads[thread].steps[done[thread]]);
        let (path, path2) = (step.call.path, step.call.path2);
        let ok = match step.call.op {
            Op::Open => names.insert(path),
            Op::Rename => {
                names.remove(&path) && {
                    names.insert(path2);
                    true
                }
            }
            Op::Stat => names.contains(&path),
            Op::Unlink => names.remove(&path),
            _ => true,
        };
        wrong += usize::from(!ok);
        done[thread] += 1;
    }
}

#[test]
fn what_is_on_a_fifo_is_marked_and_a_copy_from_one_is_a_write_of_the_file() {
    let lines = "S p 0600 0 \"old\"\nT 1 1 1 \"\"\n1 0 0 mknod \"new\" 010600 0 = 0\n1 0 0 open \"new\" rdonly 00 = 3\n\
                 1 0 0 open \"old\" wronly,nonblock 00 = -ENXIO\n1 0 0 open \"f\" rdwr,creat 0600 = 4\n1 0 0 dup 3 - = 5\n\
                 1 0 0 read 5 10 = 10\n1 0 0 copy 3 4 7 -1 -1 = 7\n1 0 0 stat \"new\" = 0\n1 0 0 close 5 = 0\n1 0 0 close 4 = 0\n";
    let program = compiled(lines);
    let marked: Vec<(Op, bool)> = program.steps().iter().map(|step| (step.call.op, step.no_file)).collect();
    let wanted = [
        (Op::Mknod, false),
        (Op::Open, true),
        (Op::Open, true),
        (Op::Open, false),
        (Op::Dup, true),
        (Op::Read, true),
        (Op::ReceiveFile, false),
        (Op::Stat, false),
        (Op::Close, true),
        (Op::Close, false),
    ];
    assert_eq!(marked, wanted);
    assert_eq!(program.last.iter().find(|entry| &*entry.path == b"f").unwrap().size, 7);
}

#[test]
fn a_descriptor_that_was_received_is_used_after_it_was_sent_and_has_the_senders_position() {
    let lines = "T 1 1 1 \"\"\nT 2 2 2 \"\"\n1 0 0 open \"f\" rdwr,creat 0600 = 3\n1 0 0 write 3 10 = 10\nP 1 3 7\n\
                 1 0 0 close 3 = 0\nR 2 7 9 -\n2 0 0 write 9 5 = 5\n2 0 0 close 9 = 0\n";
    let program = compiled(lines);
    let of = |op: Op, thread: u32| {
        (0..program.steps().len() as u32)
            .find(|at| (program.get(*at).call.op, program.get(*at).thread) == (op, thread))
            .unwrap()
    };
    let (sent, written) = (of(Op::Dup, 1), of(Op::Write, 2));
    assert_eq!((program.get(sent).opens, program.get(sent).implied), (program.get(written).call.fd, true));
    assert!(!program.waits(written).is_empty());
    assert_eq!(program.last[0].size, 15);
}
