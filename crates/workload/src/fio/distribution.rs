//! Where random I/O goes (`random_distribution`).
//!
//! A [`Sampler`] draws a block of `0..blocks`. Zipf and Pareto draw a *rank* first, the most frequent being 0:
//!
//! | name | P(rank) |
//! |---|---|
//! | `zipf:θ` | proportional to 1 / (rank + 1)^θ |
//! | `pareto:h` | P(rank < x·n) = x^(ln(1-h) / ln h): a part h of the blocks gets 1-h of the accesses |
//! | `normal:d` | a deviation of d % of the blocks around the centre; what falls outside comes in again at the other end |
//! | `zoned:a/s:…` | a % of the accesses go to the next s % of the blocks, without s to part of the rest (`zoned_abs`: bytes) |
//!
//! A rank becomes a block by a multiplication modulo the number of blocks, so that neighbours in rank are no neighbours on the
//! medium; with a centre (`zipf:1.2:0.25`) ranks follow each other from there. fio has a hash in place of the multiplication,
//! and approximates Zipf's distribution as Gray et al., SIGMOD 1994, do; here it is drawn exactly (rejection and inversion,
//! W. Hörmann and G. Derflinger, ACM TOMACS 1996).

use rand::RngExt as _;
use rand_distr::{Distribution as _, Normal, Zipf};
use sim::{Rng, math};

use super::value::{self, Base, Parsed};

/// A distribution as a job file names it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Distribution {
    /// Every block alike.
    #[default]
    Uniform,
    /// With the exponent.
    Zipf { theta: f64, centre: Option<f64> },
    /// With the part of the blocks that gets the rest of the accesses.
    Pareto { h: f64, centre: Option<f64> },
    /// With the deviation in percent of the blocks.
    Normal { deviation: f64, centre: f64 },
    /// Percentages of the accesses, each with the part of the file that they go to.
    Zoned(Vec<(f64, Zone)>),
}

/// The size of a zone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Zone {
    /// Of the file.
    Percent(f64),
    /// Absolute.
    Bytes(u64),
    /// What the others leave, shared with others of this kind.
    Rest,
}

/// The distributions of reads, writes and trims.
pub(super) fn parse(text: &str, base: Base) -> Parsed<[Distribution; 3]> {
    let (name, rest) = text.split_once([':', '=']).unwrap_or((text, ""));
    if name == "zoned" || name == "zoned_abs" {
        return value::three(rest, &Distribution::Uniform, |zones| {
            self::zones(zones, name == "zoned_abs", base)
        });
    }
    let mut numbers = Vec::new();
    for number in rest.split([':', '/']).filter(|number| !number.is_empty()) {
        let wrong = || format!("\"{number}\" of {text} is not a number");
        numbers.push(number.parse::<f64>().ok().filter(|number| number.is_finite()).ok_or_else(wrong)?);
    }
    let centre = numbers.get(1).copied();
    if centre.is_some_and(|centre| !(0.0..=1.0).contains(&centre)) {
        return Err(format!("{text}: a centre is between 0 and 1"));
    }
    let first = |range: std::ops::RangeInclusive<f64>, what: &str| {
        let number = numbers.first().copied().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("{text}: write {name}:N, where N is {what}"))
    };
    let distribution = match name {
        "random" => Distribution::Uniform,
        "zipf" => {
            Distribution::Zipf { theta: first(f64::MIN_POSITIVE..=100.0, "the exponent, above 0")?, centre }
        }
        "pareto" => {
            let what = "the part of the blocks that gets the other part of the accesses, between 0 and 1";
            Distribution::Pareto { h: first(0.0001..=0.9999, what)?, centre }
        }
        "normal" | "gauss" => {
            let deviation = first(0.0..=100.0, "the deviation in percent, 0 to 100")?;
            Distribution::Normal { deviation, centre: centre.unwrap_or(0.5) }
        }
        _ => {
            return Err(format!(
                "there is no distribution {name}: random, zipf:θ, pareto:h, normal:d, zoned:…, zoned_abs:…"
            ));
        }
    };
    Ok([distribution.clone(), distribution.clone(), distribution])
}

