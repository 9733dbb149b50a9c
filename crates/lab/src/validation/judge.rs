//! From measured rows to errors and orders. Every function here is arithmetic on rows.

use std::collections::BTreeMap;

use results::statistics::{geometric_mean, median};
use results::validation::{Better, Compared, Inversion, LeftOut, Ranks, Row, Summary};

/// Published values of two designs that differ by less say nothing about their order.
const APART: f64 = 1.25;
/// Measured values that differ by less are equal.
const TIED: f64 = 1.02;
/// An error that is small.
const SMALL: f64 = 0.20;

/// The parts of the model of which is said how far they may be believed, by what the ids of their rows begin with.
const PARTS: [(&str, &[&str]); 11] = [
    ("idle latencies of Optane", &["opt.lat"]),
    ("bandwidth of Optane by threads", &["opt.thr."]),
    ("bandwidth of Optane by size", &["opt.size."]),
    ("random accesses to Optane", &["opt.rand."]),
    ("reads and writes of Optane mixed", &["opt.mix."]),
    ("memory under load, CXL", &["mess.", "dmsim.", "gnr.", "cxl."]),
    (
        "data path of one thread",
        &["wofs.write.", "wofs.randwrite.", "wofs.read.", "wofs.randread.", "sqfs.append_", "sqfs.read_"],
    ),
    ("data path of several threads, FxMark", &["wofs.mt.", "wofs.fx."]),
    ("calls that change names", &["sqfs.creat", "sqfs.mkdir", "sqfs.unlink", "sqfs.rename"]),
    ("Filebench", &["wofs.fb.", "sqfs.fb."]),
    ("an SSD under ext4", &["fast24."]),
];

/// The errors of each part, and once more without the rows by which a constant was chosen. Rows with a band count here.
fn parts(rows: &[Row]) -> Vec<Summary> {
    let mut parts = Vec::new();
    for (name, begins) in PARTS {
        let of_part = rows.iter().filter(|row| begins.iter().any(|begin| row.id.starts_with(begin)));
        let counted: Vec<Row> = of_part
            .map(|row| match row.compared {
                Compared::Band => Row { compared: Compared::Yes, ..row.clone() },
                _ => row.clone(),
            })
            .collect();
        let unfitted: Vec<&Row> = counted.iter().filter(|row| !row.is_fitted()).collect();
        parts.push(summary("part", name, &counted.iter().collect::<Vec<_>>()));
        parts.push(summary("part, nothing chosen", name, &unfitted));
    }
    parts
}

/// The errors of the rows that count: of all, and by class, source and design; and those of rows with a band.
pub fn summaries(rows: &[Row]) -> Vec<Summary> {
    let all: Vec<&Row> = rows.iter().collect();
    let mut summaries = vec![summary("all", "all", &all)];
    type Key = fn(&Row) -> String;
    let keys: [(&str, Key); 3] = [
        ("class", |row| row.class.clone()),
        ("source", |row| family(&row.id).to_owned()),
        ("design", |row| row.design.clone().unwrap_or_else(|| "a medium".to_owned())),
    ];
    for (by, key) in keys {
        let mut parts: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
        for row in rows {
            parts.entry(key(row)).or_default().push(row);
        }
        summaries.extend(parts.iter().map(|(name, rows)| summary(by, name, rows)));
    }
    summaries.extend(bands(rows));
    summaries.extend(parts(rows));
    summaries
}

/// The errors of the rows that have a band, by class: their hardware is not known, so they are in no other summary.
fn bands(rows: &[Row]) -> Vec<Summary> {
    let mut classes: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.compared == Compared::Band) {
        let counted = Row { compared: Compared::Yes, ..row.clone() };
        classes.entry(row.class.clone()).or_default().push(counted);
    }
    let one = |(name, rows): (&String, &Vec<Row>)| summary("band", name, &rows.iter().collect::<Vec<_>>());
    classes.iter().map(one).collect()
}

/// The source of a row as one word: what its id begins with.
pub fn family(id: &str) -> &str {
    id.split('.').next().unwrap_or(id)
}

/// The errors of some rows.
pub fn summary(by: &str, name: &str, rows: &[&Row]) -> Summary {
    let counted: Vec<&&Row> = rows.iter().filter(|row| row.counts()).collect();
    let of =
        |value: fn(&Row) -> Option<f64>| counted.iter().filter_map(|row| value(row)).collect::<Vec<f64>>();
    let (errors, factors) = (of(|row| row.error), of(|row| row.factor));
    let small = errors.iter().filter(|error| **error <= SMALL).count();
    Summary {
        by: by.to_owned(),
        name: name.to_owned(),
        rows: rows.len() as u64,
        compared: counted.len() as u64,
        bias: geometric_mean(&of(|row| row.speed)),
        median_error: median(&errors),
        median_factor: median(&factors),
        p90_factor: percentile(&factors, 0.9),
        within_20: (!errors.is_empty()).then(|| small as f64 / errors.len() as f64),
    }
}

