//! The well-known workloads, written anew from their published parameters.
//!
//! Each is one file beside this one and one line in [`PERSONALITIES`]; the parameters are variables that a
//! caller overrides (`-D nfiles=40960`). They keep to the syntax of Filebench 1.5, so the same file can be
//! run on both. Those that Filebench ships without a `run` have one here, of 60 seconds.

use super::check::Overrides;
use super::problem::Report;
use super::program::Program;

/// A built-in workload.
#[derive(Clone, Copy, Debug)]
pub struct Personality {
    /// Its name, as on the command line.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Its script.
    pub source: &'static str,
}

impl Personality {
    /// The personality of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        PERSONALITIES.iter().find(|personality| personality.name == name)
    }

    /// Reads and checks the script with `overrides` for its variables.
    pub fn load(&self, overrides: &Overrides) -> Result<Program, Report> {
        super::load(&format!("{}.f", self.name), self.source, overrides)
    }
}

macro_rules! personality {
    ($name:literal, $summary:literal) => {
        Personality {
            name: $name,
            summary: $summary,
            source: include_str!(concat!("personalities/", $name, ".f")),
        }
    };
}

/// All personalities, the four classic ones first.
pub const PERSONALITIES: &[Personality] = &[
    personality!("fileserver", "create, write, append, read, delete and stat whole files of 128 KiB"),
    personality!("webserver", "read ten pages of 16 KiB, append to one shared log"),
    personality!("webproxy", "drop and store a page, serve five, in one flat directory"),
    personality!("varmail", "mail with a file for each message, two fsyncs in each loop"),
    personality!("oltp", "200 readers, ten writers and a log writer of a database, coupled by semaphores"),
    personality!("tpcso", "the same with thirty named files of 175 GiB, direct I/O"),
    personality!("videoserver", "48 viewers at 96 MiB/s while videos are replaced"),
    personality!("netsfs", "file server with measured size distributions, at a given rate"),
    personality!("mongo", "append and read in one tree, delete in another"),
    personality!("createfiles", "create 50,000 files of 16 KiB"),
    personality!("copyfiles", "copy 1000 files of 16 KiB"),
    personality!("ratelimcopyfiles", "copy files, ten a second"),
    personality!("openfiles", "open and close 50,000 files"),
    personality!("listdirs", "list the directories of a deep tree"),
    personality!("makedirs", "make 10,000 directories"),
    personality!("removedirs", "remove 10,000 directories"),
    personality!("randomread", "random reads of 8 KiB in one file of 5 GiB"),
    personality!("randomwrite", "random writes of 8 KiB in one file of 5 GiB"),
    personality!("randomrw", "random reads and writes of 8 KiB in one file of 5 GiB"),
    personality!("singlestreamread", "read one file of 5 GiB sequentially"),
    personality!("singlestreamwrite", "write one file sequentially"),
    personality!("singlestreamreaddirect", "read one file of 5 GiB sequentially past the cache"),
    personality!("singlestreamwritedirect", "write one file sequentially past the cache"),
    personality!("fivestreamread", "read five files of 1 GiB sequentially"),
    personality!("fivestreamwrite", "write five files sequentially"),
    personality!("fivestreamreaddirect", "read five files of 1 GiB sequentially past the cache"),
    personality!("fivestreamwritedirect", "write five files sequentially past the cache"),
    personality!("createdelete-swing", "two processes fill and empty a tree in turn"),
    personality!("compflow_demo", "example of composite flowops"),
    personality!("cvar_example", "example of random I/O sizes"),
    personality!("filemicro_create", "create one file of 1 GiB by appends of 1 MiB"),
    personality!("filemicro_createfiles", "create files of 1 KiB beside 10,000 others"),
    personality!("filemicro_createrand", "append random sizes below 1 MiB, sync after ten, to 1 GiB"),
    personality!("filemicro_delete", "delete files of 16 KiB with sixteen threads"),
    personality!("filemicro_rread", "random reads of 2 KiB, 128 MiB in all"),
    personality!("filemicro_rwrite", "random writes of 2 KiB, 128 MiB in all"),
    personality!("filemicro_rwritedsync", "65,536 random synchronous writes of 2 KiB"),
    personality!("filemicro_rwritefsync", "16,384 random writes of 8 KiB, then one sync"),
    personality!("filemicro_seqread", "sequential reads of 1 MiB"),
    personality!("filemicro_seqwrite", "1024 appends of 1 MiB"),
    personality!("filemicro_seqwriterand", "131,072 appends of random sizes below 8 KiB"),
    personality!("filemicro_seqwriterandvargam", "131,072 appends of gamma distributed sizes"),
    personality!("filemicro_seqwriterandvartab", "131,072 appends of sizes from a table"),
    personality!("filemicro_statfile", "stat 10,000 files with twenty threads"),
    personality!("filemicro_writefsync", "append 8 KiB 1024 times, then sync, 128 times"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::filebench::ast::{AttributeName, Operand};
    use crate::filebench::distribution::Kind;
    use crate::filebench::parse::{STATEMENTS, parse};
    use crate::filebench::problem::Problem;
    use crate::filebench::program::{Action, Amount, EndPolicy, Flowop, Value};
    use crate::filebench::vocabulary::{self as words, Direction, Op};

    fn load(name: &str) -> Program {
        let personality = Personality::find(name).unwrap();
        personality.load(&Overrides::new()).unwrap_or_else(|report| panic!("{report}"))
    }

    /// What one turn of a loop does: operations that count in the summary, reads, writes, synchronisations to the medium.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    struct LoopCount {
        ops: u64,
        reads: u64,
        writes: u64,
        fsyncs: u64,
    }

    /// The counts of the loops of `name`, a thread each.
    fn loops(name: &str) -> Vec<LoopCount> {
        let of_thread = |flowops: &[Flowop]| {
            let mut count = LoopCount::default();
            count_flowops(flowops, 1, &mut count);
            count
        };
        load(name).threads().map(|(_, thread)| of_thread(&thread.flowops)).collect()
    }

    fn count_flowops(flowops: &[Flowop], times: u64, count: &mut LoopCount) {
        for flowop in flowops {
            let times = times * flowop.iterations.fixed().unwrap();
            match &flowop.action {
                Action::Composite(body) => count_flowops(body, times, count),
                Action::Operation(operation) => count_operation(operation.op, times, count),
            }
        }
    }

    fn count_operation(op: Op, times: u64, count: &mut LoopCount) {
        count.ops += if op.is_counted() { times } else { 0 };
        match op.info().direction {
            Direction::Read => count.reads += times,
            Direction::Write => count.writes += times,
            Direction::None => {}
        }
        count.fsyncs += if matches!(op, Op::Fsync | Op::FsyncSet) { times } else { 0 };
    }

    #[test]
    fn every_personality_is_accepted_and_runs() {
        for personality in PERSONALITIES {
            let program = load(personality.name);
            assert!(program.run.is_some(), "{} has no run", personality.name);
            assert!(program.thread_instances() > 0, "{}", personality.name);
        }
    }

    #[test]
    fn only_the_filesets_of_tpcso_exceed_what_filebench_can_do() {
        for personality in PERSONALITIES {
            let program = load(personality.name);
            let warnings = program.warnings.problems();
            let allowed = |problem: &Problem| {
                matches!(problem, Problem::BeyondFilebench { what, .. } if what == "filesets")
                    && personality.name == "tpcso"
            };
            assert!(warnings.iter().all(allowed), "{}: {}", personality.name, program.warnings);
        }
    }

    #[test]
    fn every_script_beside_this_file_has_its_line_in_the_table() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/filebench/personalities");
        let mut files = BTreeSet::new();
        for file in std::fs::read_dir(folder).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            files.insert(name.strip_suffix(".f").unwrap().to_owned());
        }
        let table: BTreeSet<String> = PERSONALITIES.iter().map(|entry| entry.name.to_owned()).collect();
        assert_eq!(files, table);
    }

    /// Filebench's lexer knows no context: a word of the language is never a name.
    #[test]
    fn no_personality_uses_a_word_of_the_language_as_a_name() {
        let reserved: BTreeSet<&str> = STATEMENTS
            .iter()
            .chain(words::FLOWOP_ATTRIBUTES)
            .chain(words::FILESET_ATTRIBUTES)
            .chain(words::THREAD_ATTRIBUTES)
            .chain(
                ["in", "log", "stats", "all", "directory", "command", "thread", "flowop", "process"].iter(),
            )
            .copied()
            .collect();
        for personality in PERSONALITIES {
            let (script, problems) = parse(personality.source);
            assert_eq!(problems, [], "{}", personality.name);
            for attribute in crate::filebench::check::every_attribute(&script) {
                let AttributeName::Word(name) = &attribute.name.node else { continue };
                if let Some(Operand::Word(word)) = attribute.value.as_ref().map(|value| &value.node) {
                    let free = name == "type" || !reserved.contains(word.as_str());
                    assert!(free, "{}: {name}={word}", personality.name);
                }
            }
        }
    }

    #[test]
    fn the_four_classics_count_the_published_operations_a_loop() {
        let count = |ops, reads, writes, fsyncs| vec![LoopCount { ops, reads, writes, fsyncs }];
        assert_eq!(loops("fileserver"), count(11, 1, 2, 0));
        assert_eq!(loops("webserver"), count(31, 10, 1, 0));
        assert_eq!(loops("webproxy"), count(19, 5, 1, 0));
        assert_eq!(loops("varmail"), count(13, 2, 2, 2));
    }

    #[test]
    fn other_loops_count_what_their_table_says() {
        let ops = |name: &str| loops(name).iter().map(|count| count.ops).collect::<Vec<_>>();
        assert_eq!(ops("mongo"), [7]);
        assert_eq!(ops("createfiles"), [3]);
        assert_eq!(ops("copyfiles"), [6]);
        assert_eq!(ops("ratelimcopyfiles"), [6]);
        assert_eq!(ops("oltp"), [2, 101, 1]);
        assert_eq!(ops("videoserver"), [4, 1]);
        // launch 9, six times rmw 7, three times append 3, stat
        assert_eq!(ops("netsfs"), [9 + 42 + 9 + 1]);
        assert_eq!(ops("compflow_demo"), [5 + 30, 5 + 24, 5 + 18]);
        assert_eq!(ops("createdelete-swing"), [3000, 1000]);
        assert_eq!(ops("tpcso"), [2, 30, 29]);
    }

    #[test]
    fn the_four_classics_have_the_published_filesets() {
        let gamma = |amount: &Amount, wanted: f64| {
            let Amount::Drawn(size) = amount else { panic!("{amount} is fixed") };
            assert_eq!(*size.kind(), Kind::Gamma { shape: 1.5, mean: wanted, offset: 0.0 });
        };
        let program = load("fileserver");
        let files = &program.filesets[0];
        assert_eq!((files.entries.fixed(), files.dirwidth.fixed()), (Some(10_000), Some(20)));
        assert_eq!((files.prealloc_percent, program.thread_instances()), (80, 50));
        gamma(&files.size, 131_072.0);
        let program = load("webserver");
        assert_eq!(program.filesets[0].entries.fixed(), Some(1_000));
        assert!(program.filesets[0].readonly && program.filesets[0].prealloc_percent == 100);
        assert_eq!(program.filesets[1].entries.fixed(), Some(1));
        assert_eq!(program.thread_instances(), 100);
        gamma(&program.filesets[1].size, 16_384.0);
        let program = load("webproxy");
        assert_eq!(program.filesets[0].size.fixed(), Some(16 << 10));
        assert_eq!(program.filesets[0].dirwidth.fixed(), Some(1_000_000));
        let program = load("varmail");
        assert_eq!((program.filesets[0].entries.fixed(), program.thread_instances()), (Some(1_000), 16));
        gamma(&program.filesets[0].size, 16_384.0);
    }

    #[test]
    fn oltp_couples_two_hundred_readers_to_eleven_writers() {
        let program = load("oltp");
        let instances: Vec<u32> = program.processes.iter().map(|process| process.instances).collect();
        assert_eq!(instances, [1, 10, 200]);
        assert_eq!(program.event_rate, None, "a rate of 0 turns the limiter off");
        assert!(program.filesets.iter().all(|fileset| fileset.reuse && fileset.prealloc_percent == 100));
    }

    #[test]
    fn workloads_that_use_their_files_up_end_with_the_first_thread() {
        for name in ["createfiles", "copyfiles", "ratelimcopyfiles", "mongo", "makedirs", "removedirs"] {
            let program = load(name);
            assert_eq!(program.end, EndPolicy::FirstDone, "{name}");
            assert_eq!(program.run.unwrap().seconds, None, "{name}");
        }
    }

    #[test]
    fn tpcso_has_thirty_files_of_175_gigabytes() {
        let program = load("tpcso");
        assert_eq!(program.filesets.len(), 30);
        let bytes: f64 = program.filesets.iter().map(|file| file.size.mean()).sum();
        let gigabytes = bytes / f64::from(1 << 30);
        assert!((174.0..177.0).contains(&gigabytes), "{gigabytes}");
    }

    #[test]
    fn overrides_scale_a_personality() {
        let mut overrides = Overrides::new();
        for (name, value) in [("nfiles", "40960"), ("nthreads", "4"), ("filesize", "128k")] {
            overrides.insert(name.to_owned(), value.parse::<Value>().unwrap());
        }
        let program = Personality::find("fileserver").unwrap().load(&overrides).unwrap();
        assert_eq!(program.filesets[0].entries.fixed(), Some(40_960));
        assert_eq!(program.filesets[0].size.fixed(), Some(131_072));
        assert_eq!(program.thread_instances(), 4);
    }
}
