//! From jobs to clones: names, sizes and places of their files, groups and stages.
//!
//! Everything is below `/fio` in the file system under test, which each run makes and, on a directory of the host, removes: a
//! job file never touches what was there before.
//!
//! Sizes, as the HOWTO has them: without `filesize` each file has its share of `size` behind `offset`; with it, the part of
//! the file behind `offset`, and `size` only says how much of that is done. A percentage is one of the whole file: of `filesize`,
//! or of the share. (fio takes it of what the file has when the job is set up, which is nothing for a file that does not exist
//! yet; here it is what fio does on the second run.)

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::RngExt as _;
use sim::Seed;

use super::job::{Direction, Engine, Fallocate, JobSpec};
use super::parse::Problem;
use super::value::Amount;

/// The directory of all files.
pub(super) const ROOT: &str = "/fio";
/// What sizes of files are drawn from: they are part of the job, and the same in every run.
const SIZES: Seed = Seed(0xf10);

/// A file of a clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileSpec {
    pub(super) path: String,
    /// Where its I/O begins.
    pub(super) offset: u64,
    /// Bytes that its I/O reaches.
    pub(super) bytes: u64,
}

impl FileSpec {
    /// Bytes of the whole file.
    pub(super) fn size(&self) -> u64 {
        self.offset + self.bytes
    }
}

/// One of `numjobs` equal jobs.
#[derive(Clone, Debug)]
pub(super) struct JobClone {
    pub(super) spec: Arc<JobSpec>,
    /// Its job, by place in the file.
    pub(super) job: usize,
    /// Its number among all clones.
    pub(super) number: u64,
    pub(super) label: String,
    pub(super) group: u32,
    /// Stages run one after the other.
    pub(super) stage: usize,
    pub(super) files: Vec<FileSpec>,
    /// Bytes of a pass.
    pub(super) pass: u64,
    /// Bytes of all passes, where time does not decide.
    pub(super) total: u64,
}

/// The clones of all jobs.
pub(super) fn all(jobs: &[Arc<JobSpec>], problems: &mut Vec<Problem>) -> Vec<JobClone> {
    let mut clones: Vec<JobClone> = Vec::new();
    let (mut stage, mut group) = (0, 0);
    for (job, spec) in jobs.iter().enumerate() {
        if spec.stonewall && job > 0 {
            (stage, group) = (stage + 1, group + 1);
        } else if spec.new_group && job > 0 {
            group += 1;
        }
        if let Some(name) = &spec.wait_for
            && !jobs[..job].iter().any(|other| other.name == *name)
        {
            let what = format!("wait_for: there is no job \"{name}\" above \"{}\"", spec.name);
            problems.push(Problem { line: spec.line, what });
        }
        for number in 0..spec.jobs {
            match files(spec, number, clones.len() as u64) {
                Err(what) => {
                    problems.push(Problem { line: spec.line, what });
                    break;
                }
                Ok(files) => {
                    let label =
                        if spec.jobs == 1 { spec.name.clone() } else { format!("{}.{number}", spec.name) };
                    let (pass, total) = amounts(spec, &files);
                    let (spec, number) = (Arc::clone(spec), clones.len() as u64);
                    clones.push(JobClone { spec, job, number, label, group, stage, files, pass, total });
                }
            }
        }
    }
    clones
}

/// Bytes of a pass and of all. As at fio, a percentage of `io_size` is taken of each file, and makes the pass shorter.
fn amounts(spec: &JobSpec, files: &[FileSpec]) -> (u64, u64) {
    let reached: u64 = files.iter().map(|file| file.bytes).sum();
    if spec.log.is_some() {
        return (reached, 0);
    }
    let mut pass = reached;
    if let (Some(Amount::Bytes(size)), Some(_)) = (spec.size, spec.file_size) {
        pass = size.min(reached);
    }
    let wanted = match spec.io_size {
        None | Some(Amount::Bytes(0)) => pass,
        Some(Amount::Bytes(bytes)) => bytes,
        Some(percent) => {
            let share = share(spec, files.len() as u64);
            let whole = |file: &FileSpec| if spec.file_size.is_some() { file.bytes } else { share };
            files.iter().map(|file| percent.of(whole(file))).sum::<u64>().min(pass)
        }
    };
    (pass.min(wanted), wanted.saturating_mul(spec.loops))
}

