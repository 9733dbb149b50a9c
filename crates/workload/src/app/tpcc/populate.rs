//! The first contents of a database (TPC-C 5.11, clause 4.3.3.1).

use std::collections::BTreeMap;

use rand::RngExt as _;
use sim::{Rng, Seed};

use super::engine::{Builder, Building, Calls, Done, Server, create};
use super::random::{Constants, data, digits, last_name, permutation, text};
use super::schema::{
    self, DISTRICTS, Scale, customer, district, history, item, line, order, stock, warehouse,
};

/// Cents of a warehouse's and a district's payments at first, by customer: 10.00 each.
const PAID: u64 = 1000;
/// The date of all that is there at first; later ones are nanoseconds of the run.
const NEW_YEAR: u64 = 1_704_067_200_000_000_000;

/// Where rows go: those of each tree come in the order of their keys.
pub(super) trait Rows {
    /// Takes the next row of a tree.
    fn add(&mut self, tree: usize, key: u64, row: &[u8]) -> Done;

    /// A tree has all of its rows.
    fn finish(&mut self, tree: usize) -> Done;
}

/// The trees of a database of the engine's.
struct Trees<'a> {
    building: Building<'a>,
    open: BTreeMap<usize, Builder>,
}

impl Rows for Trees<'_> {
    fn add(&mut self, tree: usize, key: u64, row: &[u8]) -> Done {
        let builder = self.open.entry(tree).or_insert_with(|| self.building.tree(tree));
        builder.add(&mut self.building, key, row)
    }

    fn finish(&mut self, tree: usize) -> Done {
        let builder = self.open.remove(&tree).unwrap_or_else(|| self.building.tree(tree));
        builder.finish(&mut self.building)
    }
}

/// Writes a database of the engine's.
pub(super) fn populate(server: &Server, scale: Scale, seed: Seed, calls: Calls<'_>) -> Done {
    let mut trees = Trees { building: create(server, calls)?, open: BTreeMap::new() };
    fill(&mut trees, scale, seed)?;
    trees.building.finish()
}

/// All rows.
pub(super) fn fill(rows: &mut dyn Rows, scale: Scale, seed: Seed) -> Done {
    let constants = Constants::new(seed);
    let mut rng = seed.derive("app.tpcc.populate", 0).rng();
    items(rows, scale, &mut rng)?;
    warehouses(rows, scale, &mut rng)?;
    stocks(rows, scale, &mut rng)?;
    customers(rows, scale, &constants, &mut rng)?;
    orders(rows, scale, &mut rng)
}

/// Every district, in the order of keys.
fn districts(scale: Scale) -> impl Iterator<Item = (u64, u64)> {
    (1..=scale.warehouses).flat_map(|w| (1..=DISTRICTS).map(move |d| (w, d)))
}

fn items(rows: &mut dyn Rows, scale: Scale, rng: &mut Rng) -> Done {
    let mut row = [0; item::ROW];
    for i in 1..=scale.items {
        item::PRICE.set(&mut row, rng.random_range(100..=10_000));
        item::IMAGE.set(&mut row, rng.random_range(1..=10_000));
        text(rng, item::NAME.text_mut(&mut row), 14);
        data(rng, item::DATA.text_mut(&mut row), 26);
        rows.add(schema::ITEM, i, &row)?;
    }
    rows.finish(schema::ITEM)
}

fn address(rng: &mut Rng, streets: &mut [u8], state_zip: &mut [u8]) {
    streets.chunks_mut(20).for_each(|part| text(rng, part, 10));
    text(rng, &mut state_zip[..2], 2);
    digits(rng, &mut state_zip[2..6]);
    state_zip[6..].copy_from_slice(b"11111");
}

fn warehouses(rows: &mut dyn Rows, scale: Scale, rng: &mut Rng) -> Done {
    let mut row = [0; warehouse::ROW];
    let paid = DISTRICTS * scale.customers * PAID;
    for w in 1..=scale.warehouses {
        warehouse::YTD.set(&mut row, paid);
        warehouse::TAX.set(&mut row, rng.random_range(0..=2000));
        text(rng, warehouse::NAME.text_mut(&mut row), 6);
        let mut state_zip = [0; 11];
        address(rng, warehouse::STREETS.text_mut(&mut row), &mut state_zip);
        warehouse::STATE_ZIP.set_text(&mut row, &state_zip);
        rows.add(schema::WAREHOUSE, w, &row)?;
    }
    rows.finish(schema::WAREHOUSE)?;
    let mut row = [0; district::ROW];
    for (w, d) in districts(scale) {
        district::YTD.set(&mut row, scale.customers * PAID);
        district::NEXT_ORDER.set(&mut row, scale.customers + 1);
        district::TAX.set(&mut row, rng.random_range(0..=2000));
        text(rng, district::NAME.text_mut(&mut row), 6);
        let mut state_zip = [0; 11];
        address(rng, district::STREETS.text_mut(&mut row), &mut state_zip);
        district::STATE_ZIP.set_text(&mut row, &state_zip);
        rows.add(schema::DISTRICT, schema::district_key(w, d), &row)?;
    }
    rows.finish(schema::DISTRICT)
}

