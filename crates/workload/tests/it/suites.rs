//! Bonnie, archives and FFSB: what they move, count and leave, on a directory of the host.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use sim::{Machine, Seed, Setup};
use vfs::Syscalls;
use workload::suite::{self, How, LoadError, Measured, Processes, Settings, Stop};
use workload::{JobError, Workload};

/// Processes on a directory.
struct On(PathBuf);

impl Processes for On {
    fn start(&self) -> Arc<dyn Syscalls> {
        Arc::new(vfs::Host::new(&self.0).unwrap())
    }

    fn start_plain(&self) -> Arc<dyn Syscalls> {
        self.start()
    }
}

fn settings(vars: &[(&str, &str)]) -> Settings {
    let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Settings { vars, ..Settings::default() }
}

fn load(name: &str, vars: &[(&str, &str)]) -> Result<Arc<dyn Workload>, LoadError> {
    let (suite, name) = name.split_once('/').unwrap();
    suite::by_name(suite).unwrap().load(name, &settings(vars))
}

fn profile(text: &str) -> Result<Arc<dyn Workload>, LoadError> {
    suite::by_name("ffsb").unwrap().read("p.ffsb", text, &Settings::default())
}

fn refused(loaded: Result<Arc<dyn Workload>, LoadError>) -> String {
    loaded.expect_err("it must be refused").to_string()
}

/// Runs all of a workload, and verifies what it has left.
fn run(workload: Arc<dyn Workload>, directory: &Path, stop: Stop) -> Result<Measured, JobError> {
    let directory = directory.to_owned();
    sim::run(&Setup::real_clock(Machine::unit(), Seed(7)), move || {
        let processes = Arc::new(On(directory));
        let how = How { stop, check: true, seed: Seed(7), ..How::default() };
        let job = workload.job(&how, processes.clone())?;
        job.prepare()?;
        let measured = job.work(&mut |_| ())?;
        job.verify(&*processes.start())?;
        Ok(measured)
    })
    .unwrap_or_else(|error| panic!("{error}"))
}

fn whole(name: &str, vars: &[(&str, &str)]) -> (Measured, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let measured = run(load(name, vars).unwrap(), folder.path(), Stop::After(sim::Nanos::MAX)).unwrap();
    assert_eq!(measured.notes, Vec::<String>::new(), "{name}");
    (measured, folder)
}

fn bytes(measured: &Measured, step: &str) -> u64 {
    measured.steps.iter().find(|known| known.name == step).map_or(0, |known| known.bytes)
}

#[test]
fn each_pass_of_bonnie_moves_the_whole_file_and_every_tenth_seek_writes() {
    let (measured, _folder) = whole("bonnie/bonnie", &[("size", "1MiB"), ("seeks", "400")]);
    for pass in ["putc", "block-write", "rewrite", "getc", "block-read"] {
        assert_eq!(bytes(&measured, pass), 1 << 20, "{pass}");
    }
    let count = |name: &str| measured.counters[name];
    assert_eq!(count("bonnie.seeks.tickets"), 400);
    assert_eq!(bytes(&measured, "seeks"), 400 * 16384);
    // The sum over three processes of a tenth, rounded up.
    assert!((40..=42).contains(&count("bonnie.seeks.updates")), "{}", count("bonnie.seeks.updates"));
    assert_eq!(measured.read_bytes, 3 * (1 << 20) + 400 * 16384);
    assert_eq!(measured.written_bytes, 3 * (1 << 20) + count("bonnie.seeks.updates") * 16384);
}

#[test]
fn bonnie_buffers_as_libc_does_and_bonnie_plus_plus_calls_for_each_byte() {
    let (buffered, _folder) = whole("bonnie/putc", &[("size", "64KiB"), ("chunk", "16KiB")]);
    assert_eq!(buffered.steps[0].count, 16);
    let (single, _folder) =
        whole("bonnie/putc", &[("program", "bonnie++"), ("size", "64KiB"), ("chars", "500")]);
    assert_eq!((single.steps[0].count, single.steps[0].bytes), (500, 500));
}

