//! The five transactions in SQL (TPC-C 5.11, clauses 2.4 to 2.8). A Delivery is a transaction for each district (2.7.4.2).

use std::sync::Arc;

use rand::RngExt as _;
use rusqlite::{Connection, OptionalExtension as _, Params, Row, named_params, params};
use sim::{Nanos, Rng};

use super::{Database, computes, failed};
use crate::app::control::{Failure, Tally};
use crate::app::tpcc::Works;
use crate::app::tpcc::engine::Done;
use crate::app::tpcc::inputs::{Chosen, Inputs, Line};
use crate::app::tpcc::random::last_name;
use crate::app::tpcc::schema::DISTRICTS;

/// A terminal's part of the work.
pub(in crate::app::tpcc) struct Terminal {
    pub(in crate::app::tpcc) database: Arc<Database>,
    pub(in crate::app::tpcc) inputs: Inputs,
    /// What computing takes for each row that is read or changed.
    pub(in crate::app::tpcc) row: Nanos,
}

/// An open transaction, with the rows that it has read or changed.
struct Transaction<'a> {
    connection: &'a Connection,
    rows: u64,
}

impl Transaction<'_> {
    /// Changes rows; how many.
    fn change(&mut self, statement: &str, params: impl Params) -> Done<usize> {
        let mut statement = self.connection.prepare_cached(statement).map_err(failed)?;
        let changed = statement.execute(params).map_err(failed)?;
        self.rows += changed as u64;
        Ok(changed)
    }

    /// The one row that a statement returns, if it does.
    fn find<T>(
        &mut self,
        statement: &str,
        params: impl Params,
        take: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Done<Option<T>> {
        let mut statement = self.connection.prepare_cached(statement).map_err(failed)?;
        self.rows += 1;
        statement.query_row(params, take).optional().map_err(failed)
    }

    /// A number that must be there.
    fn number(&mut self, statement: &str, params: impl Params) -> Done<i64> {
        let found = self.find(statement, params, |row| row.get(0))?;
        found.ok_or_else(|| Failure::new(format!("SQLite: no row for: {statement}"), None))
    }

    /// The numbers of all rows that a statement returns.
    fn numbers(&mut self, statement: &str, params: impl Params) -> Done<Vec<i64>> {
        let mut statement = self.connection.prepare_cached(statement).map_err(failed)?;
        let rows = statement.query_map(params, |row| row.get(0)).map_err(failed)?;
        let numbers = rows.collect::<rusqlite::Result<Vec<_>>>().map_err(failed)?;
        self.rows += numbers.len() as u64;
        Ok(numbers)
    }
}

/// Numbers of SQL.
fn of<const N: usize>(numbers: [u64; N]) -> [i64; N] {
    numbers.map(u64::cast_signed)
}

