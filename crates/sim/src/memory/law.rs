//! Latency and greatest traffic of a memory, by its traffic and the share of writes in it.
//!
//! Traffic is in bytes a nanosecond, which are GB/s; latency in nanoseconds; `w` is the part of the traffic that is written.
//!
//! `Ddr` is a formula:
//!
//! ```text
//! E(w) = c0 - c1 · w / (w + c2)                 the part of the peak P that the bus can carry: turnarounds cost c1
//! x    = min(T / (P · E(w)), 0.97)
//! L    = idle + a · T / P + b · (1 + b1 · w) · x / (1 - x)
//! greatest(w) = k · E(w) · P
//! ```
//!
//! Where two greatest bandwidths are known, `greatest` is the hyperbola of the same c2 through them, and E is that by k · P.
//!
//! `Curve` is a table of points for each share. Between two shares it takes each at the same part of its greatest traffic, since
//! curves of other shares are alike in that and not at the same traffic; between two points, and after the last, it is a line.

/// How latency depends on traffic.
#[derive(Clone, Debug, PartialEq)]
pub enum Law {
    /// A formula.
    Ddr(Ddr),
    /// A table.
    Curve(Curve),
}

/// The formula's constants, see the head of the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ddr {
    /// P, in bytes a nanosecond.
    pub peak: f64,
    /// Latency without traffic.
    pub idle: f64,
    /// Banks, by the part of the peak.
    pub a: f64,
    /// Waits, by how near the bus is to its limit.
    pub b: f64,
    /// By how much writes lengthen these.
    pub b1: f64,
    /// What of the peak reads alone can use.
    pub c0: f64,
    /// What turnarounds cost at most.
    pub c1: f64,
    /// The share of writes at which they cost half of it.
    pub c2: f64,
    /// The part of E · P that all cores together reach.
    pub k: f64,
    /// Two greatest traffics that are known: the share of writes, and bytes a nanosecond.
    pub known: Option<[(f64, f64); 2]>,
}

/// No formula comes nearer to its pole.
const NEAREST: f64 = 0.97;

impl Ddr {
    /// A socket of a Xeon Platinum 8480+ with eight channels of DDR5-4800.
    ///
    /// \[D\] Idle is the mean of three shares (117.2, 114.8, 115.2 ns); the rest by least squares of the relative error on 26
    /// loaded points of Mess (AVX-512, shares of reads 100, 83 and 67): mean error 0.7 %, most 1.6 %. k is between 0.912, 0.860
    /// and 0.867.
    pub const XEON_8480: Self = Self {
        peak: 307.2,
        idle: 115.7,
        a: 12.98,
        b: 12.1,
        b1: 4.837,
        c0: 0.8593,
        c1: 0.2313,
        c2: 0.2936,
        k: 0.875,
        known: None,
    };

    /// The shape of Intel and Arm servers, from a Xeon Platinum 8480+ and a Xeon Gold 5218 (Mess, shares of reads 100 to 50).
    pub fn of_data_sheet(peak: f64, idle: f64) -> Self {
        Self {
            peak,
            idle,
            a: 31.5,
            b: 6.7,
            b1: 1.85,
            c0: 0.825,
            c1: 0.1976,
            c2: 0.162,
            k: 0.931,
            known: None,
        }
    }

    /// The greatest traffic that all cores reach.
    pub fn greatest(&self, w: f64) -> f64 {
        let part = |w: f64| w / (w + self.c2);
        match self.known {
            None => self.k * (self.c0 - self.c1 * part(w)) * self.peak,
            Some([(w1, most1), (w2, most2)]) => {
                most1 + (most2 - most1) * (part(w) - part(w1)) / (part(w2) - part(w1))
            }
        }
    }

    fn latency(&self, traffic: f64, w: f64) -> f64 {
        let x = (traffic * self.k / self.greatest(w)).min(NEAREST);
        self.idle + self.a * traffic / self.peak + self.b * (1.0 + self.b1 * w) * x / (1.0 - x)
    }

