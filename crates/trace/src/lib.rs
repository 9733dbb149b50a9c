//! Traces of the file-system calls of programs: a documented text format, imports of what other programs record, tools, and the
//! compilation into a program that can be replayed. `docs/traces.md` has the format for users.
//!
//! ```text
//!   strace, dbench, fio, …  ──► import ──► Emitter ──► Writer ──► x.wtrace ──► Reader ──► stat, anonymize, cut
//!   the mount's server ─────────────────►                                        └──────► compile ──► Program, Packed
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`call`] | the calls, and which fields each has |
//! | [`record`] | the records |
//! | [`words`] | the words of flags and errors |
//! | [`losses`] | the account of what a trace lacks |
//! | `text` | records as lines; how the format grows |
//! | `writer`, `reader` | a trace as a stream: [`Writer`], [`Reader`] |
//! | [`scope`], [`snapshot`] | which files a trace is about; what existed before |
//! | [`contents`] | what was written, in a file beside the trace |
//! | [`import`] | traces of other programs; [`import::Emitter`] for recorders |
//! | [`remains`] | what the files are in the end, beside what the trace says of them |
//! | [`stat`], [`anonymize`], [`cut`] | what `weir trace` does |
//! | `state` | what a trace has shown so far: names, inodes, descriptors |
//! | [`compile`] | the order of a replay |
//!
//! This crate knows no clock, no design and no workload: a trace is data.
//!
//! # For a replayer
//!
//! [`compile::Program`] is all that a replayer needs; [`compile::Program::open`] takes a trace or a compiled one.
//!
//! 1. **Before.** Make [`compile::Program::initial`] in its order: kind, mode, size (contents are the replayer's), links; names of
//!    one `group` are hard links. Paths are relative to the root of the replay; one that begins with `/` was outside the trace's
//!    root, and a replay has to put it somewhere else or leave it out.
//! 2. **Threads.** A task for each of [`compile::Program::threads`]. All may be started at once: the first step of a child waits
//!    for its parent's fork.
//! 3. **Steps.** A task takes its own `steps` in their order. Before each it waits until, for every entry of
//!    [`compile::Program::waits`], that thread has *ended* the step with that number (of its own steps, from 0). In order
//!    `thread` it does not wait; in order `total` it waits for the step before in [`compile::Program::steps`].
//! 4. **Pace.** Before the step it computes for [`record::Times::cpu_ns`] of `summary.level_ns` (pace `think`), or nothing
//!    (`asap`).
//! 5. **Call.** `call.op` says what, [`call::Op::fields`] with which members. Paths are numbers of `paths`. A descriptor is a
//!    handle;
//!    `opens` is the handle that a successful `open` or `dup` gives. A table of `summary.handles` entries holds them; no handle is
//!    given twice, whichever process had it. A `close` without a descriptor has nothing to do: another process has it still. Other
//!    calls without a descriptor failed with `EBADF`. `umask`, `chdir`, `exec`, `fork` and `wait` act on the program, not on files:
//!    the waits already have their order.
//! 6. **Result.** `result` is what the program got: bytes, or −errno. A difference is told with `line`, which is that of the trace.
//!
//! ```
//! use trace::call::Op;
//! use trace::compile::{Options, Program};
//! use trace::Reader;
//!
//! let text = "#weir-trace 1\n#root /r\n\
//!             T 1 10 10 \"maker\"\nT 2 10 11 \"maker\"\nF 1 2 0 thread,files\n\
//!             1 500 20 open \"new\" wronly,creat 0644 = 3\n1 300 40 write 3 4096 = 4096\n\
//!             2 900 90 fsync 3 = 0\nE at=2000 calls=3 dropped=0 level=100\n";
//! let program = Program::compile(Reader::new(text.as_bytes(), "example")?, Options::default())?;
//!
//! // One task after the other takes a step whose waits have ended; a replayer has a coroutine or thread for each.
//! let mut ended = vec![0_u32; program.threads.len()];
//! let mut handles = vec![None; program.summary.handles as usize];
//! let mut synced = 0;
//! while let Some(at) = (0..ended.len()).find(|at| {
//!     let next = program.threads[*at].steps.get(ended[*at] as usize);
//!     next.is_some_and(|step| program.waits(*step).iter().all(|wait| {
//!         program.thread_at(wait.thread).is_some_and(|thread| ended[thread] > wait.step)
//!     }))
//! }) {
//!     let step = program.get(program.threads[at].steps[ended[at] as usize]);
//!     let _think_ns = step.times.cpu_ns(program.summary.level_ns);
//!     match step.call.op {
//!         Op::Open => handles[step.opens.unwrap() as usize] = Some(program.path_of(step.call.path).to_vec()),
//!         Op::Write => assert_eq!(handles[step.call.fd.unwrap() as usize].as_deref(), Some(&b"new"[..])),
//!         Op::Fsync => synced += 1,
//!         _ => {}
//!     }
//!     ended[at] += 1;
//! }
//! assert_eq!((ended, synced), (vec![2, 1], 1));
//! # Ok::<(), trace::Error>(())
//! ```

#![forbid(unsafe_code)]

pub mod anonymize;
pub mod call;
pub mod compile;
pub mod contents;
pub mod cut;
mod error;
pub mod import;
pub mod losses;
mod reader;
pub mod record;
pub mod remains;
pub mod scope;
pub mod snapshot;
pub mod stat;
mod state;
mod text;
pub mod words;
mod writer;

pub use error::{Error, Result};
pub use reader::{Ending, Reader};
pub use record::VERSION;
pub use text::SECTIONS;
pub use writer::{BLOCK_BYTES, Writer};
