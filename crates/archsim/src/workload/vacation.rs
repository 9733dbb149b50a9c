//! Reservations in the manner of STAMP's vacation: tables of cars, flights and rooms, and one of customers.
//!
//! A resource: number, all, free, price. A customer: how many reservations were made, and a ring of the newest. A transaction asks
//! for one to five resources of random tables, takes of each table the dearest that is free, and books these for a customer; a
//! booking that leaves the ring is given back. One transaction in ten gives back all of a customer's instead, and one in ten
//! changes
//! prices. Tables are sorted arrays that are searched by halves, as a tree would be.

use super::{PmCtx, Workload, below};
use sim::rng::Rng;

const TABLES: u64 = 3;
const NUMBER: u64 = 0;
const ALL: u64 = 8;
const FREE: u64 = 16;
const PRICE: u64 = 24;
const RESOURCE: u64 = 32;
const MADE: u64 = 0;
const RING: u64 = 8;
const SLOTS: u64 = 8;
const CUSTOMER: u64 = RING + 8 * SLOTS;
const QUERIES: u64 = 5;
/// Bookings that a resource has at first.
const SEATS: u64 = 100;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Vacation {
    tables: [u64; TABLES as usize],
    resources: u64,
    customers: u64,
    base: u64,
}

impl Vacation {
    /// Finds a resource by its number.
    fn find(&self, memory: &mut dyn PmCtx, table: u64, number: u64) -> u64 {
        let base = self.tables[table as usize];
        let (mut low, mut high) = (0, self.resources);
        while low + 1 < high {
            let middle = u64::midpoint(low, high);
            memory.alu(4);
            let here = memory.chase(base + middle * RESOURCE + NUMBER);
            if here <= number { low = middle } else { high = middle }
        }
        base + low * RESOURCE
    }

    fn give_back(memory: &mut dyn PmCtx, resource: u64) {
        let free = memory.chase(resource + FREE);
        memory.store(resource + FREE, free + 1);
    }

    fn book(memory: &mut dyn PmCtx, customer: u64, resource: u64) {
        let made = memory.load(customer + MADE);
        let slot = customer + RING + 8 * (made % SLOTS);
        let old = memory.load(slot);
        if old != 0 {
            Self::give_back(memory, old);
        }
        let free = memory.load(resource + FREE);
        memory.store(resource + FREE, free - 1);
        memory.store(slot, resource);
        memory.store(customer + MADE, made + 1);
    }

    fn reserve(&self, memory: &mut dyn PmCtx, rng: &mut Rng, customer: u64) {
        let mut dearest = [(0, 0); TABLES as usize];
        for _ in 0..=below(rng, QUERIES) {
            let table = below(rng, TABLES);
            let resource = self.find(memory, table, 1 + below(rng, self.resources));
            memory.alu(4);
            let (free, price) = (memory.load(resource + FREE), memory.load(resource + PRICE));
            if free > 0 && price >= dearest[table as usize].0 {
                dearest[table as usize] = (price, resource);
            }
        }
        for (_, resource) in dearest.into_iter().filter(|(_, resource)| *resource != 0) {
            Self::book(memory, customer, resource);
        }
    }

    fn cancel(memory: &mut dyn PmCtx, customer: u64) {
        for slot in (0..SLOTS).map(|slot| customer + RING + 8 * slot) {
            let resource = memory.load(slot);
            if resource != 0 {
                Self::give_back(memory, resource);
                memory.store(slot, 0);
            }
        }
    }
}

impl Workload for Vacation {
    fn setup(&mut self, memory: &mut dyn PmCtx, rng: &mut Rng) {
        let unit = TABLES * RESOURCE + CUSTOMER;
        self.resources = (memory.left() / unit).max(2);
        self.customers = self.resources;
        for table in 0..TABLES as usize {
            self.tables[table] = memory.alloc(self.resources * RESOURCE);
            for at in 0..self.resources {
                let resource = self.tables[table] + at * RESOURCE;
                memory.store(resource + NUMBER, at + 1);
                memory.store(resource + ALL, SEATS);
                memory.store(resource + FREE, SEATS);
                memory.store(resource + PRICE, 50 + 10 * below(rng, 5));
            }
        }
        self.base = memory.alloc(self.customers * CUSTOMER);
        for word in 0..self.customers * CUSTOMER / 8 {
            memory.store(self.base + 8 * word, 0);
        }
    }

    fn step(&mut self, memory: &mut dyn PmCtx, rng: &mut Rng) {
        let customer = self.base + below(rng, self.customers) * CUSTOMER;
        memory.alu(40);
        memory.tx_begin();
        match below(rng, 10) {
            0 => Self::cancel(memory, customer),
            1 => {
                let table = below(rng, TABLES);
                let resource = self.find(memory, table, 1 + below(rng, self.resources));
                memory.store(resource + PRICE, 50 + 10 * below(rng, 5));
            }
            _ => self.reserve(memory, rng, customer),
        }
        memory.tx_commit();
    }

    fn check(&self, read: &dyn Fn(u64) -> u64) -> Result<(), String> {
        let mut booked = std::collections::BTreeMap::new();
        for customer in (0..self.customers).map(|at| self.base + at * CUSTOMER) {
            for slot in 0..SLOTS {
                *booked.entry(read(customer + RING + 8 * slot)).or_insert(0) += 1;
            }
        }
        for table in self.tables {
            for resource in (0..self.resources).map(|at| table + at * RESOURCE) {
                let taken = booked.get(&resource).copied().unwrap_or(0);
                if read(resource + FREE) + taken != read(resource + ALL) {
                    return Err(format!("resource {resource:#x}: free and booked are not all"));
                }
            }
        }
        Ok(())
    }
}