    /// What no memory can be.
    fn check(&self) -> Result<(), String> {
        let Self { peak, idle, a, b, b1, c0, c1, c2, k, known } = *self;
        if !(0.1..=10_000.0).contains(&peak) {
            return Err(format!(
                "a peak of {peak} GB/s is no memory's: channels, rate (MT/s) and width (bit) give it"
            ));
        }
        check_idle(idle)?;
        let constants = [("a", a), ("b", b), ("b1", b1), ("c1", c1)];
        if let Some((name, value)) = constants.into_iter().find(|(_, value)| !(0.0..=1_000.0).contains(value))
        {
            return Err(format!("{name} is {value}: it is between 0 and 1000"));
        }
        if !(0.01..=1.0).contains(&c0) || !(0.001..=10.0).contains(&c2) || !(0.1..=NEAREST).contains(&k) {
            return Err(format!(
                "c0 is 0.01 to 1, c2 is 0.001 to 10, k is 0.1 to {NEAREST}; they are {c0}, {c2} and {k}"
            ));
        }
        if let Some([(w1, most1), (w2, most2)]) = known {
            if (w1 - w2).abs() < 0.01 {
                return Err("max_reads and max_mixed need two shares of reads".to_owned());
            }
            if let Some(most) = [most1, most2].into_iter().find(|most| !(peak * 0.02..=peak).contains(most)) {
                return Err(format!("a greatest traffic of {most} GB/s does not fit a peak of {peak} GB/s"));
            }
        }
        match [0.0, 0.5, 1.0].into_iter().find(|w| self.greatest(*w) < 0.01 * peak) {
            Some(w) => {
                Err(format!("with {:.0} % writes nothing of the peak is left: c1, max_mixed", w * 100.0))
            }
            None => Ok(()),
        }
    }
}

fn check_idle(idle: f64) -> Result<(), String> {
    if (1.0..=100_000.0).contains(&idle) {
        return Ok(());
    }
    Err(format!("an idle latency of {idle} ns is no memory's: 1 ns to 100 us"))
}

/// Points by shares of reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    shares: Vec<Share>,
}

/// The points of one share.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// The part of the traffic that is written.
    pub writes: f64,
    /// Traffic in bytes a nanosecond and latency, both rising.
    pub points: Vec<(f64, f64)>,
}

/// Shares beyond those that were measured are taken so much further at most, in parts of the distance of the last two.
const BEYOND: f64 = 1.0;

impl Curve {
    /// A curve of shares with at least two points each, whose traffic rises and whose latency does not fall.
    ///
    /// # Errors
    /// What is wrong with a share.
    pub fn new(mut shares: Vec<Share>) -> Result<Self, String> {
        shares.sort_by(|one, other| one.writes.total_cmp(&other.writes));
        if shares.is_empty() {
            return Err("a curve has at least one share of reads".to_owned());
        }
        if let Some(pair) = shares.windows(2).find(|pair| pair[1].writes - pair[0].writes < 0.001) {
            return Err(format!("the share of {:.1} % reads is there twice", (1.0 - pair[0].writes) * 100.0));
        }
        for Share { writes, points } in &shares {
            let wrong = |what: String| Err(format!("{:.1} % reads: {what}", (1.0 - writes) * 100.0));
            if !(0.0..=1.0).contains(writes) || points.len() < 2 {
                return wrong("a share is 0 to 100 % and has two points or more".to_owned());
            }
            if let Err(why) = check_idle(points[0].1) {
                return wrong(why);
            }
            if points[0].0 < 0.0 || points[points.len() - 1].0 > 10_000.0 {
                return wrong("traffic is 0 to 10,000 GB/s".to_owned());
            }
            if let Some(pair) = points.windows(2).find(|pair| pair[1].0 <= pair[0].0 || pair[1].1 < pair[0].1)
            {
                return wrong(format!(
                    "from {} GB/s, {} ns to {} GB/s, {} ns: traffic rises and latency does not fall",
                    pair[0].0, pair[0].1, pair[1].0, pair[1].1
                ));
            }
        }
        Ok(Self { shares })
    }

    /// Its shares, by the part that is written.
    pub fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// Whether this share of writes lies between measured ones.
    pub fn has(&self, writes: f64) -> bool {
        let near = |share: Option<&Share>, sign: f64| {
            share.is_some_and(|share| (share.writes - writes) * sign < 0.005)
        };
        near(self.shares.first(), 1.0) && near(self.shares.last(), -1.0)
    }

    /// The two shares beside `w`, and how far it is from the first to the second.
    fn beside(&self, w: f64) -> (&Share, &Share, f64) {
        let [only] = &self.shares[..] else {
            let after = self.shares.iter().position(|share| share.writes >= w).unwrap_or(self.shares.len());
            let second = after.clamp(1, self.shares.len() - 1);
            let (one, other) = (&self.shares[second - 1], &self.shares[second]);
            let far = (w - one.writes) / (other.writes - one.writes);
            return (one, other, far.clamp(-BEYOND, 1.0 + BEYOND));
        };
        (only, only, 0.0)
    }

    fn greatest(&self, w: f64) -> f64 {
        let (one, other, far) = self.beside(w);
        let between = one.most() + (other.most() - one.most()) * far;
        between.max(one.most().min(other.most()) / 4.0)
    }

    fn latency(&self, traffic: f64, w: f64) -> f64 {
        let (one, other, far) = self.beside(w);
        let part = traffic / self.greatest(w);
        let (first, second) = (one.at(part), other.at(part));
        (first + (second - first) * far).max(first.min(second) / 2.0)
    }
}

impl Share {
    fn most(&self) -> f64 {
        self.points.last().map_or(0.0, |point| point.0)
    }

