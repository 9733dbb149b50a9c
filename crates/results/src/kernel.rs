//! What the tasks of a workload waited for in the host's kernel, as its tracepoints or samples of its stacks tell.

use serde::{Deserialize, Serialize};

/// The waits of one sample of the real clock. Times are sums over all tasks, within the measured time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelLocks {
    /// What told of them: `lock tracepoints`, `off-CPU stacks`, `profile`; empty where nothing could.
    pub sources: Vec<String>,
    /// What would have told more and could not be used, each with its reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// Events, or samples, of the workload's tasks.
    pub events: u64,
    /// Events of the whole host for which the kernel's buffers had no room.
    pub lost: u64,
    /// Time of all tasks: their number by the measured time.
    pub task_ns: u64,
    /// All waits of `locks`.
    pub wait_ns: u64,
    /// Time for which tasks could have run and another task had their processor.
    pub preempted_ns: u64,
    /// Waits outside calls of files: page faults, interrupts, and what the workload does beside its calls.
    pub elsewhere_ns: u64,
    /// By lock, the most first.
    pub locks: Vec<KernelLock>,
}

/// What tasks waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelLock {
    /// Its name, the same as in the models of the kernel's file systems; `kernel:FUNCTION` where only the function is known that
    /// asked for it.
    pub name: String,
    /// What it protects; empty where that is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub what: String,
    /// The kind of lock: `spinlock`, `rwlock`, `rwsem`, `mutex`, `semaphore`, `percpu-rwsem`; `sleep` where a task slept for
    /// something that is no lock.
    pub kind: String,
    /// How long tasks waited for it.
    pub wait_ns: u64,
    /// How often.
    pub count: u64,
    /// The functions that called for it where tasks waited the longest, the innermost first.
    pub stack: Vec<String>,
}

impl KernelLocks {
    /// The part of the tasks' time that was spent in waits.
    pub fn share(&self) -> f64 {
        if self.task_ns == 0 { 0.0 } else { self.wait_ns as f64 / self.task_ns as f64 }
    }
}
