//! Tables, keys and rows (TPC-C 5.11, clause 1.3). All fields have a fixed length: texts as long as they may be, money in cents.
//!
//! | tree | key | row |
//! |---|---|---|
//! | `WAREHOUSE` | w | 1.3.1 |
//! | `DISTRICT` | w, d | |
//! | `CUSTOMER` | w, d, c | |
//! | `CUSTOMER_NAME` | w, d, number of the last name, c | empty: an index |
//! | `HISTORY` | a running number | |
//! | `NEW_ORDER` | w, d, o | empty |
//! | `ORDER` | w, d, o | |
//! | `ORDER_CUSTOMER` | w, d, c, o downwards | empty: an index, the newest order first |
//! | `ORDER_LINE` | w, d, o, number | |
//! | `ITEM` | i | |
//! | `STOCK` | w, i | |

pub(super) const WAREHOUSE: usize = 0;
pub(super) const DISTRICT: usize = 1;
pub(super) const CUSTOMER: usize = 2;
pub(super) const CUSTOMER_NAME: usize = 3;
pub(super) const HISTORY: usize = 4;
pub(super) const NEW_ORDER: usize = 5;
pub(super) const ORDER: usize = 6;
pub(super) const ORDER_CUSTOMER: usize = 7;
pub(super) const ORDER_LINE: usize = 8;
pub(super) const ITEM: usize = 9;
pub(super) const STOCK: usize = 10;

/// Bytes of the rows of each tree.
pub(super) static ROWS: [usize; 11] = [
    warehouse::ROW,
    district::ROW,
    customer::ROW,
    0,
    history::ROW,
    0,
    order::ROW,
    0,
    line::ROW,
    item::ROW,
    stock::ROW,
];

/// Districts of a warehouse.
pub(super) const DISTRICTS: u64 = 10;
/// Warehouses at most: what keys have room for.
pub(super) const MOST_WAREHOUSES: u64 = (1 << 14) - 1;
const ORDER_BITS: u32 = 28;
const LAST_ORDER: u64 = (1 << ORDER_BITS) - 1;

/// How large a database is; tests make smaller ones than the standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    pub(super) warehouses: u64,
    pub(super) items: u64,
    /// Of a district, each with one order at first.
    pub(super) customers: u64,
    /// Of a district's orders, how many are not delivered at first.
    pub(super) undelivered: u64,
}

impl Scale {
    /// That of the standard (1.2.1, 4.3.3.1).
    pub(super) fn standard(warehouses: u64) -> Self {
        Self { warehouses, items: 100_000, customers: 3000, undelivered: 900 }
    }

    /// Bytes of rows and their keys, of all warehouses.
    pub(super) fn bytes(self) -> u64 {
        let row = |tree: usize| 8 + ROWS[tree] as u64;
        let of_customer = row(CUSTOMER) + row(CUSTOMER_NAME) + row(HISTORY);
        let of_order = row(ORDER) + row(ORDER_CUSTOMER) + 10 * row(ORDER_LINE) + row(NEW_ORDER);
        let each = self.items * row(STOCK) + DISTRICTS * self.customers * (of_customer + of_order);
        self.warehouses * each + self.items * row(ITEM)
    }
}

/// The key of a district.
pub(super) fn district_key(w: u64, d: u64) -> u64 {
    w << 8 | d
}

pub(super) fn customer_key(w: u64, d: u64, c: u64) -> u64 {
    district_key(w, d) << 16 | c
}

/// The keys of the customers with a last name.
pub(super) fn name_key(w: u64, d: u64, name: u64, c: u64) -> u64 {
    (district_key(w, d) << 10 | name) << 16 | c
}

pub(super) fn order_key(w: u64, d: u64, o: u64) -> u64 {
    district_key(w, d) << ORDER_BITS | o
}

/// The number of an order, of its key.
pub(super) fn order_of(key: u64) -> u64 {
    key & LAST_ORDER
}

