//! Curves over the number of threads, and the class of each.
//!
//! With s(n) the throughput of n threads by that of the fewest, P the largest s, N the largest number of threads, e = s(N), and
//! linear what s(N) is when each thread does as much as one of the fewest:
//!
//! | class | letter | rule |
//! |---|---|---|
//! | scales | L | e is at least 60 % of linear |
//! | collapses | C | it does not scale, and e is below 70 % of P |
//! | saturates | S | P is at least 2, and e at least 70 % of P |
//! | never scales | F | P is below 2, and e at least 70 % of P |
//!
//! The *peak* is the smallest number of threads with 95 % of P. That a curve peaks and falls a little does not make it a collapse:
//! the peak says where. Fewer than three numbers of threads have no class.

use std::collections::BTreeMap;

use crate::statistics::median;
use crate::{ResultFile, Sample};

/// The axis of the curves.
const THREADS: &str = "threads";
/// Numbers of threads that a class needs.
const LEAST_POINTS: usize = 3;
/// The part of linear from which a curve scales.
const SCALES: f64 = 0.6;
/// The part of the largest speed-up below which the end of a curve has collapsed.
const KEEPS: f64 = 0.7;
/// The speed-up from which a curve has scaled at all.
const GROWS: f64 = 2.0;
/// The part of the largest speed-up that counts as having it.
const PEAK: f64 = 0.95;

/// How a curve goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// It comes near linear.
    Scales,
    /// It grows, and then stays.
    Saturates,
    /// It falls.
    Collapses,
    /// It never grows to twice its beginning, and does not fall.
    NeverScales,
}

impl Shape {
    /// All of them, from the one that scales best.
    pub const ALL: [Self; 4] = [Self::Scales, Self::Saturates, Self::Collapses, Self::NeverScales];

    /// The letter in tables: L(inear), S, C, F(lat).
    pub fn letter(self) -> char {
        match self {
            Self::Scales => 'L',
            Self::Saturates => 'S',
            Self::Collapses => 'C',
            Self::NeverScales => 'F',
        }
    }

    /// The words in tables.
    pub fn words(self) -> &'static str {
        match self {
            Self::Scales => "scales",
            Self::Saturates => "saturates",
            Self::Collapses => "collapses",
            Self::NeverScales => "never scales",
        }
    }
}

/// What a curve comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Classified {
    /// Its class.
    pub shape: Shape,
    /// The smallest number of threads with 95 % of the largest throughput.
    pub peak: f64,
    /// The largest speed-up.
    pub best: f64,
    /// The speed-up at the largest number of threads.
    pub end: f64,
}

/// Classifies a curve of threads and operations a second, in any order; none with fewer than three numbers of threads, or where a
/// number is not positive and finite.
pub fn classify(points: &[(f64, f64)]) -> Option<Classified> {
    let is_usable = |value: f64| value.is_finite() && value > 0.0;
    if points.iter().any(|(n, x)| !is_usable(*n) || !is_usable(*x)) {
        return None;
    }
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points.dedup_by(|a, b| a.0.total_cmp(&b.0).is_eq());
    let (&(fewest, first), &(most, last)) = (points.first()?, points.last()?);
    if points.len() < LEAST_POINTS {
        return None;
    }
    let best = points.iter().map(|point| point.1 / first).fold(0.0, f64::max);
    let peak = points.iter().find(|point| point.1 / first >= PEAK * best)?.0;
    let end = last / first;
    let shape = if end >= SCALES * most / fewest {
        Shape::Scales
    } else if end < KEEPS * best {
        Shape::Collapses
    } else if best >= GROWS {
        Shape::Saturates
    } else {
        Shape::NeverScales
    };
    Some(Classified { shape, peak, best, end })
}

/// Cells of a result that differ in the number of threads only.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The other axes.
    pub axes: BTreeMap<String, String>,
    /// Threads and the median throughput of the repeats, the fewest first.
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    /// Its class, if it has one.
    pub fn classified(&self) -> Option<Classified> {
        classify(&self.points)
    }
}

/// The axes of a curve, and the throughputs of the repeats by threads.
type Repeats = (BTreeMap<String, String>, Vec<(f64, Vec<f64>)>);

