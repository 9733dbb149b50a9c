//! How throughput grows with the number of workers, and what holds it back.
//!
//! **The Universal Scalability Law** (N. J. Gunther, *Guerrilla Capacity Planning*, 2007, chapter 4):
//!
//! ```text
//! X(n) = λ n / (1 + σ (n - 1) + κ n (n - 1))
//! ```
//!
//! λ is the rate of one worker, σ the part of the work that is done by one at a time, κ what keeping each pair of
//! workers consistent costs. With κ above 0 the rate is highest at √((1 - σ) / κ) workers and falls beyond.
//!
//! The fit minimises the squares of the relative errors of n / X(n), which is linear in 1/λ, σ/λ and κ/λ. A
//! coefficient that would be negative is left out.
//!
//! **The limit** of a run is what an operation spends more time on than it did with the fewest workers: the part
//! of the ledger, or the named lock or cache line, that has grown the most. The waits for a lock are those for its release and
//! for the cache line of its word.

use crate::{OperationRecord, Sample};
use std::collections::BTreeMap;

/// The coefficients of a fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usl {
    /// Operations a second of one worker.
    pub lambda: f64,
    /// Contention: the serial part.
    pub sigma: f64,
    /// Coherency: the cost of each pair.
    pub kappa: f64,
    /// The root of the mean square of the relative errors of the throughput.
    pub error: f64,
}

impl Usl {
    /// Fits points of workers and operations a second; none with fewer than three different numbers of workers,
    /// or rates that are not positive.
    pub fn fit(points: &[(f64, f64)]) -> Option<Self> {
        let mut counts: Vec<f64> = points.iter().map(|point| point.0).collect();
        counts.sort_by(f64::total_cmp);
        counts.dedup();
        if counts.len() < 3 || points.iter().any(|(n, x)| *n < 1.0 || !x.is_finite() || *x <= 0.0) {
            return None;
        }
        // The largest model whose coefficients make sense.
        let models: [&[usize]; 4] = [&[0, 1, 2], &[0, 1], &[0, 2], &[0]];
        let fits = models.iter().filter_map(|terms| Self::with(points, terms));
        fits.min_by(|a, b| a.error.total_cmp(&b.error))
    }

    /// The fit with these terms of the denominator; none when a coefficient is negative.
    fn with(points: &[(f64, f64)], terms: &[usize]) -> Option<Self> {
        let size = terms.len();
        let mut equations = vec![vec![0.0; size + 1]; size];
        for (n, x) in points {
            let basis = [1.0, n - 1.0, n * (n - 1.0)];
            // Each term relative to n / x, whose own value is then 1.
            let row: Vec<f64> = terms.iter().map(|term| basis[*term] * x / n).collect();
            for i in 0..size {
                for j in 0..size {
                    equations[i][j] += row[i] * row[j];
                }
                equations[i][size] += row[i];
            }
        }
        let solved = solve(equations)?;
        let mut coefficients = [0.0; 3];
        terms.iter().zip(solved).for_each(|(term, value)| coefficients[*term] = value);
        let [first, sigma, kappa] = coefficients;
        if first <= 0.0 || sigma < 0.0 || kappa < 0.0 {
            return None;
        }
        let mut fit = Self { lambda: 1.0 / first, sigma: sigma / first, kappa: kappa / first, error: 0.0 };
        let square = |(n, x): &(f64, f64)| (fit.at(*n) / x - 1.0).powi(2);
        fit.error = (points.iter().map(square).sum::<f64>() / points.len() as f64).sqrt();
        Some(fit)
    }

    /// Operations a second of `n` workers.
    pub fn at(&self, n: f64) -> f64 {
        self.lambda * n / (1.0 + self.sigma * (n - 1.0) + self.kappa * n * (n - 1.0))
    }

    /// The number of workers with the highest rate; none when more are always better.
    pub fn peak(&self) -> Option<f64> {
        (self.kappa > 0.0).then(|| ((1.0 - self.sigma).max(0.0) / self.kappa).sqrt().max(1.0))
    }
}

/// Gaussian elimination with the largest pivot; none when the equations do not decide.
fn solve(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let size = rows.len();
    for column in 0..size {
        let pivot =
            (column..size).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        if rows[column][column].abs() < 1e-30 {
            return None;
        }
        let lead = rows[column].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(at, _)| *at != column) {
            let factor = row[column] / lead[column];
            row.iter_mut().zip(&lead).for_each(|(value, lead)| *value -= factor * lead);
        }
    }
    Some((0..size).map(|at| rows[at][size] / rows[at][at]).collect())
}