/// The zones of one direction. Zones without a size share what the others leave; those of `zoned_abs` do at the end of the file,
/// whose size is not known here.
fn zones(text: &str, absolute: bool, base: Base) -> Parsed<Distribution> {
    let mut zones = Vec::new();
    for zone in text.trim_end_matches(':').split(':') {
        let (share, size) = zone.split_once('/').unwrap_or((zone, ""));
        let size = match size.trim() {
            "" => Zone::Rest,
            size if absolute => Zone::Bytes(value::int(size, base)?),
            size => Zone::Percent(f64::from(value::percent(size)?)),
        };
        zones.push((f64::from(value::percent(share)?), size));
    }
    let accesses: f64 = zones.iter().map(|(share, _)| share).sum();
    let percent = |zone: Zone| if let Zone::Percent(percent) = zone { percent } else { 0.0 };
    let sizes: f64 = zones.iter().map(|(_, zone)| percent(*zone)).sum();
    if (accesses - 100.0).abs() >= 0.01 {
        return Err(format!("\"{text}\": the accesses sum to {accesses}, and must sum to 100"));
    }
    if sizes > 100.0 {
        return Err(format!("\"{text}\": the sizes sum to {sizes}, more than 100 % of the file"));
    }
    Ok(Distribution::Zoned(zones))
}

/// Draws blocks.
#[derive(Clone, Debug)]
pub(super) struct Sampler {
    blocks: u64,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Uniform,
    Zipf(Zipf<f64>, Spread),
    Pareto(f64, Spread),
    Normal(Normal<f64>),
    /// Ends of the accesses (0 to 1), and of the blocks.
    Zoned(Vec<(f64, u64)>),
}

/// How a rank becomes a block.
#[derive(Clone, Copy, Debug)]
struct Spread {
    factor: u64,
    first: u64,
}

impl Spread {
    fn new(blocks: u64, centre: Option<f64>) -> Self {
        match centre {
            Some(centre) => Self { factor: 1, first: (centre * blocks as f64) as u64 },
            None => Self { factor: coprime(blocks), first: 0 },
        }
    }

    fn block(self, rank: u64, blocks: u64) -> u64 {
        let block = u128::from(rank) * u128::from(self.factor) + u128::from(self.first);
        (block % u128::from(blocks)) as u64
    }
}

/// A factor near the golden section of `blocks` that has no divisor with it, so that the multiplication is a bijection.
fn coprime(blocks: u64) -> u64 {
    let golden = (blocks as f64 * 0.618_033_988_75) as u64;
    // Below twice a number there is a prime above it.
    let above = golden.max(1)..=golden.saturating_mul(2).max(2);
    above.into_iter().find(|factor| gcd(*factor, blocks) == 1).unwrap_or(1)
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Sampler {
    /// For `blocks` blocks of `block` bytes each.
    pub(super) fn new(distribution: &Distribution, blocks: u64, block: u64) -> Self {
        let kind = match *distribution {
            Distribution::Uniform => Kind::Uniform,
            Distribution::Zipf { theta, centre } => {
                let zipf = Zipf::new(blocks as f64, theta).expect("the exponent and the number are positive");
                Kind::Zipf(zipf, Spread::new(blocks, centre))
            }
            Distribution::Pareto { h, centre } => {
                Kind::Pareto(math::ln(h) / math::ln(1.0 - h), Spread::new(blocks, centre))
            }
            Distribution::Normal { deviation, centre } => {
                let spread = (blocks as f64 * deviation / 100.0).min(blocks as f64 / 2.0);
                Kind::Normal(Normal::new(centre * blocks as f64, spread).expect("the deviation is finite"))
            }
            Distribution::Zoned(ref zones) => Kind::Zoned(ends(zones, blocks, block)),
        };
        Self { blocks, kind }
    }

    /// The next block.
    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        let blocks = self.blocks;
        match &self.kind {
            Kind::Uniform => rng.random_range(0..blocks),
            Kind::Zipf(zipf, spread) => {
                let rank = (zipf.sample(rng) as u64 - 1).min(blocks - 1);
                spread.block(rank, blocks)
            }
            Kind::Pareto(power, spread) => {
                let part: f64 = rng.random();
                let rank = (blocks as f64 * math::powf(part, *power)) as u64;
                spread.block(rank.min(blocks - 1), blocks)
            }
            Kind::Normal(normal) => {
                let place = (normal.sample(rng).floor() as i128).rem_euclid(i128::from(blocks));
                place as u64
            }
            Kind::Zoned(ends) => {
                let part: f64 = rng.random();
                let zone = ends.iter().position(|(end, _)| part < *end).unwrap_or(ends.len() - 1);
                let first = if zone == 0 { 0 } else { ends[zone - 1].1 };
                // A zone smaller than a block is the block that it begins in.
                let end = ends[zone].1.clamp(first + 1, blocks.max(first + 1));
                rng.random_range(first..end).min(blocks - 1)
            }
        }
    }
}