    /// The latency at this part of the greatest traffic.
    fn at(&self, part: f64) -> f64 {
        let traffic = part * self.most();
        let after = self.points.iter().position(|point| point.0 >= traffic).unwrap_or(self.points.len());
        let second = after.clamp(1, self.points.len() - 1);
        let ((x1, y1), (x2, y2)) = (self.points[second - 1], self.points[second]);
        if traffic <= x1 { y1 } else { y1 + (y2 - y1) * (traffic - x1) / (x2 - x1) }
    }
}

impl Law {
    /// Latency at this traffic and share of writes.
    pub fn latency(&self, traffic: f64, w: f64) -> f64 {
        match self {
            Self::Ddr(ddr) => ddr.latency(traffic, w),
            Self::Curve(curve) => curve.latency(traffic, w),
        }
    }

    /// The greatest traffic at this share of writes.
    pub fn greatest(&self, w: f64) -> f64 {
        match self {
            Self::Ddr(ddr) => ddr.greatest(w),
            Self::Curve(curve) => curve.greatest(w),
        }
    }

    /// What no memory can be.
    ///
    /// # Errors
    /// Which constant is wrong, and what it may be.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Ddr(ddr) => ddr.check(),
            Self::Curve(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve() -> Curve {
        let reads = Share { writes: 0.0, points: vec![(0.0, 100.0), (100.0, 120.0), (200.0, 200.0)] };
        let mixed = Share { writes: 0.4, points: vec![(0.0, 100.0), (75.0, 130.0), (150.0, 260.0)] };
        Curve::new(vec![mixed, reads]).unwrap()
    }

    #[test]
    fn a_curve_gives_its_points_and_goes_between_shares_at_the_same_part_of_the_greatest_traffic() {
        let law = Law::Curve(curve());
        assert_eq!((law.latency(100.0, 0.0), law.latency(75.0, 0.4)), (120.0, 130.0));
        assert!((law.greatest(0.2) - 175.0).abs() < 1e-9);
        assert!((law.latency(87.5, 0.2) - 125.0).abs() < 1e-9, "{}", law.latency(87.5, 0.2));
        assert!((law.latency(200.0, 0.0) - 200.0).abs() < 1e-9);
        assert!(law.latency(210.0, 0.0) > 200.0, "the last slope goes on");
        assert!(curve().has(0.3) && !curve().has(0.5));
    }

    #[test]
    fn latency_rises_with_traffic_and_with_writes_between_the_shares_too() {
        let ddr = Law::Ddr(Ddr::of_data_sheet(307.2, 117.2));
        for law in [ddr, Law::Curve(curve())] {
            for step in 0..190_u32 {
                let (traffic, w) = (f64::from(step), f64::from(step % 40) / 100.0);
                let here = law.latency(traffic, w);
                assert!(law.latency(traffic + 1.0, w) >= here, "{traffic} GB/s, {w}: {law:?}");
                assert!(law.latency(traffic, w + 0.05) >= here - 1e-9, "{traffic} GB/s, {w}: {law:?}");
            }
        }
    }

    #[test]
    fn two_known_bandwidths_are_met_and_the_formula_has_no_other_greatest() {
        let known = Some([(0.0, 240.6), (0.33, 196.2)]);
        let ddr = Ddr { known, ..Ddr::of_data_sheet(307.2, 117.2) };
        assert!((ddr.greatest(0.0) - 240.6).abs() < 1e-9 && (ddr.greatest(0.33) - 196.2).abs() < 1e-9);
        assert!((196.2..240.6).contains(&ddr.greatest(0.17)));
        assert!(ddr.check().is_ok());
    }

    #[test]
    fn what_no_memory_can_be_is_refused_with_its_name() {
        let fine = Ddr::of_data_sheet(307.2, 117.2);
        let cases = [
            (Ddr { peak: 0.0, ..fine }, "peak"),
            (Ddr { peak: 1e9, ..fine }, "peak"),
            (Ddr { idle: 0.0, ..fine }, "idle"),
            (Ddr { b: f64::NAN, ..fine }, "b is"),
            (Ddr { c1: 1.0, ..fine }, "writes"),
            (Ddr { known: Some([(0.0, 500.0), (0.3, 200.0)]), ..fine }, "does not fit"),
            (Ddr { known: Some([(0.3, 200.0), (0.3, 190.0)]), ..fine }, "two shares"),
        ];
        for (ddr, word) in cases {
            let why = ddr.check().unwrap_err();
            assert!(why.contains(word), "{why}");
        }
        let falling = Share { writes: 0.0, points: vec![(10.0, 100.0), (5.0, 120.0)] };
        assert!(Curve::new(vec![falling]).unwrap_err().contains("traffic rises"));
        assert!(Curve::new(Vec::new()).is_err());
    }
}
