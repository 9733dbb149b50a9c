//! `weir bench --kernel-fs`: file systems of this host's kernel, each made anew for every cell; what the host lacks is left out.

use clap::Args;
use lab::kernel_fs::{self, KernelFs, Medium, System};
use lab::plan::AxisValue;

use crate::failure::{Exit, Failure};
use crate::output::Output;

/// What is measured of the host's kernel.
#[derive(Args, Debug)]
pub(super) struct Kernel {
    /// File systems of this host's kernel instead, made anew for every cell: tmpfs, ext4, xfs
    ///
    /// tmpfs, ext4, ext4nj (without a journal), xfs, btrfs, f2fs; in memory, as root, with --clock real. --medium is then loop, brd
    /// or zram [default: brd or zram, where the kernel has it].
    #[arg(long, value_delimiter = ',', value_name = "A,B", hide_short_help = true, conflicts_with_all = ["fs", "free", "machine"])]
    pub(super) kernel_fs: Vec<System>,
    /// Record which locks of the kernel tasks wait for, as root
    ///
    /// On host:DIR and --kernel-fs: the locks by name, each with its part of the time.
    #[arg(long, visible_alias = "causes", hide_short_help = true)]
    pub(super) kernel_locks: bool,
}

/// The file systems and numbers of threads that this host can measure.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) systems: Vec<KernelFs>,
    pub(super) threads: Vec<u64>,
    /// What it cannot, each with the reason.
    pub(super) left_out: Vec<String>,
}

impl Kernel {
    /// What this host can measure of what was asked for; none where no file system of the kernel was.
    pub(super) fn choose(&self, media: &[String], threads: &[u64]) -> Result<Option<Chosen>, Failure> {
        if self.kernel_fs.is_empty() {
            return Ok(None);
        }
        let medium = match media {
            [] => Medium::usual(),
            [one] => one.parse().map_err(|why| Failure::usage(format!("--medium {one}: {why}")))?,
            _ => return Err(Failure::usage("--kernel-fs takes one --medium: loop, brd or zram")),
        };
        if let Some(why) = kernel_fs::impossible() {
            return Err(Failure::new(Exit::Host, format!("--kernel-fs: {why}")));
        }
        let wanted = if threads.is_empty() { sim::topology::counts() } else { threads.to_vec() };
        let all = self.kernel_fs.iter().map(|system| KernelFs { system: *system, medium });
        let cores = lab::environment::cores() as u64;
        let chosen = sort(all.map(|kernel| (kernel, kernel.missing())), &wanted, cores);
        if chosen.systems.is_empty() || chosen.threads.is_empty() {
            let why = chosen.left_out.join("; ");
            return Err(Failure::new(
                Exit::Host,
                format!("--kernel-fs: nothing can be measured here: {why}"),
            ));
        }
        Ok(Some(chosen))
    }
}

/// Those without a reason, and counts of threads up to the number of cores.
fn sort(systems: impl Iterator<Item = (KernelFs, Option<String>)>, threads: &[u64], cores: u64) -> Chosen {
    let mut chosen = Chosen { systems: Vec::new(), threads: Vec::new(), left_out: Vec::new() };
    for (kernel, missing) in systems {
        match missing {
            None => chosen.systems.push(kernel),
            Some(why) => chosen.left_out.push(format!("{}: {why}", kernel.system)),
        }
    }
    for count in threads {
        if *count <= cores {
            chosen.threads.push(*count);
        } else {
            chosen.left_out.push(format!("{count} threads: this host has {cores} cores"));
        }
    }
    chosen
}

impl Chosen {
    /// The values of the axis of designs: the names that the models of the same file systems have, so that results of both can be
    /// compared.
    pub(super) fn values(&self) -> impl Iterator<Item = AxisValue> {
        self.systems.iter().map(|kernel| AxisValue {
            label: format!("linux/{}", kernel.system),
            ..AxisValue::plain(kernel.to_string())
        })
    }

    /// Says what is left out, before the rest runs.
    pub(super) fn tell(&self, output: &Output) {
        self.left_out.iter().for_each(|why| output.note(&format!("left out  {why}")));
    }

    /// The end of a run in which the rest has been measured.
    pub(super) fn end(&self) -> Result<(), Failure> {
        match &self.left_out[..] {
            [] => Ok(()),
            some => {
                Err(Failure::new(Exit::Run, format!("left out, the rest was measured: {}", some.join("; "))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_lacks_is_left_out_by_name_and_the_rest_stays() {
        let kernel = |name: &str| name.parse::<KernelFs>().unwrap();
        let (ext4, f2fs) = (kernel("ext4@loop"), kernel("f2fs@loop"));
        let chosen = sort([(ext4, None), (f2fs, Some("none".to_owned()))].into_iter(), &[1, 2, 80], 2);
        assert_eq!((&chosen.systems[..], &chosen.threads[..]), (&[ext4][..], &[1, 2][..]));
        assert_eq!(chosen.left_out, ["f2fs: none", "80 threads: this host has 2 cores"]);
        assert_eq!(chosen.end().unwrap_err().exit, Exit::Run);
        let labels: Vec<_> = chosen.values().map(|value| (value.label, value.value)).collect();
        assert_eq!(labels, [("linux/ext4".to_owned(), "kernel:ext4@loop".to_owned())]);
    }
}