#[test]
fn bonnie_plus_plus_makes_looks_at_and_removes_each_small_file_twice_and_leaves_nothing() {
    let vars = [("size", "64KiB"), ("chars", "100"), ("seeks", "20"), ("files", "1"), ("largest", "3000")];
    let (measured, folder) = whole("bonnie/bonnie++", &[&vars[..], &[("directories", "3")]].concat());
    for part in ["sequential", "random"] {
        for pass in ["create", "stat", "delete"] {
            let name = format!("{pass}-{part}");
            assert_eq!(measured.steps.iter().find(|step| step.name == name).unwrap().count, 1024, "{name}");
        }
        let (made, read) =
            (bytes(&measured, &format!("create-{part}")), bytes(&measured, &format!("stat-{part}")));
        assert!(made > 1_000_000 && made == read, "{part}: {made} made, {read} read");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_file_of_bonnie_must_be_twice_the_ram() {
    let told = refused(load("bonnie/bonnie", &[("size", "1GiB"), ("ram", "1GiB")]));
    assert!(told.contains("size=1 GiB") && told.contains("twice ram=1 GiB"), "{told}");
    let told = refused(load("bonnie/bonnie", &[("chunk", "3000")]));
    assert!(told.contains("a power of two"), "{told}");
}

const TREE: &[(&str, &str)] = &[("files", "60"), ("largest", "200KiB")];

/// Whether two trees are the same, by their names and contents.
fn same_trees(one: &Path, other: &Path) {
    let list = |path: &Path| {
        let mut names: Vec<_> =
            std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(list(one), list(other), "{}", one.display());
    for name in list(one) {
        let (one, other) = (one.join(&name), other.join(&name));
        if one.is_dir() {
            same_trees(&one, &other);
        } else {
            assert!(
                std::fs::read(&one).unwrap() == std::fs::read(&other).unwrap(),
                "{} differs",
                one.display()
            );
        }
    }
}

/// Runs a program of the system; false: it is not installed.
fn system(program: &str, arguments: &[&str], directory: &Path) -> bool {
    match Command::new(program).args(arguments).current_dir(directory).output() {
        Ok(output) => {
            assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
            true
        }
        Err(error) => {
            eprintln!("skipped: {program}: {error}");
            false
        }
    }
}

#[test]
fn tools_of_the_system_unpack_what_is_packed() {
    for (name, codec) in [("tar", "deflate"), ("zip", "deflate"), ("zip", "null")] {
        let (measured, folder) = whole(&format!("archive/{name}"), &[TREE, &[("codec", codec)]].concat());
        assert!(measured.ops > 60 && measured.written_bytes > 0, "{measured:?}");
        let unpacked = folder.path().join("unpacked");
        std::fs::create_dir(&unpacked).unwrap();
        let archive = format!("../c0/archive0.{name}");
        let done = match name {
            "tar" => system("tar", &["-xf", &archive], &unpacked),
            _ => system("unzip", &["-q", &archive], &unpacked),
        };
        if done {
            same_trees(&folder.path().join("tree0"), &unpacked.join("tree0"));
        }
    }
}

#[test]
fn archives_of_the_system_are_unpacked_to_the_same_tree() {
    for (pack, unpack, arguments) in [("tar", "untar", &["-cf"][..]), ("zip", "unzip", &["-qr"][..])] {
        let (_, source) = whole("archive/tar", TREE);
        let archive = source.path().join(format!("made.{pack}"));
        let arguments = [arguments, &[archive.to_str().unwrap(), "tree0"][..]].concat();
        if !system(pack, &arguments, source.path()) {
            continue;
        }
        let (_, folder) = whole(&format!("archive/{unpack}"), &[("from", archive.to_str().unwrap())]);
        same_trees(&source.path().join("tree0"), &folder.path().join("c0/tree0"));
    }
}

#[test]
fn generated_archives_are_unpacked_to_what_was_packed() {
    // Verified file by file.
    for name in ["archive/untar", "archive/unzip"] {
        let (measured, folder) = whole(name, &[TREE, &[("clients", "2")]].concat());
        assert!(measured.ops > 120, "{name}: {}", measured.ops);
        assert!(folder.path().join("c1/tree1").is_dir(), "{name}");
    }
}

#[test]
fn a_damaged_archive_is_told_with_its_name() {
    let (_, folder) = whole("archive/zip", TREE);
    let (_, tarred) = whole("archive/tar", TREE);
    for (workload, archive) in [
        ("archive/unzip", folder.path().join("c0/archive0.zip")),
        ("archive/untar", tarred.path().join("c0/archive0.tar")),
    ] {
        let intact = std::fs::read(&archive).unwrap();
        let told = |bytes: &[u8]| {
            std::fs::write(&archive, bytes).unwrap();
            refused(load(workload, &[("from", archive.to_str().unwrap())]))
        };
        let name = archive.to_str().unwrap();
        for bytes in [&intact[..intact.len() / 2], &b"no archive at all, only some text in a file"[..]] {
            let told = told(bytes);
            assert!(told.contains(name), "{workload}: {told}");
        }
        std::fs::remove_file(&archive).unwrap();
        let told = refused(load(workload, &[("from", archive.to_str().unwrap())]));
        assert!(told.contains("No such file"), "{told}");
    }
}

#[test]
fn a_file_whose_bytes_do_not_fit_their_checksum_ends_the_run() {
    let (_, folder) = whole("archive/zip", &[TREE, &[("codec", "null")]].concat());
    let archive = folder.path().join("c0/archive0.zip");
    let mut bytes = std::fs::read(&archive).unwrap();
    // In the middle of the archive lies what a file holds.
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].iter_mut().for_each(|byte| *byte ^= 0x55);
    std::fs::write(&archive, bytes).unwrap();
    let loaded = load("archive/unzip", &[("from", archive.to_str().unwrap())]).unwrap();
    let target = tempfile::tempdir().unwrap();
    let measured = run(loaded, target.path(), Stop::After(sim::Nanos::MAX)).unwrap();
    assert!(
        measured.cut_short && measured.notes[0].contains("the archive is damaged"),
        "{:?}",
        measured.notes
    );
}

#[test]
fn a_path_that_leads_out_of_the_directory_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("evil.zip");
    let mut writer = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    writer.start_file("../outside", zip::write::SimpleFileOptions::default()).unwrap();
    writer.finish().unwrap();
    let told = refused(load("archive/unzip", &[("from", path.to_str().unwrap())]));
    assert!(told.contains("../outside") && told.contains("leads out of the directory"), "{told}");
}

const SECTIONS: &str = "[filesystem0]\nlocation = /a\nnum_files = 20\nnum_dirs = 4\nmin_filesize = 16k\nmax_filesize = 16k\n[end0]\n";

fn group(keys: &str) -> String {
    format!("time = 1\n{SECTIONS}[threadgroup0]\nnum_threads = 2\n{keys}\n[end0]\n")
}

#[test]
fn what_is_wrong_in_a_profile_is_told_with_line_and_key() {
    let text = "tme = 3\ntime = 2\n[filesystem0]\n num_files = many\n size_weight 4k 0\n[end0]\n[threadgroup0]\n\
                num_threads = 0\n read_weight = 0\n bindfs = /none\n[end0]\n[nonsense]\nbufferio = 1\n";
    let told = refused(profile(text));
    for part in [
        "p.ffsb:1: tme is no key of this section; did you mean \"time\"?",
        "p.ffsb:4: num_files = many: expected a whole number",
        "p.ffsb:5: size_weight = 4k 0: a size of weight 0 is never drawn",
        "p.ffsb:7: the weights of all operations of this [threadgroup] are 0",
        "p.ffsb:8: num_threads = 0",
        "p.ffsb:10: bindfs = /none: no [filesystem] has this location",
        "p.ffsb:12: [nonsense] is no section",
        "p.ffsb:13: bufferio = 1: not honoured",
    ] {
        assert!(told.contains(part), "{part} is not in:\n{told}");
    }
}

#[test]
fn operations_are_drawn_by_their_weights() {
    let text = group("stat_weight = 55\nopen_close_weight = 30\nmetaop_weight = 15");
    let folder = tempfile::tempdir().unwrap();
    let measured = run(profile(&text).unwrap(), folder.path(), Stop::Operations(100_000)).unwrap();
    assert_eq!(measured.ops, 100_000);
    for (name, share) in [("stat", 0.55), ("open_close", 0.30), ("metaop", 0.15)] {
        let found = measured.counters[&format!("ffsb.drawn.{name}")] as f64 / 1e5;
        assert!((found - share).abs() < 0.01, "seed 7: {name} {found}");
    }
}

#[test]
fn every_block_is_an_operation_and_overwriting_makes_no_file_longer() {
    let text = group(
        "write_weight = 1\nwriteall_fsync_weight = 1\nwrite_size = 64k\nwrite_blocksize = 4k\nread_weight = 1\n\
         read_size = 8k\nread_blocksize = 4k\nread_random = 1",
    );
    let folder = tempfile::tempdir().unwrap();
    let measured = run(profile(&text).unwrap(), folder.path(), Stop::Operations(5_000)).unwrap();
    assert_eq!(measured.read_bytes + measured.written_bytes, 5_000 * 4096);
    for directory in 0..4 {
        for entry in std::fs::read_dir(folder.path().join(format!("fs0/dir{directory}"))).unwrap() {
            assert_eq!(entry.unwrap().metadata().unwrap().len(), 16 << 10);
        }
    }
}

#[test]
fn the_sync_at_the_end_is_part_of_the_time() {
    let folder = tempfile::tempdir().unwrap();
    let text = group("write_weight = 1\nwrite_size = 4k\nwrite_blocksize = 4k");
    let measured = run(profile(&text).unwrap(), folder.path(), Stop::Operations(50)).unwrap();
    assert!(measured.counters["ffsb.sync_ns"] > 0 && measured.elapsed.0 > measured.counters["ffsb.sync_ns"]);
}

#[test]
fn files_that_do_not_fit_are_told_with_line_and_key() {
    let text = group("stat_weight = 1").replace("num_files = 20", "num_files = 4000000000");
    let text = text.replace("16k", "1g");
    let folder = tempfile::tempdir().unwrap();
    let told = run(profile(&text).unwrap(), folder.path(), Stop::Operations(1)).unwrap_err().to_string();
    assert!(told.contains("p.ffsb: line 4: num_files = 4000000000"), "{told}");
}

#[test]
fn a_group_bound_to_a_location_uses_no_other() {
    let second = SECTIONS.replace("/a", "/b");
    let text = group("delete_weight = 1\nbindfs = /b").replace(SECTIONS, &format!("{SECTIONS}{second}"));
    let folder = tempfile::tempdir().unwrap();
    let measured = run(profile(&text).unwrap(), folder.path(), Stop::Operations(10)).unwrap();
    assert_eq!(measured.ops, 10);
    let count = |fs: &str| {
        (0..4)
            .map(|at| std::fs::read_dir(folder.path().join(format!("{fs}/dir{at}"))).unwrap().count())
            .sum::<usize>()
    };
    // A thread may be in a call when the other makes the last that counts.
    assert!(count("fs0") == 20 && (9..=10).contains(&count("fs1")), "{} and {}", count("fs0"), count("fs1"));
}
