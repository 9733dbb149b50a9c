//! Thinking, sleeping, speaking.

use std::hint::black_box;

use sim::{Clock, Nanos};

use crate::filebench::run::plan::Task;
use crate::filebench::run::worker::{Flow, Worker};

/// Stores that go to a cache are charged in pieces below the size from which copies queue for the memory.
const PIECE_BYTES: u64 = 512;

/// Stores one byte `value` times.
pub(super) fn hog(worker: &mut Worker, task: &Task) -> Flow {
    let stores = task.operation.value.draw(&mut worker.rng);
    worker.timed(task, |worker| {
        match sim::clock() {
            Clock::Virtual => charge(stores),
            Clock::Real => (0..stores).for_each(|_| *black_box(&mut worker.buffer.get(1)[0]) = 1),
        }
        Ok(0)
    })
}

fn charge(stores: u64) {
    for _ in 0..stores / PIECE_BYTES {
        sim::copy(PIECE_BYTES);
    }
    sim::copy(stores % PIECE_BYTES);
}

/// Sleeps `value` seconds, or to the end of the run.
pub(super) fn delay(worker: &mut Worker, task: &Task) -> Flow {
    let seconds = task.operation.value.draw(&mut worker.rng);
    worker.timed(task, |worker| {
        let until = sim::now() + Nanos::from_secs(seconds);
        sim::sleep_until(until.min(worker.run.control.stop_at()));
        Ok(0)
    })
}

/// Says something.
pub(super) fn print(worker: &mut Worker, task: &Task) -> Flow {
    worker.timed(task, |worker| {
        let plan = &worker.run.engine.plan.threads[worker.kind];
        let (process, thread, instance) = (&plan.process_name, &plan.name, worker.instance + 1);
        let message = format!(
            "{:.3}: Message from process {process}, thread ({thread},{instance}): {}",
            sim::now().as_secs_f64(),
            task.operation.text
        );
        worker.run.note_message(message);
        Ok(0)
    })
}

/// Draws from a random variable and keeps mean and deviation.
pub(super) fn test_random(worker: &mut Worker, task: &Task) {
    let value = task.operation.value.draw_f64(&mut worker.rng);
    worker.note_draw(task.id, value);
}
