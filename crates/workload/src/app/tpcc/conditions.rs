//! The consistency conditions 1 to 4 of the standard (TPC-C 5.11, clauses 3.3.2.1 to 3.3.2.4), over all rows.

use super::engine::{Done, Engine};
use super::schema::{self, DISTRICTS, district, order, warehouse};
use crate::app::control::Failure;

const ALL: std::ops::Range<u64> = 0..u64::MAX;

/// What the tables say of a district.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    ytd: u64,
    next: u64,
    last_order: u64,
    lines_of_orders: u64,
    lines: u64,
    /// The first and the last order that is not delivered, and how many there are.
    undelivered: (u64, u64, u64),
}

/// Checks all four; the failure names the condition and the row.
pub(super) fn check(engine: &Engine<'_>, warehouses: u64) -> Done {
    let mut sums = vec![Sums::default(); ((warehouses + 1) * 256) as usize];
    engine.scan(schema::DISTRICT, ALL, |key, row| {
        let of = &mut sums[key as usize];
        (of.ytd, of.next) = (district::YTD.get(row), district::NEXT_ORDER.get(row));
        true
    })?;
    engine.scan(schema::ORDER, ALL, |key, row| {
        let of = &mut sums[(key >> 28) as usize];
        of.last_order = of.last_order.max(schema::order_of(key));
        of.lines_of_orders += order::LINES.get(row);
        true
    })?;
    engine.scan(schema::NEW_ORDER, ALL, |key, _| {
        let (of, o) = (&mut sums[(key >> 28) as usize].undelivered, schema::order_of(key));
        *of = (if of.2 == 0 { o } else { of.0.min(o) }, of.1.max(o), of.2 + 1);
        true
    })?;
    engine.scan(schema::ORDER_LINE, ALL, |key, _| {
        sums[(key >> 32) as usize].lines += 1;
        true
    })?;
    let mut paid = vec![0; warehouses as usize + 1];
    engine.scan(schema::WAREHOUSE, ALL, |key, row| {
        paid[key as usize] = warehouse::YTD.get(row);
        true
    })?;
    for w in 1..=warehouses {
        let of = |d: u64| &sums[schema::district_key(w, d) as usize];
        let sum: u64 = (1..=DISTRICTS).map(|d| of(d).ytd).sum();
        if paid[w as usize] != sum {
            return Err(broken(
                1,
                &format!("warehouse {w} was paid {}, its districts {sum}", paid[w as usize]),
            ));
        }
        (1..=DISTRICTS).try_for_each(|d| check_district((w, d), of(d)))?;
    }
    Ok(())
}

fn broken(condition: u32, told: &str) -> Failure {
    Failure::new(format!("consistency condition {condition} does not hold: {told}"), None)
}

fn check_district((w, d): (u64, u64), of: &Sums) -> Done {
    let place = format!("district {d} of warehouse {w}");
    let (first, last, count) = of.undelivered;
    if of.last_order + 1 != of.next || (count > 0 && last != of.last_order) {
        let told = format!("{place} gives the number {} next, the last order is {}", of.next, of.last_order);
        return Err(broken(2, &format!("{told}, the last that is not delivered {last}")));
    }
    if count > 0 && last - first + 1 != count {
        let told = format!("{place} has {count} orders that are not delivered between {first} and {last}");
        return Err(broken(3, &told));
    }
    if of.lines != of.lines_of_orders {
        let told = format!("orders of {place} have {} lines, and there are {}", of.lines_of_orders, of.lines);
        return Err(broken(4, &told));
    }
    Ok(())
}
