//! A table store in the manner of N-store, under YCSB and under a subset of TPC-C.
//!
//! YCSB: tuples of ten fields under numbers. A read takes all fields, without a transaction; an update is one transaction that
//! writes one field. The machine's `gets` is the share of reads: 50 % is workload A, 95 % workload B. Keys are uniform, fields
//! are a
//! tenth of the machine's `value` or a word at least.
//!
//! TPC-C: one warehouse with ten districts, customers and stock. A new order takes the district's next number, lowers the stock of
//! five to fifteen items and writes an order line for each into the district's ring; a payment adds to what the warehouse, the
//! district and the customer have paid. As many of one as of the other.

use super::{PmCtx, Workload, below, store_value};
use sim::rng::Rng;

const FIELDS: u64 = 10;

/// YCSB; see the module.
#[derive(Clone, Debug)]
pub struct Ycsb {
    words: u64,
    gets: u64,
    base: u64,
    tuples: u64,
    updates: u64,
}

impl Ycsb {
    /// With values of `words` words, and this share of reads in percent.
    pub fn new(words: u64, gets: u64) -> Self {
        Self { words: words.div_ceil(FIELDS), gets, base: 0, tuples: 0, updates: 0 }
    }

    /// Number of the tuple, of its last update, then fields.
    fn tuple_bytes(&self) -> u64 {
        16 + 8 * FIELDS * self.words
    }
}

impl Workload for Ycsb {
    fn setup(&mut self, memory: &mut dyn PmCtx, _: &mut Rng) {
        self.tuples = (memory.left() / self.tuple_bytes()).max(1);
        self.base = memory.alloc(self.tuples * self.tuple_bytes());
        for number in 0..self.tuples {
            let tuple = self.base + number * self.tuple_bytes();
            memory.store(tuple, number);
            memory.store(tuple + 8, 0);
            for field in 0..FIELDS {
                store_value(memory, tuple + 16 + 8 * field * self.words, self.words, 0);
            }
        }
    }

    fn step(&mut self, memory: &mut dyn PmCtx, rng: &mut Rng) {
        let tuple = self.base + below(rng, self.tuples) * self.tuple_bytes();
        let (read, field) = (below(rng, 100) < self.gets, below(rng, FIELDS));
        memory.alu(60);
        if read {
            for word in 0..self.tuple_bytes() / 8 {
                memory.alu(1);
                memory.load(tuple + 8 * word);
            }
            return memory.done();
        }
        self.updates += 1;
        memory.tx_begin();
        memory.load(tuple);
        memory.store(tuple + 8, self.updates);
        store_value(memory, tuple + 16 + 8 * field * self.words, self.words, self.updates);
        memory.tx_commit();
    }

    fn check(&self, read: &dyn Fn(u64) -> u64) -> Result<(), String> {
        for number in 0..self.tuples {
            let tuple = self.base + number * self.tuple_bytes();
            let (is, update) = (read(tuple), read(tuple + 8));
            let begins = |field: u64| read(tuple + 16 + 8 * field * self.words);
            let last = update.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if is != number || (update > 0 && !(0..FIELDS).any(|field| begins(field) == last)) {
                return Err(format!("tuple {number} calls itself {is}, and has no field of update {update}"));
            }
        }
        Ok(())
    }
}

const DISTRICTS: u64 = 10;
const PAID: u64 = 0;
const NEXT_ORDER: u64 = 8;
const ROW: u64 = 16;
/// Order lines of a district's ring: item, order.
const LINES: u64 = 16;
const LINE_BYTES: u64 = 16;
const STOCK: u64 = 1000;

/// TPC-C; see the module.
#[derive(Clone, Debug, Default)]
pub struct Tpcc {
    warehouse: u64,
    districts: u64,
    rings: u64,
    customers: u64,
    stock: u64,
    items: u64,
}

impl Tpcc {
    fn add(memory: &mut dyn PmCtx, addr: u64, amount: u64) {
        let now = memory.load(addr);
        memory.store(addr, now + amount);
    }

    fn new_order(&self, memory: &mut dyn PmCtx, rng: &mut Rng) {
        let number = below(rng, DISTRICTS);
        let district = self.districts + number * ROW;
        let order = memory.load(district + NEXT_ORDER);
        memory.store(district + NEXT_ORDER, order + 1);
        for line in 0..5 + below(rng, 11) {
            let item = below(rng, self.items);
            let stock = self.stock + item * ROW;
            memory.alu(10);
            let left = memory.load(stock);
            let refill = if left < 10 { 91 } else { 0 };
            memory.store(stock, left + refill - 1);
            Self::add(memory, stock + 8, 1);
            let place = self.rings + (number * LINES + line) * LINE_BYTES;
            memory.store(place, item);
            memory.store(place + 8, order);
        }
    }

    fn pay(&self, memory: &mut dyn PmCtx, rng: &mut Rng) {
        let amount = 1 + below(rng, 5000);
        let district = self.districts + below(rng, DISTRICTS) * ROW;
        let customer = self.customers + below(rng, self.items) * ROW;
        memory.alu(20);
        for addr in [self.warehouse, district + PAID, customer + PAID] {
            Self::add(memory, addr, amount);
        }
        Self::add(memory, customer + 8, 1);
    }
}

impl Workload for Tpcc {
    fn setup(&mut self, memory: &mut dyn PmCtx, _: &mut Rng) {
        self.warehouse = memory.alloc(64);
        self.districts = memory.alloc(DISTRICTS * ROW);
        self.rings = memory.alloc(DISTRICTS * LINES * LINE_BYTES);
        self.items = (memory.left() / (2 * ROW)).max(1);
        self.customers = memory.alloc(self.items * ROW);
        self.stock = memory.alloc(self.items * ROW);
        memory.store(self.warehouse, 0);
        for district in 0..DISTRICTS {
            memory.store(self.districts + district * ROW + PAID, 0);
            memory.store(self.districts + district * ROW + NEXT_ORDER, 1);
        }
        for item in 0..self.items {
            memory.store(self.stock + item * ROW, STOCK);
        }
    }

    fn step(&mut self, memory: &mut dyn PmCtx, rng: &mut Rng) {
        memory.alu(60);
        memory.tx_begin();
        if below(rng, 2) == 0 {
            self.new_order(memory, rng);
        } else {
            self.pay(memory, rng);
        }
        memory.tx_commit();
    }

    fn check(&self, read: &dyn Fn(u64) -> u64) -> Result<(), String> {
        let sum = |base: u64, count: u64| (0..count).map(|at| read(base + at * ROW + PAID)).sum::<u64>();
        let paid = [read(self.warehouse), sum(self.districts, DISTRICTS), sum(self.customers, self.items)];
        if paid[0] != paid[1] || paid[1] != paid[2] {
            return Err(format!("warehouse, districts and customers paid {paid:?}"));
        }
        for district in 0..DISTRICTS {
            let next = read(self.districts + district * ROW + NEXT_ORDER);
            let order = |line: u64| read(self.rings + (district * LINES + line) * LINE_BYTES + 8);
            if (0..LINES).any(|line| order(line) >= next) {
                return Err(format!("district {district} has a line of an order to come"));
            }
        }
        Ok(())
    }
}