fn ends(zones: &[(f64, Zone)], blocks: u64, block: u64) -> Vec<(f64, u64)> {
    let whole = blocks as f64 * block as f64;
    let given = |zone: &Zone| match zone {
        Zone::Percent(percent) => whole * percent / 100.0,
        Zone::Bytes(bytes) => *bytes as f64,
        Zone::Rest => 0.0,
    };
    let open = zones.iter().filter(|(_, zone)| *zone == Zone::Rest).count();
    let taken: f64 = zones.iter().map(|(_, zone)| given(zone)).sum();
    let rest = (whole - taken).max(0.0) / open.max(1) as f64;
    let (mut accesses, mut bytes) = (0.0, 0.0);
    let end = |(share, zone): &(f64, Zone)| {
        accesses += share / 100.0;
        bytes += if *zone == Zone::Rest { rest } else { given(zone) };
        (accesses, ((bytes / block as f64).round() as u64).min(blocks))
    };
    zones.iter().map(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 400_000;

    fn of(text: &str) -> Distribution {
        parse(text, Base::Old).unwrap()[0].clone()
    }

    /// How often each block is drawn.
    fn counts(text: &str, blocks: u64) -> Vec<u64> {
        let sampler = Sampler::new(&of(text), blocks, 4096);
        let (mut rng, mut counts) = (sim::Seed(1).rng(), vec![0; blocks as usize]);
        (0..DRAWS).for_each(|_| counts[sampler.draw(&mut rng) as usize] += 1);
        counts
    }

    /// Within four standard deviations of a binomial count.
    fn is_near(count: u64, probability: f64, what: &str) {
        let expected = DRAWS as f64 * probability;
        let off = (count as f64 - expected).abs();
        assert!(off < 4.0 * expected.sqrt() + 1.0, "{what}: {count} drawn, {expected:.0} expected");
    }

    #[test]
    fn the_ranks_of_zipf_have_the_frequencies_of_the_closed_form() {
        for theta in [0.5_f64, 0.99, 1.0, 1.2, 2.0] {
            let blocks = 1000;
            let mut counts = counts(&format!("zipf:{theta}"), blocks);
            counts.sort_unstable_by(|a, b| b.cmp(a));
            let sum: f64 = (1..=blocks).map(|rank| math::powf(rank as f64, -theta)).sum();
            for rank in 1..=5_u64 {
                let probability = math::powf(rank as f64, -theta) / sum;
                is_near(counts[rank as usize - 1], probability, &format!("theta {theta}, rank {rank}"));
            }
        }
    }

    #[test]
    fn pareto_gives_a_part_of_the_blocks_the_other_part_of_the_accesses() {
        for h in [0.1, 0.2, 0.4] {
            let blocks = 1000;
            let mut counts = counts(&format!("pareto:{h}"), blocks);
            counts.sort_unstable_by(|a, b| b.cmp(a));
            let first: u64 = counts[..(h * blocks as f64) as usize].iter().sum();
            is_near(first, 1.0 - h, &format!("h {h}"));
        }
    }

    #[test]
    fn a_centre_puts_the_most_frequent_block_there() {
        let counts = counts("zipf:1.2:0.25", 1000);
        let most = (0..1000).max_by_key(|block| counts[*block]).unwrap();
        assert_eq!(most, 250);
    }

    #[test]
    fn normal_has_its_deviation_around_the_middle() {
        let counts = counts("normal:10", 1000);
        let mean =
            counts.iter().zip(0..).map(|(count, block)| count * block).sum::<u64>() as f64 / DRAWS as f64;
        let square = |(count, block): (&u64, u64)| *count as f64 * (block as f64 - mean).powi(2);
        let deviation = (counts.iter().zip(0..).map(square).sum::<f64>() / DRAWS as f64).sqrt();
        assert!((mean - 500.0).abs() < 2.0 && (deviation - 100.0).abs() < 2.0, "{mean} {deviation}");
    }

    #[test]
    fn zones_have_their_accesses_and_reach_their_sizes() {
        let counts = counts("zoned:60/10:30/20:8/30:2/40", 1000);
        let sum = |range: std::ops::Range<usize>| counts[range].iter().sum::<u64>();
        for (range, share) in [(0..100, 0.6), (100..300, 0.3), (300..600, 0.08), (600..1000, 0.02)] {
            is_near(sum(range), share, "zone");
        }
        let absolute = Sampler::new(&of("zoned_abs:50/40k:50/4m"), 1000, 4096);
        let mut rng = sim::Seed(2).rng();
        let low = (0..DRAWS).filter(|_| absolute.draw(&mut rng) < 10).count();
        is_near(low as u64, 0.5, "the first 40 KiB");
    }

    #[test]
    fn zones_without_a_size_share_the_rest_and_zones_may_leave_a_part_out() {
        let shares = |text: &str, ranges: &[(std::ops::Range<usize>, f64)]| {
            let counts = counts(text, 1000);
            for (range, share) in ranges {
                is_near(counts[range.clone()].iter().sum(), *share, text);
            }
        };
        shares("zoned:60/10:30/20:10/", &[(0..100, 0.6), (100..300, 0.3), (300..1000, 0.1)]);
        shares("zoned:60/10:20:20/", &[(0..100, 0.6), (100..550, 0.2), (550..1000, 0.2)]);
        shares("zoned:60/10:40/20", &[(0..100, 0.6), (100..300, 0.4), (300..1000, 0.0)]);
        shares("zoned_abs:60/40k:40/", &[(0..10, 0.6), (10..1000, 0.4)]);
        shares("zoned:100", &[(0..500, 0.5), (500..1000, 0.5)]);
    }

    #[test]
    fn every_block_has_one_rank() {
        for blocks in [1, 2, 3, 10, 64, 1000, 4095] {
            let spread = Spread::new(blocks, None);
            let mut seen: Vec<_> = (0..blocks).map(|rank| spread.block(rank, blocks)).collect();
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..blocks), "{blocks}");
        }
    }

    #[test]
    fn what_is_no_distribution_is_refused_with_what_there_is() {
        for (text, told) in [
            ("zip:1", "there is no distribution zip"),
            ("zipf", "write zipf:N"),
            ("pareto:2", "between 0 and 1"),
            ("zipf:x", "not a number"),
            ("zipf:1:3", "a centre is between 0 and 1"),
            ("zoned:60/10:30/20", "the accesses sum to 90, and must sum to 100"),
            ("zoned:60/10:40/91", "the sizes sum to 101, more than 100 %"),
            ("zoned:60/10:/20", "\"\" is not a percentage"),
        ] {
            assert!(parse(text, Base::Old).unwrap_err().contains(told), "{text}");
        }
    }
}
