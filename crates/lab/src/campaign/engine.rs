//! What engines are given: each runs `weir campaign run DIR --index N` for its shards.
//!
//! | engine | index | what a refused or dead thing leads to |
//! |---|---|---|
//! | Slurm | `SLURM_ARRAY_TASK_ID` and an offset | `--requeue`; arrays of at most `MaxArraySize` |
//! | GNU parallel | argument | `--retries` on another host; program, manifest and files travel, no folder is shared |
//! | any other | argument | its own |
//!
//! Everything here is text; `weir campaign submit` shows it before it runs it.

use std::path::Path;

use super::folder::{MANIFEST, OUT, PROGRAM};
use super::{Campaign, ranges};

/// Variables from which the index of a shard is read, with the number that the first shard has there.
pub const INDEX: [(&str, usize); 7] = [
    ("SLURM_ARRAY_TASK_ID", 0),
    ("JOB_COMPLETION_INDEX", 0),
    ("HQ_TASK_ID", 0),
    ("PBS_ARRAY_INDEX", 0),
    ("LSB_JOBINDEX", 1),
    ("SGE_TASK_ID", 1),
    ("PARALLEL_SEQ", 1),
];

/// Slurm's `MaxArraySize` when nothing is known of it: its default. The largest index is one less.
pub const SLURM_ARRAY: usize = 1001;
/// The least time that a job is given: an estimate of less is not worth a job that is ended.
const LEAST_MINUTES: u64 = 10;
/// A job is given so many times what its shard is expected to take.
const PATIENCE: u64 = 4;
/// How often a shard that failed is begun.
const TRIES: usize = 3;

/// The number of a shard that a variable of an engine says; what is wrong with it.
pub fn index(variable: impl Fn(&str) -> Option<String>) -> Option<Result<usize, String>> {
    let (name, first, text) = INDEX.iter().find_map(|(name, first)| Some((name, first, variable(name)?)))?;
    let number = text.trim().parse::<usize>().ok().and_then(|number| number.checked_sub(*first));
    Some(number.ok_or_else(|| format!("{name}={text}: expected a number from {first} on")))
}