/// The kinds of limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// A lock, or a cache line that is no lock's: what has a name.
    Contended,
    /// A part of the ledger, without what has a name.
    Part,
    /// A part of the ledger of a record in which cache lines have no names: waits for them are in it.
    PartWithLines,
}

/// What holds a run back.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// A lock or a cache line by its name, or a part of the ledger.
    pub name: String,
    /// What it is.
    pub kind: LimitKind,
    /// Its part of the time of an operation of the run that is held back.
    pub share: f64,
    /// How much longer an operation takes for it than with few workers, in nanoseconds.
    pub grown_ns: f64,
}

impl Limit {
    /// What an operation of `many` spends more time on than one of `few`. None where no ledger was kept, or where an operation
    /// takes hardly longer: by less than a twentieth.
    pub fn of(few: &Sample, many: &Sample) -> Option<Self> {
        let (before, after) = (Parts::of(few)?, Parts::of(many)?);
        if after.total < before.total * 1.05 {
            return None;
        }
        let grown = |name: &(String, bool), ns: f64| ns - before.ns.get(name).copied().unwrap_or(0.0);
        let most = after.ns.iter().max_by(|a, b| grown(a.0, *a.1).total_cmp(&grown(b.0, *b.1)))?;
        let (name, has_name) = most.0.clone();
        let kind = match has_name {
            true => LimitKind::Contended,
            false if names_lines(few) || names_lines(many) => LimitKind::Part,
            false => LimitKind::PartWithLines,
        };
        Some(Self { share: most.1 / after.total, grown_ns: grown(most.0, *most.1), name, kind })
    }
}

/// What the operations of these samples waited for, locks and cache lines by their names, in nanoseconds: the most first.
pub fn waits<'a>(samples: impl Iterator<Item = &'a Sample>) -> Vec<(String, u64)> {
    let mut waits: BTreeMap<&str, u64> = BTreeMap::new();
    for operation in samples.flat_map(|sample| &sample.operations) {
        let named = operation.lock_wait_ns.iter().chain(&operation.line_wait_ns);
        let counts = !operation.is_background();
        named.filter(|_| counts).for_each(|(name, ns)| *waits.entry(name).or_default() += ns);
    }
    let mut waits: Vec<(String, u64)> = waits.into_iter().map(|(name, ns)| (name.to_owned(), ns)).collect();
    waits.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    waits
}

/// Time of one operation of the workload by its parts, waits by name of the lock or line (then true).
struct Parts {
    ns: BTreeMap<(String, bool), f64>,
    total: f64,
}

/// The part of the ledger that the names of locks take apart in older records.
const LOCK_WAIT: &str = "lock_wait";

impl Parts {
    fn of(sample: &Sample) -> Option<Self> {
        let (mut ns, mut total) = (BTreeMap::new(), 0.0);
        let ops = sample.ops.max(1) as f64;
        for operation in sample.operations.iter().filter(|op| !op.is_background()) {
            for (name, waited) in operation.lock_wait_ns.iter().chain(&operation.line_wait_ns) {
                *ns.entry((name.clone(), true)).or_insert(0.0) += *waited as f64 / ops;
            }
            for (part, spent) in &operation.time_ns {
                let unnamed = spent.saturating_sub(named(operation, part));
                *ns.entry((part.clone(), false)).or_insert(0.0) += unnamed as f64 / ops;
            }
            total += operation.parts_ns() as f64 / ops;
        }
        (total > 0.0).then_some(Self { ns, total })
    }
}

/// How much of a part of the ledger has the name of a lock or a line.
fn named(operation: &OperationRecord, part: &str) -> u64 {
    match operation.named_ns.get(part) {
        None if operation.named_ns.is_empty() && part == LOCK_WAIT => operation.lock_wait_ns.values().sum(),
        named => named.copied().unwrap_or(0),
    }
}