/// The least value that `part` of all values do not exceed; none of none.
pub fn percentile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (part * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied()
}

/// How many rows were left out for each kind of reason, with the first reason of the kind.
pub fn left_out(rows: &[Row]) -> Vec<LeftOut> {
    let mut kinds: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
    for reason in rows.iter().filter_map(|row| row.left_out.as_ref()) {
        kinds.entry(&reason.kind).or_insert((0, &reason.why)).0 += 1;
    }
    let one =
        |(kind, (rows, why)): (&str, (u64, &str))| LeftOut { rows: Some(rows), ..LeftOut::new(kind, why) };
    kinds.into_iter().map(one).collect()
}

/// The order of designs, of all classes together and of each.
pub fn ranks(rows: &[Row]) -> Vec<Ranks> {
    let pairs = pairs(rows);
    let mut classes: BTreeMap<&str, Ranks> = BTreeMap::new();
    let mut all = Ranks { class: "all".to_owned(), ..Ranks::default() };
    for pair in &pairs {
        let class = &*pair.better.class;
        let of_class =
            classes.entry(class).or_insert_with(|| Ranks { class: class.to_owned(), ..Ranks::default() });
        for ranks in [&mut all, of_class] {
            pair.add_to(ranks);
        }
    }
    let mut ranks: Vec<Ranks> = [all].into_iter().chain(classes.into_values()).collect();
    for one in &mut ranks {
        let pairs = one.concordant + one.inverted + one.tied;
        one.tau = (pairs > 0).then(|| (one.concordant as f64 - one.inverted as f64) / pairs as f64);
    }
    ranks
}

/// Two designs that did the same, whose published values are apart.
pub struct Pair<'r> {
    /// The one that is better as published.
    pub better: &'r Row,
    /// The other.
    pub worse: &'r Row,
    /// The published speed of the better by that of the worse.
    pub published: f64,
    /// The same as measured.
    pub measured: f64,
}

impl Pair<'_> {
    fn add_to(&self, ranks: &mut Ranks) {
        if self.measured.max(1.0 / self.measured) <= TIED {
            ranks.tied += 1;
        } else if self.measured > 1.0 {
            ranks.concordant += 1;
        } else {
            ranks.inverted += 1;
            ranks.inversions.push(Inversion {
                better: self.better.id.clone(),
                worse: self.worse.id.clone(),
                published: self.published,
                measured: self.measured,
                matching: [self.better, self.worse].iter().all(|row| row.compared == Compared::Yes),
            });
        }
    }
}

/// Every pair of designs within a group, both measured and of values that may be compared at least by their order.
pub(crate) fn all_pairs(rows: &[Row]) -> Vec<Pair<'_>> {
    let comparable = |row: &&Row| {
        let order = matches!(row.compared, Compared::Yes | Compared::Band | Compared::Sign);
        order && row.measured.is_some() && row.design.is_some() && !row.live && row.better != Better::Bound
    };
    let mut groups: BTreeMap<(&str, &str), Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().filter(comparable) {
        groups.entry((&row.group, &row.unit)).or_default().push(row);
    }
    let mut pairs = Vec::new();
    for group in groups.values() {
        for (at, one) in group.iter().enumerate() {
            let others = group[at + 1..].iter().filter(|other| other.design != one.design);
            pairs.extend(others.map(|other| pair(one, other)));
        }
    }
    pairs
}

/// Those whose published values are apart.
fn pairs(rows: &[Row]) -> Vec<Pair<'_>> {
    all_pairs(rows).into_iter().filter(|pair| pair.published > APART).collect()
}

fn pair<'r>(one: &'r Row, other: &'r Row) -> Pair<'r> {
    let speed = |row: &Row, value: f64| if row.better == Better::High { value } else { 1.0 / value };
    let published = speed(one, one.published) / speed(other, other.published);
    let of = |row: &Row| speed(row, row.measured.unwrap_or(f64::NAN));
    let measured = of(one) / of(other);
    if published >= 1.0 {
        Pair { better: one, worse: other, published, measured }
    } else {
        Pair { better: other, worse: one, published: 1.0 / published, measured: 1.0 / measured }
    }
}
