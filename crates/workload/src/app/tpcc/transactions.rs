//! The five transactions (TPC-C 5.11, clauses 2.4 to 2.8), and the locks of rows that they hold until they are durable.
//!
//! Locks of one transaction are taken in the order warehouse, district, undelivered orders, customer, stock (by number), so that no
//! two wait for each other. What is only read is read without a lock. Delivery is a transaction for each district (2.7.4.2).

use std::sync::Arc;

use rand::RngExt as _;
use sim::{LockClass, Mutex, MutexGuard, Nanos};

use super::engine::{Changes, Done, Engine};
use super::inputs::{Chosen, Inputs, Line};
use super::schema::{self, DISTRICTS, customer, district, history, item, line, order, stock, warehouse};
use crate::app::control::Failure;

pub(super) static ROW: LockClass = LockClass::new("app.tpcc.row");

/// Locks for the rows of customers and stocks, which share them.
const SHARED: u64 = 4096;

/// Locks of rows.
pub(super) struct Locks {
    warehouses: Vec<Mutex<()>>,
    districts: Vec<Mutex<()>>,
    undelivered: Vec<Mutex<()>>,
    customers: Vec<Mutex<()>>,
    stocks: Vec<Mutex<()>>,
}

impl Locks {
    pub(super) fn new(warehouses: u64) -> Self {
        let some = |count: u64| (0..count).map(|_| Mutex::new(&ROW, ())).collect();
        Self {
            warehouses: some(warehouses),
            districts: some(warehouses * DISTRICTS),
            undelivered: some(warehouses * DISTRICTS),
            customers: some(SHARED),
            stocks: some(SHARED),
        }
    }

    fn of(locks: &[Mutex<()>], number: u64) -> MutexGuard<'_, ()> {
        locks[(number % locks.len() as u64) as usize].lock()
    }
}

/// A terminal's part of the work.
pub(super) struct Terminal {
    pub(super) engine: Arc<Engine<'static>>,
    pub(super) locks: Arc<Locks>,
    pub(super) inputs: Inputs,
    /// What computing takes for each row that is read or changed.
    pub(super) row: Nanos,
    /// The last number of the history, which terminals share.
    pub(super) history: Arc<std::sync::atomic::AtomicU64>,
    pub(super) changes: Changes,
}

/// A row that must be there.
fn found<T>(row: Option<T>, what: &str, key: u64) -> Done<T> {
    row.ok_or_else(|| Failure::new(format!("there is no {what} with the key {key:#x}"), None))
}

fn copy<const N: usize>(row: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&row[..N]);
    bytes
}

/// The first fields of a row of stock.
const STOCK_HEAD: usize = 10;

impl Terminal {
    fn computes(&self, rows: u64) {
        sim::compute_for(self.row * rows);
    }

    fn read<T>(&self, tree: usize, what: &str, key: u64, take: impl FnOnce(&[u8]) -> T) -> Done<T> {
        self.computes(1);
        found(self.engine.read(tree, key, take)?, what, key)
    }

    fn commit(&mut self) -> Done {
        self.computes(self.changes.count());
        let committed = self.engine.commit(&self.changes);
        self.changes.clear();
        committed
    }

    /// A New-Order; its number, or none where it was rolled back because of an item that does not exist.
    pub(super) fn new_order(&mut self) -> Done<Option<(u64, u64, u64)>> {
        let w = self.inputs.home.0;
        let (d, c, lines) = self.inputs.new_order();
        let locks = Arc::clone(&self.locks);
        self.read(schema::WAREHOUSE, "warehouse", w, |row| warehouse::TAX.get(row))?;
        let _district = Locks::of(&locks.districts, (w - 1) * DISTRICTS + d - 1);
        let key = schema::district_key(w, d);
        let o = self.read(schema::DISTRICT, "district", key, |row| district::NEXT_ORDER.get(row))?;
        let customer = schema::customer_key(w, d, c);
        self.read(schema::CUSTOMER, "customer", customer, |row| customer::DISCOUNT.get(row))?;
        let prices = self.prices(&lines)?;
        if prices.len() < lines.len() {
            return Ok(None);
        }
        let mut wanted: Vec<u64> =
            lines.iter().map(|line| schema::stock_key(line.supply, line.item) % SHARED).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let _stocks: Vec<_> = wanted.into_iter().map(|number| Locks::of(&locks.stocks, number)).collect();
        self.changes.update(schema::DISTRICT, key, district::NEXT_ORDER.at(), &(o as u32 + 1).to_le_bytes());
        self.add_order((w, d, o), c, &lines);
        self.add_lines((w, d, o), &lines, &prices)?;
        self.commit()?;
        Ok(Some((w, d, o)))
    }

