//! Coefficients against published values, closed forms and SciPy.

use rand_xoshiro::Xoshiro256StarStar;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use super::*;

/// Anscombe, *Graphs in statistical analysis*, The American Statistician, 1973: four pictures with one coefficient.
#[test]
fn the_quartet_of_anscombe_has_one_coefficient() {
    let x = [10., 8., 13., 9., 11., 14., 6., 4., 12., 7., 5.];
    let fourth = [8., 8., 8., 8., 8., 8., 8., 19., 8., 8., 8.];
    let columns = [
        (x, [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68]),
        (x, [9.14, 8.14, 8.74, 8.77, 9.26, 8.10, 6.13, 3.10, 9.13, 7.26, 4.74]),
        (x, [7.46, 6.77, 12.74, 7.11, 7.81, 8.84, 6.08, 5.39, 8.15, 6.42, 5.73]),
        (fourth, [6.58, 5.76, 7.71, 8.84, 8.47, 7.04, 5.25, 12.50, 5.56, 7.91, 6.89]),
    ];
    for (x, y) in columns {
        let points: Vec<_> = x.into_iter().zip(y).collect();
        let found = correlate(&points).unwrap();
        assert!((found.r - 0.816).abs() < 0.001, "{found:?}");
        // sqrt((1 - 0.816²) / 9)
        assert!((found.error - 0.1926).abs() < 0.001 && !found.is_high(), "{found:?}");
    }
}

fn column(mut seed: u64, n: usize) -> Vec<f64> {
    let mut next = || {
        seed = (seed * 1_103_515_245 + 12345) % (1 << 31);
        (seed / 65536 % 1000) as f64
    };
    (0..n).map(|_| next()).collect()
}

/// Seed, points, the share of x in y, r, its error, its interval, the coefficient of the ranks, the chance.
type Row = (u64, usize, f64, f64, f64, (f64, f64), f64, f64);

/// By `tests/counters/correlation.py` with SciPy 1.17.1.
const BY_SCIPY: [Row; 5] = [
    (1, 12, 0., 0.252_983_720, 0.305_941_046, (-0.375_425_016, 0.722_052_193), 0.216_783_217, 4.275_820e-01),
    (2, 30, 1., 0.764_547_638, 0.121_811_756, (0.557_966_325, 0.881_902_896), 0.745_494_994, 8.725_969e-07),
    (3, 30, 4., 0.975_334_481, 0.041_714_442, (0.948_271_867, 0.988_323_597), 0.973_748_610, 6.498_675e-20),
    (
        4,
        150,
        -2.,
        -0.874_712_542,
        0.039_837_336,
        (-0.907_726_461, -0.830_933_585),
        -0.878_154_413,
        2.068_497e-48,
    ),
    (5, 9, 0., 0.064_312_783, 0.377_182_007, (-0.626_570_709, 0.698_596_381), -0.016_666_667, 8.694_338e-01),
];

#[test]
fn coefficients_errors_intervals_ranks_and_chances_are_those_of_scipy() {
    for (seed, n, share, r, error, (low, high), ranks, chance) in BY_SCIPY {
        let points: Vec<_> = column(seed, n)
            .into_iter()
            .zip(column(seed + 100, n))
            .map(|(x, noise)| (x, share * x + noise))
            .collect();
        let found = correlate(&points).unwrap();
        let interval = found.interval.unwrap();
        for (name, value, expected) in [
            ("r", found.r, r),
            ("error", found.error, error),
            ("low", interval.0, low),
            ("high", interval.1, high),
            ("ranks", found.ranks, ranks),
        ] {
            assert!((value - expected).abs() < 2e-9, "seed {seed}: {name} {value}, SciPy {expected}");
        }
        assert!((found.chance / chance - 1.0).abs() < 1e-4, "seed {seed}: {} {chance}", found.chance);
    }
}

/// Sums of twelve uniform numbers, which are normal enough here.
fn normal(random: &mut Xoshiro256StarStar) -> f64 {
    (0..12).map(|_| random.next_u64() as f64 / u64::MAX as f64).sum::<f64>() - 6.0
}

