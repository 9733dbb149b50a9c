//! The operations, a file for each family.
//!
//! | module | flowops |
//! |---|---|
//! | `names` | openfile, createfile, closefile, deletefile, statfile |
//! | `io` | read, write |
//! | `whole` | readwholefile, writewholefile, appendfile, appendfilerand |
//! | `durable` | fsync, fsyncset |
//! | `directory` | makedir, removedir, listdir |
//! | `asynchronous` | aiowrite, aiowait |
//! | `wait` | block, wakeup, semblock, sempost |
//! | `limit` | eventlimit, iopslimit, opslimit, bwlimit |
//! | `finish` | finishoncount, finishonbytes |
//! | `other` | hog, delay, print, testrandvar |
//!
//! Each takes the [`Worker`] that executes it and its task, does its calls between two readings of the
//! clock and says what follows.

mod asynchronous;
mod directory;
mod durable;
mod finish;
mod io;
mod limit;
mod names;
mod other;
mod wait;
mod whole;

pub(crate) use names::make_path;
pub(crate) use wait::StepGates;

use super::run::plan::Task;
use super::run::worker::{Flow, Worker};
use super::vocabulary::Op;

/// Executes one operation.
pub(crate) fn execute(worker: &mut Worker, task: &Task) -> Flow {
    match task.operation.op {
        Op::OpenFile => names::open(worker, task),
        Op::CreateFile => names::create(worker, task),
        Op::CloseFile => names::close(worker, task),
        Op::DeleteFile => names::delete(worker, task),
        Op::StatFile => names::stat(worker, task),
        Op::Fsync => durable::fsync(worker, task),
        Op::FsyncSet => durable::fsync_set(worker, task),
        Op::Read => io::read(worker, task),
        Op::Write => io::write(worker, task),
        Op::ReadWholeFile => whole::read(worker, task),
        Op::WriteWholeFile => whole::write(worker, task),
        Op::AppendFile => whole::append(worker, task),
        Op::AppendFileRand => whole::append_random(worker, task),
        Op::MakeDir => directory::make(worker, task),
        Op::RemoveDir => directory::remove(worker, task),
        Op::ListDir => directory::list(worker, task),
        Op::AioWrite => asynchronous::write(worker, task),
        Op::AioWait => asynchronous::wait(worker, task),
        Op::Block => wait::block(worker, task),
        Op::Wakeup => wait::wakeup(worker, task),
        Op::SemBlock => wait::sem_block(worker, task),
        Op::SemPost => wait::sem_post(worker, task),
        Op::EventLimit => limit::events(worker, task),
        Op::IopsLimit => limit::io_operations(worker, task),
        Op::OpsLimit => limit::operations(worker, task),
        Op::BwLimit => limit::bandwidth(worker, task),
        Op::FinishOnCount => finish::on_count(worker, task),
        Op::FinishOnBytes => finish::on_bytes(worker, task),
        Op::Hog => other::hog(worker, task),
        Op::Delay => other::delay(worker, task),
        Op::Print => other::print(worker, task),
        Op::TestRandVar => {
            other::test_random(worker, task);
            Ok(())
        }
    }
}
