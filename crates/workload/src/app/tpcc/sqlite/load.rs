//! The first rows, as the tables of SQL have them.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use sim::Seed;

use super::failed;
use crate::app::tpcc::engine::Done;
use crate::app::tpcc::populate::{self, Rows};
use crate::app::tpcc::schema::{
    self, Field, Scale, customer, district, history, item, line, order, stock, warehouse,
};

/// Fills the tables.
pub(super) fn fill(connection: &Connection, scale: Scale, seed: Seed) -> Done {
    populate::fill(&mut Tables(connection), scale, seed)
}

struct Tables<'a>(&'a Connection);

impl Rows for Tables<'_> {
    fn add(&mut self, tree: usize, key: u64, row: &[u8]) -> Done {
        let Some((table, columns)) = columns(tree, key, row) else { return Ok(()) };
        let places = vec!["?"; columns.len()].join(", ");
        let insert = format!("insert into {table} values ({places})");
        let mut insert = self.0.prepare_cached(&insert).map_err(failed)?;
        insert.execute(params_from_iter(columns)).map_err(failed)?;
        Ok(())
    }

    fn finish(&mut self, _tree: usize) -> Done {
        Ok(())
    }
}

fn number(of: u64) -> Value {
    Value::Integer(of.cast_signed())
}

/// A row's numbers and texts by field.
struct Row<'a>(&'a [u8]);

impl Row<'_> {
    fn number(&self, field: Field) -> Value {
        number(field.get(self.0))
    }

    fn text(&self, field: Field) -> Value {
        Value::Text(String::from_utf8_lossy(field.text(self.0)).trim_end().to_owned())
    }
}

/// A warehouse and a district, of the key of a district.
fn place(key: u64) -> [Value; 2] {
    [number(key >> 8), number(key & 0xff)]
}

/// The table of a tree, and the columns of a row; none of an index, which SQLite keeps by itself.
fn columns(tree: usize, key: u64, row: &[u8]) -> Option<(&'static str, Vec<Value>)> {
    let row = Row(row);
    Some(match tree {
        schema::ITEM => {
            let texts = [row.text(item::NAME), row.number(item::PRICE), row.text(item::DATA)];
            ("item", [number(key), row.number(item::IMAGE)].into_iter().chain(texts).collect())
        }
        schema::WAREHOUSE => {
            let texts = [warehouse::NAME, warehouse::STREETS, warehouse::STATE_ZIP].map(|of| row.text(of));
            let numbers = [warehouse::TAX, warehouse::YTD].map(|of| row.number(of));
            ("warehouse", [number(key)].into_iter().chain(texts).chain(numbers).collect())
        }
        schema::DISTRICT => {
            let texts = [district::NAME, district::STREETS, district::STATE_ZIP].map(|of| row.text(of));
            let numbers = [district::TAX, district::YTD, district::NEXT_ORDER].map(|of| row.number(of));
            ("district", place(key).into_iter().chain(texts).chain(numbers).collect())
        }
        schema::STOCK => {
            let numbers =
                [stock::QUANTITY, stock::YTD, stock::ORDERS, stock::REMOTE].map(|of| row.number(of));
            let texts = [stock::DISTRICTS, stock::DATA].map(|of| row.text(of));
            let keys = [number(key >> 20), number(key & 0xf_ffff)];
            ("stock", keys.into_iter().chain(numbers).chain(texts).collect())
        }
        schema::CUSTOMER => ("customer", customer_columns(key, &row)),
        schema::HISTORY => {
            let customer = history::CUSTOMER.get(row.0);
            let [w, d] = place(customer >> 16);
            let of = place(history::DISTRICT.get(row.0));
            let rest = [row.number(history::DATE), row.number(history::AMOUNT), row.text(history::DATA)];
            ("history", [w, d, number(customer & 0xffff)].into_iter().chain(of).chain(rest).collect())
        }
        schema::NEW_ORDER => {
            ("new_order", place(key >> 28).into_iter().chain([number(schema::order_of(key))]).collect())
        }
        schema::ORDER => {
            let carrier = match order::CARRIER.get(row.0) {
                0 => Value::Null,
                carrier => number(carrier),
            };
            let first =
                [number(schema::order_of(key)), row.number(order::CUSTOMER), row.number(order::ENTRY)];
            let rest = [carrier, row.number(order::LINES), row.number(order::ALL_LOCAL)];
            ("orders", place(key >> 28).into_iter().chain(first).chain(rest).collect())
        }
        schema::ORDER_LINE => ("order_line", line_columns(key, &row)),
        _ => return None,
    })
}

fn customer_columns(key: u64, row: &Row<'_>) -> Vec<Value> {
    let names = [customer::FIRST, customer::MIDDLE, customer::LAST, customer::STREETS, customer::STATE_ZIP];
    let mut columns: Vec<Value> = place(key >> 16).into_iter().chain([number(key & 0xffff)]).collect();
    columns.extend(names.map(|of| row.text(of)));
    columns.extend([row.text(customer::PHONE), row.number(customer::SINCE), row.text(customer::CREDIT)]);
    columns.extend([customer::CREDIT_LIMIT, customer::DISCOUNT].map(|of| row.number(of)));
    columns.push(Value::Integer(customer::BALANCE.signed(row.0)));
    let counts = [customer::YTD_PAYMENT, customer::PAYMENTS, customer::DELIVERIES];
    columns.extend(counts.map(|of| row.number(of)));
    columns.push(row.text(customer::DATA));
    columns
}

fn line_columns(key: u64, row: &Row<'_>) -> Vec<Value> {
    let order = key >> 4;
    let delivered = match line::DELIVERED.get(row.0) {
        0 => Value::Null,
        date => number(date),
    };
    let mut columns: Vec<Value> = place(order >> 28).into_iter().collect();
    columns.extend([number(schema::order_of(order)), number(key & 0xf)]);
    columns.extend([row.number(line::ITEM), row.number(line::SUPPLY), delivered]);
    columns.extend([row.number(line::QUANTITY), row.number(line::AMOUNT), row.text(line::DISTRICT)]);
    columns
}