impl Terminal {
    /// Makes a transaction in its turn; it is rolled back where `body` says none.
    fn transact<T>(&mut self, body: impl FnOnce(&mut Transaction<'_>) -> Done<Option<T>>) -> Done<Option<T>> {
        let connection = self.database.connection.lock();
        let Some(connection) = connection.as_ref() else {
            return Err(Failure::new("SQLite: the database was closed", None));
        };
        connection.execute_batch("begin immediate").map_err(failed)?;
        let mut transaction = Transaction { connection, rows: 0 };
        let done = body(&mut transaction);
        computes(self.row, transaction.rows);
        let end = if matches!(done, Ok(Some(_))) { "commit" } else { "rollback" };
        let ended = connection.execute_batch(end).map_err(failed);
        done.and_then(|done| ended.map(|()| done))
    }

    /// Delivers the oldest order of a district that is not delivered; whether there was one.
    fn deliver(&mut self, w: u64, d: u64, carrier: u64) -> Done<bool> {
        let [w, d, carrier, now] = of([w, d, carrier, sim::now().0]);
        let delivered = self.transact(|of| {
            let oldest = "select min(no_o_id) from new_order where no_w_id = ? and no_d_id = ?";
            let Some(o) = of.find(oldest, [w, d], |row| row.get::<_, Option<i64>>(0))?.flatten() else {
                return Ok(None);
            };
            of.change("delete from new_order where no_w_id = ? and no_d_id = ? and no_o_id = ?", [w, d, o])?;
            let c = of.number(
                "update orders set o_carrier_id = ? where o_w_id = ? and o_d_id = ? and o_id = ? returning o_c_id",
                [carrier, w, d, o],
            )?;
            of.change(
                "update order_line set ol_delivery_d = ? where ol_w_id = ? and ol_d_id = ? and ol_o_id = ?",
                [now, w, d, o],
            )?;
            let sum = of.number(
                "select sum(ol_amount) from order_line where ol_w_id = ? and ol_d_id = ? and ol_o_id = ?",
                [w, d, o],
            )?;
            of.change(
                "update customer set c_balance = c_balance + ?, c_delivery_cnt = c_delivery_cnt + 1 \
                 where c_w_id = ? and c_d_id = ? and c_id = ?",
                [sum, w, d, c],
            )?;
            Ok(Some(()))
        })?;
        Ok(delivered.is_some())
    }
}

/// The number of a customer: of those with a name that of the one in the middle, by first names.
fn number_of(chosen: &Chosen, of: &mut Transaction<'_>, w: i64, d: i64) -> Done<i64> {
    let name = match chosen {
        Chosen::Number(number) => return Ok(number.cast_signed()),
        Chosen::Name(name) => last_name(*name),
    };
    let all = of.numbers(
        "select c_id from customer where c_w_id = ? and c_d_id = ? and c_last = ? order by c_first",
        params![w, d, name],
    )?;
    let middle = all.len().div_ceil(2).checked_sub(1).map(|at| all[at]);
    middle.ok_or_else(|| Failure::new(format!("SQLite: no customer is called {name}"), None))
}

/// Adds a line; false where there is no such item.
fn add_line(of: &mut Transaction<'_>, (w, d, o): (i64, i64, i64), number: i64, line: &Line) -> Done<bool> {
    let [item, supply, quantity] = self::of([line.item, line.supply, line.quantity]);
    let Some(price) =
        of.find("select i_price from item where i_id = ?", [item], |row| row.get::<_, i64>(0))?
    else {
        return Ok(false);
    };
    let text = of.find(
        "update stock set s_quantity = case when s_quantity >= :q + 10 then s_quantity - :q else s_quantity - :q + 91 end, \
           s_ytd = s_ytd + :q, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + :remote \
         where s_w_id = :w and s_i_id = :i returning substr(s_dists, :d * 24 - 23, 24)",
        named_params! {":q": quantity, ":remote": i64::from(supply != w), ":w": supply, ":i": item, ":d": d},
        |row| row.get::<_, String>(0),
    )?;
    of.change(
        "insert into order_line values (?, ?, ?, ?, ?, ?, null, ?, ?, ?)",
        params![w, d, o, number, item, supply, quantity, quantity * price, text],
    )?;
    Ok(true)
}

impl Works for Terminal {
    fn rng(&mut self) -> &mut Rng {
        &mut self.inputs.rng
    }