    /// The prices of items, up to the first that does not exist.
    fn prices(&self, lines: &[Line]) -> Done<Vec<u64>> {
        let mut prices = Vec::with_capacity(lines.len());
        for line in lines {
            self.computes(1);
            match self.engine.read(schema::ITEM, line.item, |row| item::PRICE.get(row))? {
                Some(price) => prices.push(price),
                None => break,
            }
        }
        Ok(prices)
    }

    fn add_order(&mut self, (w, d, o): (u64, u64, u64), c: u64, lines: &[Line]) {
        let mut row = [0; order::ROW];
        order::CUSTOMER.set(&mut row, c);
        order::ENTRY.set(&mut row, sim::now().0);
        order::LINES.set(&mut row, lines.len() as u64);
        order::ALL_LOCAL.set(&mut row, u64::from(lines.iter().all(|line| line.supply == w)));
        self.changes.insert(schema::ORDER, schema::order_key(w, d, o), &row);
        self.changes.insert(schema::NEW_ORDER, schema::order_key(w, d, o), &[]);
        self.changes.insert(schema::ORDER_CUSTOMER, schema::order_customer_key(w, d, c, o), &[]);
    }

    fn add_lines(&mut self, (w, d, o): (u64, u64, u64), lines: &[Line], prices: &[u64]) -> Done {
        let mut stocks: Vec<(u64, [u8; STOCK_HEAD])> = Vec::with_capacity(lines.len());
        for (number, (line, price)) in (1..).zip(lines.iter().zip(prices)) {
            let key = schema::stock_key(line.supply, line.item);
            let mut row = [0; line::ROW];
            let mut head = self.read(schema::STOCK, "stock", key, |stock| {
                let text = &stock::DISTRICTS.text(stock)[(d - 1) as usize * 24..][..24];
                line::DISTRICT.set_text(&mut row, text);
                copy::<STOCK_HEAD>(stock)
            })?;
            if let Some((_, before)) = stocks.iter().rev().find(|(of, _)| *of == key) {
                head = *before;
            }
            let quantity = stock::QUANTITY.get(&head);
            let left = if quantity >= line.quantity + 10 { quantity } else { quantity + 91 } - line.quantity;
            stock::QUANTITY.set(&mut head, left);
            stock::YTD.add(&mut head, line.quantity);
            stock::ORDERS.add(&mut head, 1);
            stock::REMOTE.add(&mut head, u64::from(line.supply != w));
            self.changes.update(schema::STOCK, key, stock::QUANTITY.at(), &head);
            stocks.push((key, head));
            line::ITEM.set(&mut row, line.item);
            line::SUPPLY.set(&mut row, line.supply);
            line::QUANTITY.set(&mut row, line.quantity);
            line::AMOUNT.set(&mut row, line.quantity * price);
            self.changes.insert(schema::ORDER_LINE, schema::line_key(w, d, o, number), &row);
        }
        Ok(())
    }