/// The part of `size` that one of `count` files has, where there is no `filesize`.
fn share(spec: &JobSpec, count: u64) -> u64 {
    spec.size.map_or(0, |size| size.of(0)) / count
}

/// Where the I/O of clone `sub` begins in a file of `whole` bytes: where a percentage is part of it, at the next multiple of
/// `offset_align`, or of the smallest block.
fn start(spec: &JobSpec, whole: u64, sub: u64) -> u64 {
    let step = spec.offset_increment.of(whole).saturating_mul(sub);
    let start = spec.offset.of(whole).saturating_add(step);
    let percent = |amount| matches!(amount, Amount::Percent(1..));
    if !percent(spec.offset) && !percent(spec.offset_increment) {
        return start;
    }
    let align = if spec.offset_align > 0 { spec.offset_align } else { spec.smallest() };
    start.checked_next_multiple_of(align).unwrap_or(u64::MAX)
}

fn files(spec: &JobSpec, sub: u64, number: u64) -> Result<Vec<FileSpec>, String> {
    if let Some(log) = &spec.log {
        let file = |(index, bytes): (u64, &u64)| {
            Ok(FileSpec { path: path(spec, sub, number, index)?, offset: 0, bytes: *bytes })
        };
        return (0..).zip(&log.ends).map(file).collect();
    }
    let count = if spec.names.is_empty() { spec.files } else { spec.names.len() as u64 };
    let least = spec.min_size();
    let mut rng = SIZES.derive(&spec.name, sub).rng();
    let share = share(spec, count) / least * least;
    let file = |index: u64| {
        let given = spec.file_size.map(|(low, high)| rng.random_range(low..=high));
        let whole = given.unwrap_or(share);
        let offset = start(spec, whole, sub);
        let mut bytes = if given.is_some() { whole.saturating_sub(offset) } else { share };
        if let Some(percent @ Amount::Percent(0..100)) = spec.size {
            // Of the whole file, wherever the I/O begins in it.
            bytes = percent.of(whole).min(bytes);
            bytes -= bytes % spec.smallest();
        }
        if bytes < least {
            return Err(format!(
                "file {index} of \"{}\" has {bytes} bytes for its I/O, and an I/O has at least {least}: \
                 give more size, fewer files or a smaller offset",
                spec.name
            ));
        }
        Ok(FileSpec { path: path(spec, sub, number, index)?, offset, bytes })
    };
    (0..count).map(file).collect()
}

/// Where a file lies. The name of a job is a part of it: `..` must not lead out of the directory.
fn path(spec: &JobSpec, sub: u64, number: u64, index: u64) -> Result<String, String> {
    let directories: Vec<&str> = spec.directory.split(':').collect();
    let directory = directories[(sub % directories.len() as u64) as usize];
    let name = spec.names.get(index as usize).cloned().unwrap_or_else(|| {
        let replaced =
            spec.format.replace("$jobname", &spec.name.replace('/', ".")).replace("$clientuid", "0");
        replaced.replace("$jobnum", &number.to_string()).replace("$filenum", &index.to_string())
    });
    let parts = directory.split('/').chain(name.split('/')).filter(|part| !matches!(*part, "" | "."));
    let path = format!("{ROOT}/{}", parts.collect::<Vec<_>>().join("/"));
    if path.split('/').any(|part| part == "..") {
        return Err(format!(
            "filename_format: a file of job \"{}\" would be {path}, which leads up: give the job another name",
            spec.name
        ));
    }
    Ok(path)
}

/// How a file is made before anything is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Laid {
    pub(super) size: u64,
    /// Whether it has data, because it is read, overwritten or mapped.
    pub(super) data: bool,
    pub(super) fallocate: Fallocate,
    pub(super) fsync: bool,
    pub(super) pre_read: bool,
    /// Bytes of each write of the layout, and of each read ahead.
    pub(super) chunks: [u64; 2],
}

