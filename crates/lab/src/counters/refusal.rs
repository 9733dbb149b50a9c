//! Why the kernel refuses perf_event_open(2), and what helps. The number of the error and what stands around the process tell:
//!
//! | error | where | reason |
//! |---|---|---|
//! | `EACCES` | – | `kernel.perf_event_paranoid` |
//! | `EPERM`, `ENOSYS` | a seccomp filter is on this process | the filter, as container engines have one, also for root |
//! | `EPERM` | no filter | a security module, or the kernel's lockdown |
//! | `ENOSYS` | no filter | a kernel without the call, or a sandbox that is its own kernel |

use std::io;

use rustix::io::Errno;

/// The surroundings of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Around {
    /// `kernel.perf_event_paranoid`; none where the kernel does not say.
    paranoid: Option<i32>,
    /// A seccomp filter decides on its calls.
    filtered: bool,
}

impl Around {
    fn here() -> Self {
        let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
        Self {
            paranoid: paranoid.and_then(|text| text.trim().parse().ok()),
            filtered: mode.is_some_and(|mode| mode.trim() == "2"),
        }
    }
}

/// The reason and the remedy where an event was refused to this process; none where it is the event that is not there. `enough` is
/// the greatest `kernel.perf_event_paranoid` with which any user may count what was asked for.
pub(crate) fn told(error: &io::Error, enough: i32) -> Option<String> {
    of(error.raw_os_error()?, Around::here(), enough)
}

fn of(number: i32, around: Around, enough: i32) -> Option<String> {
    const PROFILE: &str = "a seccomp profile of this process forbids perf_event_open, also to root, as container engines \
                           do: start the container with --cap-add PERFMON, or with a profile that allows the call \
                           (--security-opt seccomp=FILE)";
    let errno = Errno::from_raw_os_error(number);
    let (name, why) = match errno {
        Errno::PERM if around.filtered => ("EPERM", PROFILE.to_owned()),
        Errno::NOSYS if around.filtered => ("ENOSYS", PROFILE.to_owned()),
        Errno::PERM => (
            "EPERM",
            "a security module or the lockdown of this kernel forbids it: see /sys/kernel/security/lockdown and the \
             kernel's log"
                .to_owned(),
        ),
        Errno::NOSYS => (
            "ENOSYS",
            "this kernel has no perf_event_open: it was built without CONFIG_PERF_EVENTS, or is that of a sandbox \
             (gVisor)"
                .to_owned(),
        ),
        Errno::ACCESS => {
            let is = around.paranoid.map_or(String::new(), |level| format!(", and is {level} here"));
            let why = format!(
                "it needs root, CAP_PERFMON, or kernel.perf_event_paranoid of {enough} or less{is}: \
                 sysctl kernel.perf_event_paranoid={enough}"
            );
            ("EACCES", why)
        }
        _ => return None,
    };
    Some(format!("{name}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are those of Linux: EPERM 1, EACCES 13, ENOSYS 38, ENOENT 2.
    #[test]
    fn each_refusal_has_the_reason_of_the_kernel_and_what_helps() {
        let around = |paranoid, filtered| Around { paranoid: Some(paranoid), filtered };
        for (number, around, parts) in [
            (1, around(-1, true), ["EPERM", "seccomp", "--cap-add PERFMON"]),
            (38, around(2, true), ["ENOSYS", "seccomp", "--security-opt"]),
            (1, around(2, false), ["EPERM", "lockdown", "security module"]),
            (38, around(2, false), ["ENOSYS", "CONFIG_PERF_EVENTS", "gVisor"]),
            (13, around(4, false), ["EACCES", "is 4 here", "sysctl kernel.perf_event_paranoid=1"]),
            (13, around(2, true), ["EACCES", "CAP_PERFMON", "of 1 or less"]),
        ] {
            let told = of(number, around, 1).unwrap_or_else(|| panic!("{number}"));
            for part in parts {
                assert!(told.contains(part), "{part}: {told}");
            }
        }
        assert_eq!(of(2, around(2, true), 1), None, "there is no such event: that is no refusal");
    }
}