/// Whether the sample was recorded with the names of cache lines.
fn names_lines(sample: &Sample) -> bool {
    sample.operations.iter().any(|operation| !operation.named_ns.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: [f64; 8] = [1.0, 2.0, 4.0, 10.0, 20.0, 40.0, 60.0, 80.0];

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-6 * b.abs().max(1e-6)
    }

    #[test]
    fn a_curve_of_the_law_gives_its_coefficients_back() {
        for (sigma, kappa) in [(0.0, 0.0), (0.05, 0.0), (0.02, 0.001), (0.0, 0.0004), (0.9, 0.01)] {
            let law = Usl { lambda: 1e6, sigma, kappa, error: 0.0 };
            let points: Vec<_> = COUNTS.iter().map(|n| (*n, law.at(*n))).collect();
            let fit = Usl::fit(&points).unwrap();
            assert!(close(fit.lambda, 1e6) && (fit.sigma - sigma).abs() < 1e-6, "{fit:?}");
            assert!((fit.kappa - kappa).abs() < 1e-6 && fit.error < 1e-6, "{fit:?}");
        }
    }

    #[test]
    fn no_coefficient_is_negative_and_a_superlinear_curve_is_fitted_by_a_straight_line() {
        let points: Vec<_> = COUNTS.iter().map(|n| (*n, sim::math::powf(*n, 1.1))).collect();
        let fit = Usl::fit(&points).unwrap();
        assert!(fit.sigma == 0.0 && fit.kappa == 0.0 && fit.peak().is_none(), "{fit:?}");
    }

    #[test]
    fn the_peak_is_where_the_rate_is_highest() {
        let law = Usl { lambda: 1.0, sigma: 0.1, kappa: 0.001, error: 0.0 };
        let peak = law.peak().unwrap();
        assert!(close(peak, 30.0) && law.at(peak) > law.at(29.0) && law.at(peak) > law.at(31.0));
    }

    #[test]
    fn too_few_or_impossible_points_have_no_fit() {
        assert_eq!(Usl::fit(&[(1.0, 1.0), (2.0, 2.0), (2.0, 2.1)]), None);
        assert_eq!(Usl::fit(&[(1.0, 1.0), (2.0, 0.0), (3.0, 2.1)]), None);
    }

    fn sample(software: u64, locks: &[(&str, u64)]) -> Sample {
        let mut operation = OperationRecord::new("write");
        operation.count = 10;
        operation.lock_wait_ns = locks.iter().map(|(name, ns)| ((*name).to_owned(), *ns)).collect();
        let waited: u64 = locks.iter().map(|lock| lock.1).sum();
        operation.time_ns =
            BTreeMap::from([("software".to_owned(), software), (LOCK_WAIT.to_owned(), waited)]);
        Sample { ops: 10, operations: vec![operation], ..Sample::default() }
    }

    #[test]
    fn waits_are_by_name_the_most_first_without_operations_in_the_background() {
        let mut one = sample(0, &[("a", 5), ("b", 7)]);
        one.operations[0].line_wait_ns.insert("a".to_owned(), 3);
        let mut behind = OperationRecord::new(crate::record::BACKGROUND[0]);
        behind.lock_wait_ns.insert("c".to_owned(), 100);
        one.operations.push(behind);
        assert_eq!(
            waits([&one, &sample(0, &[("b", 1)])].into_iter()),
            [("a".to_owned(), 8), ("b".to_owned(), 8)]
        );
        assert_eq!(waits([&one].into_iter())[0], ("a".to_owned(), 8));
    }

    #[test]
    fn the_limit_is_what_an_operation_spends_more_time_on() {
        let few = sample(1000, &[("journal", 10)]);
        let many = sample(1100, &[("journal", 900), ("inode", 2000)]);
        let limit = Limit::of(&few, &many).unwrap();
        assert!(
            limit.name == "inode" && limit.kind == LimitKind::Contended && close(limit.share, 0.5),
            "{limit:?}"
        );
        assert_eq!(Limit::of(&few, &sample(1020, &[("journal", 12)])), None, "nothing holds it back");
        let slower = Limit::of(&few, &sample(3000, &[("journal", 10)])).unwrap();
        assert!(slower.name == "software" && slower.kind == LimitKind::PartWithLines);
    }

    #[test]
    fn a_line_is_the_limit_with_its_time_taken_from_the_part_that_it_is_booked_on() {
        let mut many = sample(3000, &[("inode", 500)]);
        let write = &mut many.operations[0];
        write.line_wait_ns = BTreeMap::from([("references".to_owned(), 1500), ("inode".to_owned(), 300)]);
        write.named_ns = BTreeMap::from([("software".to_owned(), 1800), (LOCK_WAIT.to_owned(), 500)]);
        let limit = Limit::of(&sample(1000, &[]), &many).unwrap();
        assert!(limit.name == "references" && limit.kind == LimitKind::Contended, "{limit:?}");
        assert!(close(limit.share, 1500.0 / 3500.0) && close(limit.grown_ns, 150.0), "{limit:?}");
        // The word of a lock belongs to the lock, and what has a name is in no part any more.
        many.operations[0].line_wait_ns.remove("references");
        many.operations[0].named_ns.insert("software".to_owned(), 300);
        let parts = Parts::of(&many).unwrap();
        let ns = |name: &str, has_name| parts.ns[&(name.to_owned(), has_name)];
        assert!(close(ns("inode", true), 80.0) && close(ns("software", false), 270.0));
        assert!(close(parts.ns.values().sum::<f64>(), parts.total));
    }
}