    /// A customer of a district: in six of ten cases by last name, the middle one of those who have it.
    fn choose_customer(&mut self, w: u64, d: u64) -> Done<u64> {
        let name = match self.inputs.customer() {
            Chosen::Number(number) => return Ok(number),
            Chosen::Name(name) => name,
        };
        let range = schema::name_key(w, d, name, 0)..schema::name_key(w, d, name + 1, 0);
        let mut of_name = Vec::new();
        self.engine.scan(schema::CUSTOMER_NAME, range.clone(), |key, _| {
            of_name.push(key & 0xffff);
            true
        })?;
        let mut firsts = Vec::with_capacity(of_name.len());
        for c in of_name {
            let key = schema::customer_key(w, d, c);
            firsts.push((
                self.read(schema::CUSTOMER, "customer", key, |row| copy::<16>(customer::FIRST.text(row)))?,
                c,
            ));
        }
        firsts.sort_unstable();
        let middle = firsts.len().div_ceil(2).checked_sub(1).map(|at| firsts[at].1);
        found(middle, "customer of a name", range.start)
    }

    /// A Payment; the number of its row of the history.
    pub(super) fn payment(&mut self) -> Done<u64> {
        let (w, d) = (self.inputs.home.0, self.inputs.any_district());
        let of_w = self.inputs.warehouse(15);
        let of_d = if of_w == w { d } else { self.inputs.any_district() };
        let c = self.choose_customer(of_w, of_d)?;
        let amount = self.inputs.rng.random_range(100..=500_000);
        let locks = Arc::clone(&self.locks);
        let _warehouse = Locks::of(&locks.warehouses, w - 1);
        let (paid, mut name) = self.read(schema::WAREHOUSE, "warehouse", w, |row| {
            (warehouse::YTD.get(row), warehouse::NAME.text(row).to_vec())
        })?;
        self.changes.update(schema::WAREHOUSE, w, warehouse::YTD.at(), &(paid + amount).to_le_bytes());
        let _district = Locks::of(&locks.districts, (w - 1) * DISTRICTS + d - 1);
        let key = schema::district_key(w, d);
        name.extend_from_slice(b"    ");
        let paid = self.read(schema::DISTRICT, "district", key, |row| {
            name.extend_from_slice(district::NAME.text(row));
            district::YTD.get(row)
        })?;
        self.changes.update(schema::DISTRICT, key, district::YTD.at(), &(paid + amount).to_le_bytes());
        let key = schema::customer_key(of_w, of_d, c);
        let _customer = Locks::of(&locks.customers, key);
        self.pay(key, (w, d), amount)?;
        let number = self.history.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        let mut row = [0; history::ROW];
        history::CUSTOMER.set(&mut row, key);
        history::DISTRICT.set(&mut row, schema::district_key(w, d));
        history::DATE.set(&mut row, sim::now().0);
        history::AMOUNT.set(&mut row, amount);
        history::DATA.set_text(&mut row, &name);
        self.changes.insert(schema::HISTORY, number, &row);
        self.commit()?;
        Ok(number)
    }

    /// A customer has paid: the balance, and of one with bad credit a note before the others.
    fn pay(&mut self, key: u64, (w, d): (u64, u64), amount: u64) -> Done {
        let mut row = self.read(schema::CUSTOMER, "customer", key, copy::<{ customer::ROW }>)?;
        customer::BALANCE.add_signed(&mut row, -amount.cast_signed());
        customer::YTD_PAYMENT.add(&mut row, amount);
        customer::PAYMENTS.add(&mut row, 1);
        let head = &row[..customer::DELIVERIES.at()];
        self.changes.update(schema::CUSTOMER, key, 0, head);
        if customer::CREDIT.text(&row) == b"BC" {
            let note = format!("{key:x} {w} {d} {amount} ");
            let data = customer::DATA.text_mut(&mut row);
            data.copy_within(..500 - note.len(), note.len());
            data[..note.len()].copy_from_slice(note.as_bytes());
            self.changes.update(schema::CUSTOMER, key, customer::DATA.at(), data);
        }
        Ok(())
    }