pub(super) fn order_customer_key(w: u64, d: u64, c: u64, o: u64) -> u64 {
    (district_key(w, d) << 12 | c) << ORDER_BITS | (LAST_ORDER - o)
}

/// The number of an order, of its key by customer.
pub(super) fn order_of_customer(key: u64) -> u64 {
    LAST_ORDER - (key & LAST_ORDER)
}

pub(super) fn line_key(w: u64, d: u64, o: u64, number: u64) -> u64 {
    order_key(w, d, o) << 4 | number
}

pub(super) fn stock_key(w: u64, i: u64) -> u64 {
    w << 20 | i
}

/// A field of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    at: usize,
    len: usize,
}

impl Field {
    const fn first(len: usize) -> Self {
        Self { at: 0, len }
    }

    const fn then(self, len: usize) -> Self {
        Self { at: self.end(), len }
    }

    const fn end(self) -> usize {
        self.at + self.len
    }

    /// Where it begins.
    pub(super) fn at(self) -> usize {
        self.at
    }

    /// A number of at most 8 bytes.
    pub(super) fn get(self, row: &[u8]) -> u64 {
        let mut bytes = [0; 8];
        bytes[..self.len].copy_from_slice(&row[self.at..self.end()]);
        u64::from_le_bytes(bytes)
    }

    /// A number of 8 bytes with a sign.
    pub(super) fn signed(self, row: &[u8]) -> i64 {
        self.get(row).cast_signed()
    }

    pub(super) fn set(self, row: &mut [u8], value: u64) {
        row[self.at..self.end()].copy_from_slice(&value.to_le_bytes()[..self.len]);
    }

    pub(super) fn set_signed(self, row: &mut [u8], value: i64) {
        self.set(row, value.cast_unsigned());
    }

    /// Adds to a number; a small field begins again where it is full.
    pub(super) fn add(self, row: &mut [u8], more: u64) {
        let sum = self.get(row).wrapping_add(more);
        self.set(row, sum);
    }

    /// Adds to a number with a sign.
    pub(super) fn add_signed(self, row: &mut [u8], more: i64) {
        let sum = self.signed(row).wrapping_add(more);
        self.set_signed(row, sum);
    }

    pub(super) fn text(self, row: &[u8]) -> &[u8] {
        &row[self.at..self.end()]
    }

    pub(super) fn text_mut(self, row: &mut [u8]) -> &mut [u8] {
        &mut row[self.at..self.end()]
    }

    /// Sets a text, with spaces behind it.
    pub(super) fn set_text(self, row: &mut [u8], text: &[u8]) {
        let field = self.text_mut(row);
        field.fill(b' ');
        field[..text.len()].copy_from_slice(text);
    }
}

pub(super) mod warehouse {
    use super::Field;
    pub(in super::super) const YTD: Field = Field::first(8);
    pub(in super::super) const TAX: Field = YTD.then(2);
    pub(in super::super) const NAME: Field = TAX.then(10);
    /// Two streets and a city.
    pub(in super::super) const STREETS: Field = NAME.then(60);
    pub(in super::super) const STATE_ZIP: Field = STREETS.then(11);
    pub(in super::super) const ROW: usize = STATE_ZIP.end();
}

pub(super) mod district {
    use super::Field;
    pub(in super::super) const YTD: Field = Field::first(8);
    pub(in super::super) const NEXT_ORDER: Field = YTD.then(4);
    pub(in super::super) const TAX: Field = NEXT_ORDER.then(2);
    pub(in super::super) const NAME: Field = TAX.then(10);
    /// Two streets and a city.
    pub(in super::super) const STREETS: Field = NAME.then(60);
    pub(in super::super) const STATE_ZIP: Field = STREETS.then(11);
    pub(in super::super) const ROW: usize = STATE_ZIP.end();
}