/// A text as one word of a shell.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A command as one types it.
pub fn shown(command: &[String]) -> String {
    command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// The script of Slurm's jobs. Its argument is the shard of the task 0.
pub fn slurm_script(folder: &Path) -> String {
    let (program, folder) = (folder.join(PROGRAM), folder.display().to_string());
    format!(
        "#!/bin/sh\n# A shard of a Weir campaign.\nexec {} campaign run {} --index \"$((SLURM_ARRAY_TASK_ID + $1))\"\n",
        quoted(&program.display().to_string()),
        quoted(&folder)
    )
}

/// The `sbatch` commands for these shards: one for each block of `largest` numbers, since larger arrays are refused.
pub fn slurm(
    campaign: &Campaign,
    script: &Path,
    shards: &[usize],
    largest: usize,
    more: &[String],
) -> Vec<Vec<String>> {
    let largest = largest.max(2) - 1;
    let mut blocks: Vec<(usize, Vec<usize>)> = Vec::new();
    for shard in shards {
        let offset = shard / largest * largest;
        match blocks.last_mut() {
            Some((last, tasks)) if *last == offset => tasks.push(shard - offset),
            _ => blocks.push((offset, vec![shard - offset])),
        }
    }
    let (memory, minutes) = needs(campaign, shards);
    // A % of the folder's own name is no pattern of sbatch.
    let folder = campaign.folder.display().to_string().replace('%', "%%");
    let log = Path::new(&folder).join("log").join("slurm-%A_%a.txt").display().to_string();
    let command = |(offset, tasks): &(usize, Vec<usize>)| {
        let mut words = vec!["sbatch".to_owned(), "--parsable".to_owned(), "--requeue".to_owned()];
        words.push(format!("--array={}", ranges(tasks)));
        words.push(format!("--job-name=weir-{}", campaign.manifest.name.replace(' ', "-")));
        words.extend(["--ntasks=1".to_owned(), "--cpus-per-task=1".to_owned()]);
        words.extend([format!("--mem={memory}M"), format!("--time={minutes}"), format!("--output={log}")]);
        words.extend_from_slice(more);
        words.extend([script.display().to_string(), offset.to_string()]);
        words
    };
    blocks.iter().map(command).collect()
}

/// Memory in MiB and time in minutes that one of these shards needs.
fn needs(campaign: &Campaign, shards: &[usize]) -> (u64, u64) {
    let of = || shards.iter().filter_map(|shard| campaign.manifest.shards.get(*shard));
    let memory = of().map(|shard| shard.memory_bytes).max().unwrap_or_default().div_ceil(1 << 20);
    let seconds = of().map(|shard| shard.cpu_ns).max().unwrap_or_default() / 1_000_000_000;
    (memory.max(1), (seconds * PATIENCE / 60).max(LEAST_MINUTES))
}

/// The `parallel` command for these shards, to be run in the folder. The files come back under the name of the attempt.
pub fn parallel(hosts: &[String], shards: &[usize], attempt: &str, more: &[String]) -> Vec<String> {
    let mut words = vec!["parallel".to_owned(), "--retries".to_owned(), TRIES.to_string()];
    for host in hosts {
        words.extend(["--sshlogin".to_owned(), host.clone()]);
    }
    if !hosts.is_empty() {
        // Not `--workdir ...`, which refuses relative files, nor `--filter-hosts`, which ends parallel 20221122 where ssh says
        // why a host is dead: the jobs that it gives to a dead host fail there and go to another.
        words.extend(["--workdir".to_owned(), format!(".weir-campaign-{attempt}")]);
        for file in [MANIFEST, PROGRAM] {
            words.extend(["--basefile".to_owned(), file.to_owned()]);
        }
        words.extend(["--return".to_owned(), format!("{OUT}/{{}}.{attempt}.jsonl"), "--cleanup".to_owned()]);
    }
    words.extend(["--joblog".to_owned(), format!("log/parallel-{attempt}.txt")]);
    words.extend_from_slice(more);
    words.push(format!("{PROGRAM} campaign run . --index {{}} --attempt {attempt}"));
    words.push(":::".to_owned());
    words.extend(shards.iter().map(|shard| format!("{shard:05}")));
    words
}

/// A line for each of these shards, to be run as a job of any scheduler on hosts that see the folder.
pub fn plain(campaign: &Campaign, shards: &[usize]) -> String {
    let (memory, minutes) = needs(campaign, shards);
    let folder = quoted(&campaign.folder.display().to_string());
    let program = quoted(&campaign.folder.join(PROGRAM).display().to_string());
    let head = format!(
        "# Each line is a job: one core, {memory} MiB of memory, {minutes} minutes at most; in any order, again where it failed.\n"
    );
    shards
        .iter()
        .fold(head, |text, shard| text + &format!("{program} campaign run {folder} --index {shard}\n"))
}

/// The value of `MaxArraySize` in what `scontrol show config` prints.
pub fn max_array_size(config: &str) -> Option<usize> {
    let line = config.lines().find(|line| line.trim_start().starts_with("MaxArraySize"))?;
    line.split_once('=')?.1.trim().parse().ok()
}

/// The numbers of array tasks in what `squeue -h -r -o %K` prints.
pub fn queued_tasks(text: &str) -> Vec<usize> {
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::manifest::{Estimate, Manifest, SCHEMA, Shard};

    fn campaign(shards: usize) -> Campaign {
        let shard = Shard { cpu_ns: 120_000_000_000, memory_bytes: 300 << 20, ..Shard::default() };
        let manifest = Manifest {
            schema: SCHEMA.into(),
            name: "Fig 7".into(),
            weir_version: "1".into(),
            build: "b".into(),
            target: "t".into(),
            plans: Vec::new(),
            command: None,
            estimate: Estimate::default(),
            shards: vec![shard; shards],
        };
        Campaign { folder: "/a b/c".into(), manifest, digest: "0123456789abcdef".into() }
    }

    #[test]
    fn the_index_is_read_from_the_variable_of_each_engine_as_it_counts() {
        let of = |name: &'static str, value: &'static str| {
            index(move |asked| (asked == name).then(|| value.to_owned()))
        };
        assert_eq!(of("SLURM_ARRAY_TASK_ID", "0"), Some(Ok(0)));
        assert_eq!(of("JOB_COMPLETION_INDEX", "7"), Some(Ok(7)));
        assert_eq!(of("PARALLEL_SEQ", "1"), Some(Ok(0)));
        assert!(of("PARALLEL_SEQ", "0").unwrap().unwrap_err().contains("from 1 on"));
        assert!(of("SGE_TASK_ID", "undefined").unwrap().is_err(), "as it is outside of an array");
        assert_eq!(of("HOME", "3"), None);
    }

    #[test]
    fn arrays_are_no_larger_than_slurm_takes_and_every_shard_is_in_one() {
        let of = campaign(2_500);
        let all: Vec<usize> = (0..2_500).collect();
        let commands = slurm(&of, Path::new("/s.sh"), &all, 1001, &["-p".to_owned(), "x".to_owned()]);
        let arrays: Vec<(&str, &str)> = commands
            .iter()
            .map(|words| {
                (
                    words.iter().find_map(|word| word.strip_prefix("--array=")).unwrap(),
                    words.last().unwrap().as_str(),
                )
            })
            .collect();
        assert_eq!(arrays, [("0-999", "0"), ("0-999", "1000"), ("0-499", "2000")]);
        assert!(
            commands[0].windows(2).any(|pair| pair == ["-p", "x"])
                && commands[0].contains(&"--mem=300M".to_owned())
        );
        let some = slurm(&of, Path::new("/s.sh"), &[3, 999, 1000, 1002], 1001, &[]);
        let arrays: Vec<_> = some.iter().map(|words| words[3].clone()).collect();
        assert_eq!(arrays, ["--array=3,999", "--array=0,2"]);
    }

    #[test]
    fn a_folder_of_any_name_is_one_word_and_no_pattern() {
        let of = Campaign { folder: "/a%j/it's \"x\"".into(), ..campaign(2) };
        let command = &slurm(&of, Path::new("/s.sh"), &[0], 1001, &[])[0];
        assert!(command.contains(&"--output=/a%%j/it's \"x\"/log/slurm-%A_%a.txt".to_owned()), "{command:?}");
        assert!(
            plain(&of, &[1]).contains(r#"campaign run '/a%j/it'\''s "x"' --index 1"#),
            "{}",
            plain(&of, &[1])
        );
        assert!(slurm_script(&of.folder).contains(r#"exec '/a%j/it'\''s "x"/bin/weir' campaign run"#));
    }

    #[test]
    fn what_slurm_prints_is_read() {
        assert_eq!(max_array_size("MaxArraySize            = 1001\nMaxDBDMsgs = 20012\n"), Some(1001));
        assert_eq!(max_array_size(""), None);
        assert_eq!(queued_tasks("3\n17\nN/A\n"), [3, 17]);
    }

    #[test]
    fn without_hosts_parallel_runs_here_and_with_them_files_travel() {
        let shard = ["00000".to_owned(), "00003".to_owned()];
        let here = parallel(&[], &[0, 3], "a", &[]);
        assert!(here.ends_with(&shard) && !here.contains(&"--return".to_owned()));
        let there = parallel(&["n1".to_owned(), "n2".to_owned()], &[0, 3], "a", &[]);
        assert!(there.windows(2).any(|pair| pair == ["--return", "out/{}.a.jsonl"]));
        assert_eq!(there.iter().filter(|word| *word == "--sshlogin").count(), 2);
    }

    #[test]
    fn words_of_a_shell_stay_one_word() {
        assert_eq!(
            shown(&["a-b".into(), "c d".into(), "it's".into(), String::new()]),
            r"a-b 'c d' 'it'\''s' ''"
        );
        assert!(slurm_script(Path::new("/a b")).contains("exec '/a b/bin/weir' campaign run '/a b' --index"));
    }

    #[test]
    fn a_plain_job_names_every_shard_and_what_one_needs() {
        let job = plain(&campaign(3), &[0, 2]);
        let lines: Vec<_> = job.lines().collect();
        assert!(lines[0].contains("300 MiB") && lines[0].contains("10 minutes"), "{job}");
        let shard = |number| format!("'/a b/c/bin/weir' campaign run '/a b/c' --index {number}");
        assert_eq!(lines[1..], [shard(0), shard(2)]);
    }
}
