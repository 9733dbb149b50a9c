//! The request layer: neighbours are merged, long requests split, and no more are outstanding than the queue is deep.

use std::sync::Arc;

use media::block::{BlockDevice, Geometry, Hint, MemoryDevice, Piece, Port, Queue, Request, Ticket};
use media::cost::Turn;
use media::event::TaskId;
use media::{BlockEvent, Event, MediaError, Tap};
use parking_lot::Mutex;
use sim::{Bytes, Machine, Nanos, Seed, Setup};

const SECTOR: u64 = 512;
/// What the slow device takes for a request.
const SERVICE: Nanos = Nanos::from_millis(1);

/// The writes that reach a device: offset, length, hint.
#[derive(Default)]
struct Writes(Mutex<Vec<(u64, u64, Hint)>>);

impl Tap for Writes {
    fn event(&self, _: TaskId, event: Event<'_>) {
        if let Event::Block(BlockEvent::Write { off, data, flags, .. }) = event {
            self.0.lock().push((off, data.len() as u64, flags.hint));
        }
    }
}

/// What a queue makes of writes of whole sectors, given by number, count and hint, on a device that takes four in a request.
fn requests(writes: &[(u64, u64, Hint)]) -> Vec<(u64, u64, Hint)> {
    let region = Arc::clone(MemoryDevice::ram(Bytes(1 << 16)).expect("memory").region());
    let geometry = Geometry { max_transfer_bytes: 4 * SECTOR as u32, ..Geometry::memory(Bytes(1 << 16)) };
    let device = MemoryDevice::over(region, geometry).expect("fits");
    let seen = Arc::new(Writes::default());
    device.attach(Arc::clone(&seen) as Arc<dyn Tap>);
    let data = vec![7; 64 * SECTOR as usize];
    let piece = |(at, count, hint): &(u64, u64, Hint)| Piece {
        off: at * SECTOR,
        data: &data[..(count * SECTOR) as usize],
        hint: *hint,
    };
    let pieces: Vec<_> = writes.iter().map(piece).collect();
    Queue::new(device).write(&pieces, false).expect("write");
    let seen = seen.0.lock();
    seen.iter().map(|(off, len, hint)| (off / SECTOR, len / SECTOR, *hint)).collect()
}

#[test]
fn neighbours_in_the_order_given_are_one_request_with_the_hint_of_the_first() {
    let (none, over) = (Hint::None, Hint::Overwrite);
    assert_eq!(requests(&[(8, 1, over), (9, 2, none), (11, 1, none)]), [(8, 4, over)]);
    assert_eq!(requests(&[(8, 1, none), (10, 1, none)]), [(8, 1, none), (10, 1, none)]);
    // Nothing is sorted.
    assert_eq!(requests(&[(9, 1, none), (8, 1, none)]), [(9, 1, none), (8, 1, none)]);
}

#[test]
fn a_long_request_is_split_and_each_part_of_an_append_follows_the_part_before() {
    let after = |lba| Hint::Append { previous_lba: lba };
    assert_eq!(requests(&[(16, 10, after(3))]), [(16, 4, after(3)), (20, 4, after(19)), (24, 2, after(23))]);
    // Ten sectors in a row are three requests, however many pieces they are.
    let pieces: Vec<_> = (0..10).map(|at| (at, 1, Hint::None)).collect();
    assert_eq!(requests(&pieces).len(), 3);
}

/// A device that takes the same time for each request, and any number at once.
#[derive(Debug)]
struct Slow {
    geometry: Geometry,
    port: Port,
}

impl BlockDevice for Slow {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn port(&self) -> &Port {
        &self.port
    }

    fn submit(&self, request: Request<'_>) -> Ticket {
        let now = sim::now();
        let turn = Turn { arrival: now, start: now, end: now + SERVICE };
        self.port.submit(&self.geometry, request, |_| Ok(turn))
    }

    fn peek(&self, _: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        buf.fill(0);
        Ok(())
    }

    fn reset(&self) {}
}

/// How many times the device's service a queue of this depth takes for so many requests that are no neighbours.
fn rounds(requests: u64, depth: u32) -> u64 {
    let run = move || {
        let geometry = Geometry { queue_depth: 1000, ..Geometry::memory(Bytes(1 << 20)) };
        let queue = Queue::new(Arc::new(Slow { geometry, port: Port::new() })).with_depth(depth);
        let data = [7; SECTOR as usize];
        let piece = |at| Piece { off: 2 * at * SECTOR, data: &data, hint: Hint::None };
        let pieces: Vec<_> = (0..requests).map(piece).collect();
        queue.write(&pieces, false).expect("write");
        sim::now().0 / SERVICE.0
    };
    sim::run(&Setup::virtual_clock(Machine::unit(), Seed(1)), run).expect("the run ends")
}

#[test]
fn a_queue_of_depth_d_takes_n_requests_in_n_over_d_rounds() {
    for (requests, depth) in [(1, 1), (8, 1), (8, 4), (9, 4), (8, 8), (8, 100), (100, 7)] {
        let rounds = rounds(requests, depth);
        assert_eq!(rounds, requests.div_ceil(u64::from(depth)), "{requests} requests, depth {depth}");
    }
}