pub(super) mod customer {
    use super::Field;
    pub(in super::super) const BALANCE: Field = Field::first(8);
    pub(in super::super) const YTD_PAYMENT: Field = BALANCE.then(8);
    pub(in super::super) const PAYMENTS: Field = YTD_PAYMENT.then(4);
    pub(in super::super) const DELIVERIES: Field = PAYMENTS.then(4);
    pub(in super::super) const DISCOUNT: Field = DELIVERIES.then(2);
    pub(in super::super) const CREDIT: Field = DISCOUNT.then(2);
    pub(in super::super) const CREDIT_LIMIT: Field = CREDIT.then(4);
    pub(in super::super) const SINCE: Field = CREDIT_LIMIT.then(8);
    pub(in super::super) const FIRST: Field = SINCE.then(16);
    pub(in super::super) const MIDDLE: Field = FIRST.then(2);
    pub(in super::super) const LAST: Field = MIDDLE.then(16);
    /// Two streets and a city.
    pub(in super::super) const STREETS: Field = LAST.then(60);
    pub(in super::super) const STATE_ZIP: Field = STREETS.then(11);
    pub(in super::super) const PHONE: Field = STATE_ZIP.then(16);
    pub(in super::super) const DATA: Field = PHONE.then(500);
    pub(in super::super) const ROW: usize = DATA.end();
}

pub(super) mod history {
    use super::Field;
    pub(in super::super) const CUSTOMER: Field = Field::first(8);
    pub(in super::super) const DISTRICT: Field = CUSTOMER.then(4);
    pub(in super::super) const DATE: Field = DISTRICT.then(8);
    pub(in super::super) const AMOUNT: Field = DATE.then(4);
    pub(in super::super) const DATA: Field = AMOUNT.then(24);
    pub(in super::super) const ROW: usize = DATA.end();
}

pub(super) mod order {
    use super::Field;
    pub(in super::super) const CUSTOMER: Field = Field::first(4);
    pub(in super::super) const ENTRY: Field = CUSTOMER.then(8);
    pub(in super::super) const CARRIER: Field = ENTRY.then(1);
    pub(in super::super) const LINES: Field = CARRIER.then(1);
    pub(in super::super) const ALL_LOCAL: Field = LINES.then(1);
    pub(in super::super) const ROW: usize = ALL_LOCAL.end();
}

pub(super) mod line {
    use super::Field;
    pub(in super::super) const ITEM: Field = Field::first(4);
    pub(in super::super) const SUPPLY: Field = ITEM.then(2);
    pub(in super::super) const DELIVERED: Field = SUPPLY.then(8);
    pub(in super::super) const QUANTITY: Field = DELIVERED.then(1);
    pub(in super::super) const AMOUNT: Field = QUANTITY.then(4);
    pub(in super::super) const DISTRICT: Field = AMOUNT.then(24);
    pub(in super::super) const ROW: usize = DISTRICT.end();
}

pub(super) mod item {
    use super::Field;
    pub(in super::super) const PRICE: Field = Field::first(4);
    pub(in super::super) const IMAGE: Field = PRICE.then(4);
    pub(in super::super) const NAME: Field = IMAGE.then(24);
    pub(in super::super) const DATA: Field = NAME.then(50);
    pub(in super::super) const ROW: usize = DATA.end();
}

pub(super) mod stock {
    use super::Field;
    pub(in super::super) const QUANTITY: Field = Field::first(2);
    pub(in super::super) const YTD: Field = QUANTITY.then(4);
    pub(in super::super) const ORDERS: Field = YTD.then(2);
    pub(in super::super) const REMOTE: Field = ORDERS.then(2);
    /// Ten texts of 24 signs, one for each district.
    pub(in super::super) const DISTRICTS: Field = REMOTE.then(240);
    pub(in super::super) const DATA: Field = DISTRICTS.then(50);
    pub(in super::super) const ROW: usize = DATA.end();
}
