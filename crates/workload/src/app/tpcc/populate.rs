//! The first contents of a database (TPC-C 5.11, clause 4.3.3.1).

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

/// Writes a database.
pub(super) fn populate(server: &Server, scale: Scale, seed: Seed, calls: Calls<'_>) -> Done {
    let constants = Constants::new(seed);
    let mut building = create(server, calls)?;
    let mut rng = seed.derive("app.tpcc.populate", 0).rng();
    items(&mut building, scale, &mut rng)?;
    warehouses(&mut building, scale, &mut rng)?;
    stocks(&mut building, scale, &mut rng)?;
    customers(&mut building, scale, &constants, &mut rng)?;
    orders(&mut building, scale, &mut rng)?;
    building.finish()
}

/// Every district, in the order of keys.
fn districts(scale: Scale) -> impl Iterator<Item = (u64, u64)> {
    (1..=scale.warehouses).flat_map(|w| (1..=DISTRICTS).map(move |d| (w, d)))
}

fn items(building: &mut Building<'_>, scale: Scale, rng: &mut Rng) -> Done {
    let (mut tree, mut row) = (building.tree(schema::ITEM), [0; item::ROW]);
    for i in 1..=scale.items {
        item::PRICE.set(&mut row, rng.random_range(100..=10_000));
        item::IMAGE.set(&mut row, rng.random_range(1..=10_000));
        text(rng, item::NAME.text_mut(&mut row), 14);
        data(rng, item::DATA.text_mut(&mut row), 26);
        tree.add(building, i, &row)?;
    }
    tree.finish(building)
}

fn address(rng: &mut Rng, streets: &mut [u8], state_zip: &mut [u8]) {
    streets.chunks_mut(20).for_each(|part| text(rng, part, 10));
    text(rng, &mut state_zip[..2], 2);
    digits(rng, &mut state_zip[2..6]);
    state_zip[6..].copy_from_slice(b"11111");
}

fn warehouses(building: &mut Building<'_>, scale: Scale, rng: &mut Rng) -> Done {
    let (mut tree, mut row) = (building.tree(schema::WAREHOUSE), [0; warehouse::ROW]);
    let paid = DISTRICTS * scale.customers * PAID;
    for w in 1..=scale.warehouses {
        warehouse::YTD.set(&mut row, paid);
        warehouse::TAX.set(&mut row, rng.random_range(0..=2000));
        text(rng, warehouse::NAME.text_mut(&mut row), 6);
        let mut state_zip = [0; 11];
        address(rng, warehouse::STREETS.text_mut(&mut row), &mut state_zip);
        warehouse::STATE_ZIP.set_text(&mut row, &state_zip);
        tree.add(building, w, &row)?;
    }
    tree.finish(building)?;
    let (mut tree, mut row) = (building.tree(schema::DISTRICT), [0; district::ROW]);
    for (w, d) in districts(scale) {
        district::YTD.set(&mut row, scale.customers * PAID);
        district::NEXT_ORDER.set(&mut row, scale.customers + 1);
        district::TAX.set(&mut row, rng.random_range(0..=2000));
        text(rng, district::NAME.text_mut(&mut row), 6);
        let mut state_zip = [0; 11];
        address(rng, district::STREETS.text_mut(&mut row), &mut state_zip);
        district::STATE_ZIP.set_text(&mut row, &state_zip);
        tree.add(building, schema::district_key(w, d), &row)?;
    }
    tree.finish(building)
}

fn stocks(building: &mut Building<'_>, scale: Scale, rng: &mut Rng) -> Done {
    let (mut tree, mut row) = (building.tree(schema::STOCK), [0; stock::ROW]);
    for (w, i) in (1..=scale.warehouses).flat_map(|w| (1..=scale.items).map(move |i| (w, i))) {
        stock::QUANTITY.set(&mut row, rng.random_range(10..=100));
        stock::DISTRICTS.text_mut(&mut row).chunks_mut(24).for_each(|part| text(rng, part, 24));
        data(rng, stock::DATA.text_mut(&mut row), 26);
        tree.add(building, schema::stock_key(w, i), &row)?;
    }
    tree.finish(building)
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

fn customers(building: &mut Building<'_>, scale: Scale, constants: &Constants, rng: &mut Rng) -> Done {
    let mut tree = building.tree(schema::CUSTOMER);
    let mut names = building.tree(schema::CUSTOMER_NAME);
    let mut payments = building.tree(schema::HISTORY);
    let (mut number, mut paid) = (0, [0; history::ROW]);
    for (w, d) in districts(scale) {
        let mut keys = Vec::new();
        for c in 1..=scale.customers {
            let name = if c <= 1000 { c - 1 } else { constants.load_name(rng) };
            tree.add(building, schema::customer_key(w, d, c), &customer_row(c, name, rng))?;
            keys.push(schema::name_key(w, d, name, c));
            history::CUSTOMER.set(&mut paid, schema::customer_key(w, d, c));
            history::DISTRICT.set(&mut paid, schema::district_key(w, d));
            history::DATE.set(&mut paid, NEW_YEAR);
            history::AMOUNT.set(&mut paid, PAID);
            text(rng, history::DATA.text_mut(&mut paid), 12);
            number += 1;
            payments.add(building, number, &paid)?;
        }
        keys.sort_unstable();
        keys.into_iter().try_for_each(|key| names.add(building, key, &[]))?;
    }
    [tree, names, payments].into_iter().try_for_each(|tree| tree.finish(building))
}

fn orders(building: &mut Building<'_>, scale: Scale, rng: &mut Rng) -> Done {
    let mut trees = [schema::ORDER, schema::ORDER_CUSTOMER, schema::ORDER_LINE, schema::NEW_ORDER]
        .map(|tree| building.tree(tree));
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
            trees[0].add(building, schema::order_key(w, d, o), &row)?;
            keys.push(schema::order_customer_key(w, d, *c, o));
            order_lines(building, &mut trees[2], (w, d, o), lines, is_delivered, (scale, rng))?;
            if !is_delivered {
                trees[3].add(building, schema::order_key(w, d, o), &[])?;
            }
        }
        keys.sort_unstable();
        keys.into_iter().try_for_each(|key| trees[1].add(building, key, &[]))?;
    }
    trees.into_iter().try_for_each(|tree| tree.finish(building))
}

fn order_lines(
    building: &mut Building<'_>,
    tree: &mut Builder,
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
        tree.add(building, schema::line_key(w, d, o, number), &row)?;
    }
    Ok(())
}