#[test]
fn a_planted_correlation_is_found_within_two_errors() {
    let planted = -0.9_f64;
    let near = |seed: u64| {
        let mut random = Xoshiro256StarStar::seed_from_u64(seed);
        let points: Vec<_> = (0..150)
            .map(|_| {
                let x = normal(&mut random);
                (x, planted * x + (1.0 - planted * planted).sqrt() * normal(&mut random))
            })
            .collect();
        let found = correlate(&points).unwrap();
        let (low, high) = found.interval.unwrap();
        ((found.r - planted).abs() <= 2.0 * found.error, (low..=high).contains(&planted), found.is_high())
    };
    let all: Vec<_> = (0..100).map(near).collect();
    let count = |of: fn(&(bool, bool, bool)) -> bool| all.iter().filter(|one| of(one)).count();
    assert!(count(|one| one.0) >= 95, "{}", count(|one| one.0));
    assert!(count(|one| one.1) >= 90 && count(|one| one.2) == 100);
}

#[test]
fn a_column_that_never_changes_has_no_coefficient() {
    let points: Vec<_> = (0..10).map(|at| (f64::from(at), 0.0)).collect();
    assert_eq!(correlate(&points), None);
    assert_eq!(correlate(&points[..3]), None);
    assert_eq!(correlate(&[]), None);
    // A value that no sum of its copies divides exactly.
    let points: Vec<_> = (0..10).map(|at| (f64::from(at), 0.1)).collect();
    assert_eq!(correlate(&points), None);
}

#[test]
fn points_on_a_line_have_a_coefficient_of_one_and_no_error() {
    let points: Vec<_> = (0..9).map(|at| (f64::from(at), 7.0 - f64::from(at))).collect();
    let found = correlate(&points).unwrap();
    assert!((found.r + 1.0).abs() < 1e-12 && (found.ranks + 1.0).abs() < 1e-12, "{found:?}");
    assert!(found.error < 1e-6 && found.chance < 1e-12, "{found:?}");
    assert!(found.is_high() && found.has_sign());
}

#[test]
fn a_slow_drift_counts_as_few_points() {
    // Both columns are of ρ = 0.9 one step later: n (1 - 0.81) / (1 + 0.81) is a tenth of n.
    let mut random = Xoshiro256StarStar::seed_from_u64(7);
    let (mut x, mut y) = (0.0, 0.0);
    let points: Vec<_> = (0..4000)
        .map(|_| {
            (x, y) = (0.9 * x + normal(&mut random), 0.9 * y + normal(&mut random));
            (x, y)
        })
        .collect();
    let found = correlate_in_time(&points).unwrap();
    assert!((found.independent / 4000.0 - 0.105).abs() < 0.02, "{}", found.independent);
    assert!(found.error > 2.9 * correlate(&points).unwrap().error);
    // Independent points stay as many as they are, and an alternation makes them no more.
    let white: Vec<_> = (0..4000).map(|_| (normal(&mut random), normal(&mut random))).collect();
    assert!(independent(&white) > 3800.0);
    let alternating: Vec<_> = (0..100).map(|at| (f64::from(at % 2), normal(&mut random))).collect();
    assert!(independent(&alternating) <= 100.0);
}

fn cloud(centre: (f64, f64), slope: f64) -> Vec<(f64, f64)> {
    (0..20).map(|at| f64::from(at) / 10.0).map(|x| (centre.0 + x, centre.1 + slope * x)).collect()
}

#[test]
fn a_sign_that_only_differences_between_systems_make_is_told() {
    let judge = |clouds: &[Vec<(f64, f64)>]| {
        let pooled = correlate(&clouds.concat()).unwrap();
        let each: Vec<_> =
            clouds.iter().enumerate().map(|(at, one)| (format!("s{at}"), correlate(one))).collect();
        disagreement(&pooled, &each)
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    // Each falls, together they rise.
    let reversed = [cloud((0., 0.), -1.), cloud((5., 5.), -1.), cloud((9., 9.), -1.)];
    assert_eq!(judge(&reversed), Some(Disagreement::Reversed(names(&["s0", "s1", "s2"]))));
    // Each is a square, together they rise.
    let square = |at: f64| [(0., 0.), (0., 1.), (1., 0.), (1., 1.)].map(|(x, y)| (at + x, at + y)).to_vec();
    assert_eq!(judge(&[square(0.), square(8.), square(16.)]), Some(Disagreement::Between));
    assert_eq!(
        judge(&[cloud((0., 0.), 1.), cloud((0., 2.), -1.)]),
        Some(Disagreement::Hidden(names(&["s0", "s1"])))
    );
    assert_eq!(judge(&[cloud((0., 0.), 1.), cloud((3., 3.), 1.)]), None);
    assert_eq!(judge(&[cloud((0., 0.), 1.)]), None);
}