    fn new_order(&mut self) -> Done<bool> {
        let w = self.inputs.home.0;
        let (d, c, lines) = self.inputs.new_order();
        let count = lines.len();
        let all_local = i64::from(lines.iter().all(|line| line.supply == w));
        let [w, d, c, now, count] = of([w, d, c, sim::now().0, count as u64]);
        let ordered = self.transact(|of| {
            of.number("select w_tax from warehouse where w_id = ?", [w])?;
            let o = of.number(
                "update district set d_next_o_id = d_next_o_id + 1 where d_w_id = ? and d_id = ? returning d_next_o_id - 1",
                [w, d],
            )?;
            of.number("select c_discount from customer where c_w_id = ? and c_d_id = ? and c_id = ?", [w, d, c])?;
            let order = [w, d, o, c, now, count, all_local];
            of.change("insert into orders values (?, ?, ?, ?, ?, null, ?, ?)", order)?;
            of.change("insert into new_order values (?, ?, ?)", [w, d, o])?;
            for (number, line) in (1..).zip(&lines) {
                if !add_line(of, (w, d, o), number, line)? {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })?;
        Ok(ordered.is_some())
    }

    fn payment(&mut self) -> Done {
        let (w, d) = (self.inputs.home.0, self.inputs.any_district());
        let amount = self.inputs.rng.random_range(100..=500_000);
        let of_w = self.inputs.warehouse(15);
        let of_d = if of_w == w { d } else { self.inputs.any_district() };
        let chosen = self.inputs.customer();
        let [w, d, of_w, of_d, amount, now] = of([w, d, of_w, of_d, amount, sim::now().0]);
        self.transact(|of| {
            let names = "update warehouse set w_ytd = w_ytd + ? where w_id = ? returning w_name";
            let name = of.find(names, [amount, w], |row| row.get::<_, String>(0))?.unwrap_or_default();
            let names = "update district set d_ytd = d_ytd + ? where d_w_id = ? and d_id = ? returning d_name";
            let of_district = of.find(names, [amount, w, d], |row| row.get::<_, String>(0))?;
            let c = number_of(&chosen, of, of_w, of_d)?;
            of.change(
                "update customer set c_balance = c_balance - :a, c_ytd_payment = c_ytd_payment + :a, \
                   c_payment_cnt = c_payment_cnt + 1, c_data = case when c_credit = 'BC' then \
                     substr(:c || ' ' || :w || ' ' || :d || ' ' || :a || ' ' || c_data, 1, 500) else c_data end \
                 where c_w_id = :of_w and c_d_id = :of_d and c_id = :c",
                named_params! {":a": amount, ":c": c, ":w": w, ":d": d, ":of_w": of_w, ":of_d": of_d},
            )?;
            let told = format!("{name}    {}", of_district.unwrap_or_default());
            of.change(
                "insert into history values (?, ?, ?, ?, ?, ?, ?, ?)",
                params![of_w, of_d, c, w, d, now, amount, told],
            )?;
            Ok(Some(()))
        })?;
        Ok(())
    }

    fn order_status(&mut self) -> Done {
        let [w, d] = of([self.inputs.home.0, self.inputs.any_district()]);
        let chosen = self.inputs.customer();
        self.transact(|of| {
            let c = number_of(&chosen, of, w, d)?;
            of.number("select c_balance from customer where c_w_id = ? and c_d_id = ? and c_id = ?", [w, d, c])?;
            let o = of.number(
                "select o_id from orders where o_w_id = ? and o_d_id = ? and o_c_id = ? order by o_id desc limit 1",
                [w, d, c],
            )?;
            of.numbers(
                "select ol_amount from order_line where ol_w_id = ? and ol_d_id = ? and ol_o_id = ?",
                [w, d, o],
            )?;
            Ok(Some(()))
        })?;
        Ok(())
    }

    fn delivery(&mut self) -> Done {
        let (w, carrier) = (self.inputs.home.0, self.inputs.rng.random_range(1..=10));
        (1..=DISTRICTS).try_for_each(|d| self.deliver(w, d, carrier).map(|_| ()))
    }

    fn stock_level(&mut self) -> Done {
        let threshold = self.inputs.rng.random_range(10..=20_i64);
        let [w, d] = of([self.inputs.home.0, self.inputs.home.1]);
        self.transact(|of| {
            let next = of.number("select d_next_o_id from district where d_w_id = ? and d_id = ?", [w, d])?;
            let items = of.numbers(
                "select distinct ol_i_id from order_line \
                 where ol_w_id = ? and ol_d_id = ? and ol_o_id >= ? and ol_o_id < ?",
                [w, d, next - 20, next],
            )?;
            for item in items {
                of.number(
                    "select count(*) from stock where s_w_id = ? and s_i_id = ? and s_quantity < ?",
                    [w, item, threshold],
                )?;
            }
            Ok(Some(()))
        })?;
        Ok(())
    }

    fn begin_counting(&self) {
        self.database.begin_counting();
    }

    fn leave(&self, tally: &mut Tally) {
        self.database.leave(tally);
    }
}