/// The curves of a result, in the order of their first samples. Samples that failed or were cut short are left out.
pub fn curves(result: &ResultFile) -> Vec<Curve> {
    let mut grouped: Vec<Repeats> = Vec::new();
    let measured = |sample: &&Sample| sample.failure.is_none() && !sample.partial;
    for sample in result.samples.iter().filter(measured) {
        let mut axes = sample.axes.clone();
        let Some(threads) = axes.remove(THREADS).and_then(|threads| threads.parse::<f64>().ok()) else {
            continue;
        };
        let place = grouped.iter().position(|(other, _)| *other == axes).unwrap_or_else(|| {
            grouped.push((axes, Vec::new()));
            grouped.len() - 1
        });
        let points = &mut grouped[place].1;
        match points.iter_mut().find(|(n, _)| n.total_cmp(&threads).is_eq()) {
            Some((_, rates)) => rates.push(sample.throughput_ops_per_s),
            None => points.push((threads, vec![sample.throughput_ops_per_s])),
        }
    }
    let curve = |(axes, points): Repeats| {
        let mut points: Vec<_> =
            points.into_iter().filter_map(|(n, rates)| Some((n, median(&rates)?))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Curve { axes, points }
    };
    grouped.into_iter().map(curve).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock;

    fn shape(points: &[(f64, f64)]) -> Shape {
        classify(points).unwrap().shape
    }

    #[test]
    fn a_curve_scales_from_three_fifths_of_linear() {
        assert_eq!(shape(&[(1.0, 1.0), (10.0, 9.0), (80.0, 48.0)]), Shape::Scales);
        assert_eq!(shape(&[(1.0, 1.0), (10.0, 9.0), (80.0, 47.99)]), Shape::Saturates);
        // With two threads as the fewest, linear at 80 is 40 times.
        assert_eq!(shape(&[(2.0, 1.0), (10.0, 4.0), (80.0, 24.0)]), Shape::Scales);
        assert_eq!(shape(&[(2.0, 1.0), (10.0, 4.0), (80.0, 23.9)]), Shape::Saturates);
    }

    #[test]
    fn an_end_below_seven_tenths_of_the_best_is_a_collapse() {
        assert_eq!(shape(&[(1.0, 1.0), (10.0, 10.0), (80.0, 7.0)]), Shape::Saturates);
        assert_eq!(shape(&[(1.0, 1.0), (10.0, 10.0), (80.0, 6.99)]), Shape::Collapses);
        assert_eq!(shape(&[(1.0, 1.0), (10.0, 1.0), (80.0, 0.7)]), Shape::NeverScales);
        assert_eq!(shape(&[(1.0, 1.0), (10.0, 1.0), (80.0, 0.69)]), Shape::Collapses);
        // A curve that scales cannot collapse: 60 of 100 is above three fifths of linear.
        assert_eq!(shape(&[(1.0, 1.0), (40.0, 100.0), (80.0, 60.0)]), Shape::Scales);
    }

    #[test]
    fn twice_the_beginning_parts_saturating_from_never_scaling() {
        assert_eq!(shape(&[(1.0, 1.0), (10.0, 2.0), (80.0, 2.0)]), Shape::Saturates);
        assert_eq!(shape(&[(1.0, 1.0), (10.0, 1.99), (80.0, 1.99)]), Shape::NeverScales);
        assert_eq!(shape(&[(1.0, 1.0), (10.0, 2.0), (80.0, 1.4)]), Shape::Saturates);
    }

    #[test]
    fn the_peak_is_the_smallest_count_with_nineteen_twentieths_of_the_best() {
        let of = |points: &[(f64, f64)]| classify(points).unwrap();
        let flat = of(&[(1.0, 1.0), (10.0, 9.5), (40.0, 10.0), (80.0, 9.9)]);
        assert_eq!((flat.peak, flat.best, flat.end), (10.0, 10.0, 9.9));
        let later = of(&[(1.0, 1.0), (10.0, 9.49), (40.0, 10.0), (80.0, 9.9)]);
        assert_eq!((later.peak, later.best), (40.0, 10.0));
        let collapsed = of(&[(80.0, 0.2), (1.0, 1.0), (10.0, 0.5)]);
        assert_eq!((collapsed.shape, collapsed.peak), (Shape::Collapses, 1.0), "in any order");
    }

    #[test]
    fn two_counts_or_a_rate_of_nothing_have_no_class() {
        assert_eq!(classify(&[]), None);
        assert_eq!(classify(&[(1.0, 1.0), (80.0, 2.0)]), None);
        assert_eq!(classify(&[(1.0, 1.0), (1.0, 1.0), (80.0, 2.0)]), None);
        assert_eq!(classify(&[(1.0, 1.0), (10.0, 0.0), (80.0, 2.0)]), None);
        assert_eq!(classify(&[(1.0, 1.0), (10.0, f64::NAN), (80.0, 2.0)]), None);
    }

    #[test]
    fn curves_are_cells_that_differ_in_threads_with_the_median_of_repeats() {
        let mut file = ResultFile::new("p", serde_json::Value::Null, 1, Clock::Virtual);
        for (fs, threads, rate, repeat) in [
            ("a", "10", 5.0, 0),
            ("a", "1", 1.0, 0),
            ("b", "1", 7.0, 0),
            ("a", "10", 7.0, 1),
            ("a", "10", 6.0, 2),
        ] {
            let axes = [("fs", fs), ("threads", threads)];
            let axes = axes.map(|(axis, value)| (axis.to_owned(), value.to_owned()));
            let mut sample = Sample::new(axes.into(), repeat, 1);
            sample.throughput_ops_per_s = rate;
            file.samples.push(sample);
        }
        let mut cut_short = file.samples[0].clone();
        cut_short.axes.insert("threads".to_owned(), "80".to_owned());
        cut_short.partial = true;
        file.samples.push(cut_short);
        let found = curves(&file);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].points, [(1.0, 1.0), (10.0, 6.0)]);
        assert_eq!(found[1].axes["fs"], "b");
    }
}