/// The files that are laid out, by path: each once, as large as the largest of its users wants it.
pub(super) fn laid(clones: &[JobClone]) -> BTreeMap<String, Laid> {
    let mut laid: BTreeMap<String, Laid> = BTreeMap::new();
    for clone in clones.iter().filter(|clone| !clone.spec.create_on_open) {
        let spec = &clone.spec;
        for file in &clone.files {
            let own = Laid {
                size: file.size(),
                // As at fio, a file that is mapped has its size: a store makes none longer.
                data: spec.mode.reads || spec.overwrite || !spec.mode.writes || spec.engine == Engine::Mapped,
                fallocate: spec.fallocate,
                fsync: spec.create_fsync,
                pre_read: spec.pre_read,
                chunks: [Direction::Write, Direction::Read].map(|d| spec.sizes[d as usize].max()),
            };
            let known = laid.entry(file.path.clone()).or_insert_with(|| own.clone());
            known.size = known.size.max(own.size);
            known.data |= own.data;
            known.fsync |= own.fsync;
            known.pre_read |= own.pre_read;
        }
    }
    laid
}

/// Bytes of all files together.
pub(super) fn data_bytes(clones: &[JobClone]) -> u64 {
    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    for file in clones.iter().flat_map(|clone| &clone.files) {
        let size = sizes.entry(&file.path).or_default();
        *size = (*size).max(file.size());
    }
    sizes.values().map(|size| size.next_multiple_of(4096)).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::{parse, read};

    fn clones(text: &str) -> Result<Vec<JobClone>, String> {
        let mut parsed = parse::parse(text, &parse::Outside::default());
        let jobs: Vec<_> = parsed
            .sections
            .iter()
            .map(|section| Arc::new(read::read(section, &mut parsed.problems)))
            .collect();
        let clones = all(&jobs, &mut parsed.problems);
        match parsed.problems.first() {
            None => Ok(clones),
            Some(problem) => Err(format!("{}: {}", problem.line, problem.what)),
        }
    }

    #[test]
    fn clones_have_files_of_their_own_with_their_share_of_the_size() {
        let clones = clones("[a]\nsize=1m\nnrfiles=4\nnumjobs=2\noffset=8k\n").unwrap();
        let paths: Vec<_> =
            clones.iter().flat_map(|clone| clone.files.iter().map(|file| file.path.as_str())).collect();
        let all = ["a.0.0", "a.0.1", "a.0.2", "a.0.3", "a.1.0", "a.1.1", "a.1.2", "a.1.3"]
            .map(|n| format!("/fio/{n}"));
        assert_eq!(paths, all);
        assert_eq!((clones[0].files[0].bytes, clones[0].files[0].size()), (256 << 10, (256 << 10) + 8192));
        assert_eq!((clones[1].label.as_str(), clones[1].pass, clones[1].total), ("a.1", 1 << 20, 1 << 20));
    }

    #[test]
    fn named_files_are_shared_and_offsets_step_from_clone_to_clone() {
        let text =
            "[a]\nfilename=x:y\ndirectory=d\nfilesize=1m\nnumjobs=2\noffset_increment=25%\nsize=512k\n";
        let clones = clones(text).unwrap();
        assert_eq!(clones[1].files[0].path, "/fio/d/x");
        assert_eq!((clones[1].files[1].offset, clones[1].files[1].bytes), (256 << 10, 768 << 10));
        assert_eq!((clones[0].pass, clones[0].total), (512 << 10, 512 << 10));
        assert_eq!((laid(&clones).len(), data_bytes(&clones)), (2, 2 << 20));
    }

    /// Values of fio 3.33 on files that have their size already.
    #[test]
    fn percentages_are_of_the_whole_file_and_offsets_are_rounded_up() {
        let place = |text: &str| {
            let clones = clones(&format!("[a]\nfilename=x\nfilesize=1m\nnumjobs=3\n{text}\n")).unwrap();
            clones.iter().map(|c| (c.files[0].offset, c.files[0].bytes)).collect::<Vec<_>>()
        };
        // 40 % of a MiB are 102.4 blocks.
        assert_eq!(place("offset=40%\nsize=40%")[0], (103 * 4096, 102 * 4096));
        assert_eq!(place("offset=80%\nsize=40%")[0], (205 * 4096, 51 * 4096));
        assert_eq!(place("offset=40%\noffset_align=64k\nsize=10%")[0], (7 << 16, 25 * 4096));
        let stepped = place("offset=1k\noffset_increment=10%\nsize=5%");
        assert_eq!(stepped.iter().map(|(at, _)| at / 4096).collect::<Vec<_>>(), [1, 26, 52]);
        assert_eq!(place("offset=1k\nsize=100%")[0], (1024, (1 << 20) - 1024));
    }

    #[test]
    fn no_name_of_a_job_leads_out_of_the_directory() {
        for text in ["[..]\nfilename_format=$jobname/$jobname/x", "[.]\nfilename_format=.$jobname/x"] {
            let told = clones(&format!("{text}\nsize=8k\n")).unwrap_err();
            assert!(told.starts_with("1: filename_format: ") && told.contains("leads up"), "{told}");
        }
        let inside = clones("[..]\nsize=8k\n").unwrap();
        assert_eq!(inside[0].files[0].path, "/fio/...0.0");
    }

    #[test]
    fn the_amount_of_io_is_the_size_unless_it_is_said() {
        let of =
            |text: &str| clones(&format!("[a]\nsize=1m\n{text}\n")).map(|c| (c[0].pass, c[0].total)).unwrap();
        assert_eq!(of(""), (1 << 20, 1 << 20));
        assert_eq!(of("io_size=256k"), (256 << 10, 256 << 10));
        assert_eq!(of("io_size=4m"), (1 << 20, 4 << 20));
        assert_eq!(of("loops=3"), (1 << 20, 3 << 20));
        assert_eq!(of("io_size=30%"), (314_572, 314_572));
        assert_eq!(of("io_size=50%\nnrfiles=3\nloops=2"), (524_286, 1_048_572));
        // As fio 3.33: a size beyond the end of the files is their end, and `io_size` alone makes another pass.
        assert_eq!(of("filesize=100k\nnrfiles=4"), (400 << 10, 400 << 10));
        assert_eq!(of("filesize=1m\noffset=768k\nloops=2"), (256 << 10, 512 << 10));
        assert_eq!(of("filesize=100k\nio_size=1m"), (100 << 10, 1 << 20));
    }

    #[test]
    fn stonewalls_make_stages_and_groups() {
        let clones = clones("[global]\nsize=1m\n[a]\n[b]\nnew_group\n[c]\nstonewall\n[d]\n").unwrap();
        let places: Vec<_> = clones.iter().map(|clone| (clone.stage, clone.group)).collect();
        assert_eq!(places, [(0, 0), (0, 1), (1, 2), (1, 2)]);
    }

    #[test]
    fn a_file_too_small_for_an_io_and_a_job_that_is_not_above_are_told() {
        assert!(clones("[a]\nsize=8k\nnrfiles=4\n").unwrap_err().contains("1: file 0 of \"a\" has 0 bytes"));
        assert!(clones("[a]\nsize=1m\nwait_for=b\n").unwrap_err().contains("no job \"b\" above"));
    }

    #[test]
    fn files_that_are_only_written_are_laid_out_without_data() {
        let data = |text: &str| {
            laid(&clones(&format!("[a]\nsize=1m\n{text}\n")).unwrap()).values().next().map(|l| l.data)
        };
        assert_eq!(data("rw=write"), Some(false));
        assert_eq!(data("rw=write\noverwrite=1"), Some(true));
        assert_eq!(data("rw=randrw"), Some(true));
        assert_eq!(data("rw=write\nioengine=mmap"), Some(true));
        assert_eq!(data("rw=write\ncreate_on_open=1"), None);
    }
}