    /// An Order-Status.
    pub(super) fn order_status(&mut self) -> Done {
        let (w, d) = (self.inputs.home.0, self.inputs.any_district());
        let c = self.choose_customer(w, d)?;
        let key = schema::customer_key(w, d, c);
        self.read(schema::CUSTOMER, "customer", key, |row| customer::BALANCE.signed(row))?;
        let range = schema::order_customer_key(w, d, c, (1 << 28) - 1)
            ..schema::order_customer_key(w, d, c + 1, (1 << 28) - 1);
        let mut last = None;
        self.engine.scan(schema::ORDER_CUSTOMER, range, |key, _| {
            last = Some(schema::order_of_customer(key));
            false
        })?;
        let o = found(last, "order of the customer", key)?;
        let key = schema::order_key(w, d, o);
        self.read(schema::ORDER, "order", key, |row| order::CARRIER.get(row))?;
        let mut lines = 0;
        self.engine.scan(
            schema::ORDER_LINE,
            schema::line_key(w, d, o, 0)..schema::line_key(w, d, o + 1, 0),
            |_, _| {
                lines += 1;
                true
            },
        )?;
        self.computes(lines);
        Ok(())
    }

    /// A Delivery: the oldest order of each district that is not delivered; how many there were.
    pub(super) fn delivery(&mut self) -> Done<u64> {
        let (w, carrier) = (self.inputs.home.0, self.inputs.rng.random_range(1..=10_u8));
        let mut delivered = 0;
        for d in 1..=DISTRICTS {
            delivered += u64::from(self.deliver(w, d, carrier)?);
        }
        Ok(delivered)
    }

    fn deliver(&mut self, w: u64, d: u64, carrier: u8) -> Done<bool> {
        let locks = Arc::clone(&self.locks);
        let _undelivered = Locks::of(&locks.undelivered, (w - 1) * DISTRICTS + d - 1);
        let (mut oldest, range) = (None, schema::order_key(w, d, 0)..schema::order_key(w, d + 1, 0));
        self.computes(1);
        self.engine.scan(schema::NEW_ORDER, range, |key, _| {
            oldest = Some(key);
            false
        })?;
        let Some(key) = oldest else { return Ok(false) };
        let o = schema::order_of(key);
        let c = self.read(schema::ORDER, "order", key, |row| order::CUSTOMER.get(row))?;
        self.changes.remove(schema::NEW_ORDER, key);
        self.changes.update(schema::ORDER, key, order::CARRIER.at(), &[carrier]);
        let (mut sum, now, changes) = (0, sim::now().0, &mut self.changes);
        let mut lines = 0;
        self.engine.scan(
            schema::ORDER_LINE,
            schema::line_key(w, d, o, 0)..schema::line_key(w, d, o + 1, 0),
            |key, row| {
                sum += line::AMOUNT.get(row);
                changes.update(schema::ORDER_LINE, key, line::DELIVERED.at(), &now.to_le_bytes());
                lines += 1;
                true
            },
        )?;
        self.computes(lines);
        let key = schema::customer_key(w, d, c);
        let _customer = Locks::of(&locks.customers, key);
        let mut row = self.read(schema::CUSTOMER, "customer", key, copy::<{ customer::ROW }>)?;
        customer::BALANCE.add_signed(&mut row, sum.cast_signed());
        customer::DELIVERIES.add(&mut row, 1);
        self.changes.update(schema::CUSTOMER, key, 0, &row[..customer::DISCOUNT.at()]);
        self.commit()?;
        Ok(true)
    }

    /// A Stock-Level.
    pub(super) fn stock_level(&mut self) -> Done<u64> {
        let (w, d) = self.inputs.home;
        let threshold = self.inputs.rng.random_range(10..=20);
        let key = schema::district_key(w, d);
        let next = self.read(schema::DISTRICT, "district", key, |row| district::NEXT_ORDER.get(row))?;
        let range = schema::line_key(w, d, next.saturating_sub(20), 0)..schema::line_key(w, d, next, 0);
        let mut items = Vec::new();
        self.engine.scan(schema::ORDER_LINE, range, |_, row| {
            items.push(line::ITEM.get(row));
            true
        })?;
        self.computes(items.len() as u64);
        items.sort_unstable();
        items.dedup();
        let mut low = 0;
        for i in items {
            let key = schema::stock_key(w, i);
            let quantity = self.read(schema::STOCK, "stock", key, |row| stock::QUANTITY.get(row))?;
            low += u64::from(quantity < threshold);
        }
        Ok(low)
    }
}