fn stocks(rows: &mut dyn Rows, scale: Scale, rng: &mut Rng) -> Done {
    let mut row = [0; stock::ROW];
    for (w, i) in (1..=scale.warehouses).flat_map(|w| (1..=scale.items).map(move |i| (w, i))) {
        stock::QUANTITY.set(&mut row, rng.random_range(10..=100));
        stock::DISTRICTS.text_mut(&mut row).chunks_mut(24).for_each(|part| text(rng, part, 24));
        data(rng, stock::DATA.text_mut(&mut row), 26);
        rows.add(schema::STOCK, schema::stock_key(w, i), &row)?;
    }
    rows.finish(schema::STOCK)
}

fn customer_row(c: u64, name: u64, rng: &mut Rng) -> [u8; customer::ROW] {
    let mut row = [0; customer::ROW];
    customer::BALANCE.set_signed(&mut row, -1000);
    customer::YTD_PAYMENT.set(&mut row, PAID);
    customer::PAYMENTS.set(&mut row, 1);
    customer::DISCOUNT.set(&mut row, rng.random_range(0..=5000));
    let is_bad = c % 10 == rng.random_range(0..10);
    customer::CREDIT.set_text(&mut row, if is_bad { b"BC" } else { b"GC" });
    customer::CREDIT_LIMIT.set(&mut row, 5_000_000);
    customer::SINCE.set(&mut row, NEW_YEAR);
    text(rng, customer::FIRST.text_mut(&mut row), 8);
    customer::MIDDLE.set_text(&mut row, b"OE");
    customer::LAST.set_text(&mut row, last_name(name).as_bytes());
    let mut state_zip = [0; 11];
    address(rng, customer::STREETS.text_mut(&mut row), &mut state_zip);
    customer::STATE_ZIP.set_text(&mut row, &state_zip);
    digits(rng, customer::PHONE.text_mut(&mut row));
    text(rng, customer::DATA.text_mut(&mut row), 300);
    row
}

fn customers(rows: &mut dyn Rows, scale: Scale, constants: &Constants, rng: &mut Rng) -> Done {
    let (mut number, mut paid) = (0, [0; history::ROW]);
    for (w, d) in districts(scale) {
        let mut keys = Vec::new();
        for c in 1..=scale.customers {
            let name = if c <= 1000 { c - 1 } else { constants.load_name(rng) };
            rows.add(schema::CUSTOMER, schema::customer_key(w, d, c), &customer_row(c, name, rng))?;
            keys.push(schema::name_key(w, d, name, c));
            history::CUSTOMER.set(&mut paid, schema::customer_key(w, d, c));
            history::DISTRICT.set(&mut paid, schema::district_key(w, d));
            history::DATE.set(&mut paid, NEW_YEAR);
            history::AMOUNT.set(&mut paid, PAID);
            text(rng, history::DATA.text_mut(&mut paid), 12);
            number += 1;
            rows.add(schema::HISTORY, number, &paid)?;
        }
        keys.sort_unstable();
        keys.into_iter().try_for_each(|key| rows.add(schema::CUSTOMER_NAME, key, &[]))?;
    }
    [schema::CUSTOMER, schema::CUSTOMER_NAME, schema::HISTORY]
        .into_iter()
        .try_for_each(|tree| rows.finish(tree))
}

fn orders(rows: &mut dyn Rows, scale: Scale, rng: &mut Rng) -> Done {
    for (w, d) in districts(scale) {
        let of = permutation(rng, scale.customers);
        let mut keys = Vec::new();
        for (o, c) in (1..).zip(&of) {
            let is_delivered = o <= scale.customers - scale.undelivered;
            let lines = rng.random_range(5..=15);
            let mut row = [0; order::ROW];
            order::CUSTOMER.set(&mut row, *c);
            order::ENTRY.set(&mut row, NEW_YEAR);
            order::CARRIER.set(&mut row, if is_delivered { rng.random_range(1..=10) } else { 0 });
            order::LINES.set(&mut row, lines);
            order::ALL_LOCAL.set(&mut row, 1);
            rows.add(schema::ORDER, schema::order_key(w, d, o), &row)?;
            keys.push(schema::order_customer_key(w, d, *c, o));
            order_lines(rows, (w, d, o), lines, is_delivered, (scale, rng))?;
            if !is_delivered {
                rows.add(schema::NEW_ORDER, schema::order_key(w, d, o), &[])?;
            }
        }
        keys.sort_unstable();
        keys.into_iter().try_for_each(|key| rows.add(schema::ORDER_CUSTOMER, key, &[]))?;
    }
    [schema::ORDER, schema::ORDER_CUSTOMER, schema::ORDER_LINE, schema::NEW_ORDER]
        .into_iter()
        .try_for_each(|tree| rows.finish(tree))
}

fn order_lines(
    rows: &mut dyn Rows,
    (w, d, o): (u64, u64, u64),
    lines: u64,
    is_delivered: bool,
    (scale, rng): (Scale, &mut Rng),
) -> Done {
    let mut row = [0; line::ROW];
    for number in 1..=lines {
        line::ITEM.set(&mut row, rng.random_range(1..=scale.items));
        line::SUPPLY.set(&mut row, w);
        line::DELIVERED.set(&mut row, if is_delivered { NEW_YEAR } else { 0 });
        line::QUANTITY.set(&mut row, 5);
        line::AMOUNT.set(&mut row, if is_delivered { 0 } else { rng.random_range(1..=999_999) });
        text(rng, line::DISTRICT.text_mut(&mut row), 24);
        rows.add(schema::ORDER_LINE, schema::line_key(w, d, o, number), &row)?;
    }
    Ok(())
}
