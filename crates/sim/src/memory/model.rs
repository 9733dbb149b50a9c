//! What a memory is: its law, the link before it, and how a core uses it.

use super::law::Law;
use super::mutant::Mutant;

/// What a [`super::Memory`] is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryModel {
    /// Latency by traffic.
    pub law: Law,
    /// The link before it; none for memory of the socket.
    pub link: Option<Link>,
    /// The part of the idle latency that local memory has not, in picoseconds: what is waited for under the real clock.
    pub extra_ps: u64,
    /// What a core does.
    pub core: Core,
    /// The part of a latency after which a posted line is accepted, in thousandths.
    pub accept_per_mille: u64,
    /// How single loads differ from the mean.
    pub tail: Tail,
    /// An error on purpose, which a test must find.
    pub mutant: Option<Mutant>,
}

/// A link of two directions, each of `rate`, and a card behind it that serves both from one memory. Bytes a nanosecond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// What a direction carries.
    pub rate: f64,
    /// Bytes beside the 64 of a line that carries data.
    pub header: f64,
    /// Bytes of a request, which goes to the card for each line that is read.
    pub request: f64,
    /// What the card serves of reads and writes together.
    pub card: f64,
}

/// How a core uses a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Core {
    /// Time that a core takes for a line of a stream, whatever the latency, in picoseconds.
    pub issue_ps: u64,
    /// A stream exposes one latency for so many lines.
    pub depth: u64,
    /// Lines of a traffic generator that are under way.
    pub outstanding: u64,
    /// Posted lines that are under way.
    pub credits: u64,
}

impl Core {
    /// A core of Golden Cove, as in Sapphire Rapids.
    ///
    /// * `issue`, `depth`: \[D\] STREAM copy and add of one thread with all lines that move, local and on CXL-ASIC
    ///   (CXL-DMSim, arXiv 2411.02282: 20.33, 22.93, 16.94, 18.87 GB/s as STREAM counts), two unknowns at latencies of 115.6 and
    ///   254.2 ns.
    /// * `outstanding`: \[R\] 48 requests of the L2 (Intel optimization manual).
    /// * `credits`: \[R\] 16 fill buffers of the L1 (the same), through which stores past the caches go.
    pub const GOLDEN_COVE: Self = Self { issue_ps: 1_733, depth: 319, outstanding: 48, credits: 16 };
}

/// How the latency of a single load differs from the mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tail {
    /// Not at all.
    #[default]
    None,
    /// As that of a CXL card: the 95th of a hundred takes 1.5 and the 99th 1.9 of the median, and the mean is the law's.
    Card,
}

/// The drawn part of `2^20`, and the latency of a card there in thousandths of the mean, with lines between.
///
/// \[D\] Cold loads of a Montage card (CXLMemSim, Granite Rapids: p95 by p50 1.35, p99 by p50 1.6 with a loop of 136 ns around the
/// load) less the loop: 1.53 and 1.92 of the median; divided by the mean of the table.
const CARD: [(u32, u64); 6] =
    [(0, 853), (524_288, 947), (943_718, 1_061), (996_147, 1_454), (1_038_090, 1_819), (1_048_576, 2_179)];

impl Tail {
    /// The factor of a load, in thousandths, by a number below 2^20.
    pub(crate) fn per_mille(self, drawn: u32) -> u64 {
        if self == Self::None {
            return 1_000;
        }
        let second = CARD.iter().position(|(at, _)| *at > drawn).unwrap_or(CARD.len() - 1);
        let ((x1, y1), (x2, y2)) = (CARD[second - 1], CARD[second]);
        y1 + (y2 - y1) * u64::from(drawn - x1) / u64::from(x2 - x1)
    }
}

impl Link {
    /// The greatest traffic with this part of writes.
    fn cap(&self, w: f64) -> f64 {
        let (r, line) = (1.0 - w, 64.0);
        let to_host = r * (line + self.header) / line;
        let to_card = (w * (line + self.header) + r * self.request) / line;
        self.card.min(self.rate / to_host.max(to_card))
    }

    fn check(&self) -> Result<(), String> {
        let rates = [("link", self.rate), ("card", self.card)];
        if let Some((name, value)) = rates.into_iter().find(|(_, value)| !(0.01..=10_000.0).contains(value)) {
            return Err(format!("{name} is {value} GB/s: it is between 0.01 and 10,000"));
        }
        if !(0.0..=1_024.0).contains(&self.header) || !(0.0..=1_024.0).contains(&self.request) {
            return Err("a header has 0 to 1024 bytes".to_owned());
        }
        Ok(())
    }
}

impl MemoryModel {
    /// Local memory by this law.
    pub fn local(law: Law) -> Self {
        Self {
            law,
            link: None,
            extra_ps: 0,
            core: Core::GOLDEN_COVE,
            accept_per_mille: ACCEPT,
            tail: Tail::None,
            mutant: None,
        }
    }

    /// Whether it is wrong in this way.
    #[inline]
    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Latency of a line in picoseconds, at so many bytes a nanosecond of which the part `w` is written.
    pub fn latency_ps(&self, traffic: f64, w: f64) -> u64 {
        let again = if self.is(Mutant::ExtraTwice) { self.extra_ps } else { 0 };
        (self.law.latency(traffic, w) * 1_000.0 + 0.5) as u64 + again
    }

    /// The greatest traffic in bytes a nanosecond, of which the part `w` is written.
    pub fn cap(&self, w: f64) -> f64 {
        let greatest = self.law.greatest(w);
        let of_link = if self.is(Mutant::DirectionsExchanged) { 1.0 - w } else { w };
        self.link.map_or(greatest, |link| link.cap(of_link).min(greatest))
    }

    /// The memory in words: latencies by traffic, and the greatest.
    pub fn sentence(&self) -> String {
        let ns = |part: f64| self.latency_ps(self.cap(0.0) * part, 0.0) as f64 / 1e3;
        format!(
            "memory: idle {:.0} ns, {:.0} ns at half and {:.0} ns at 0.9 of its greatest traffic; greatest {:.0} GB/s of reads, \
             {:.0} with two thirds reads",
            ns(0.0),
            ns(0.5),
            ns(0.9),
            self.cap(0.0),
            self.cap(1.0 / 3.0)
        )
    }

    /// What no memory can be.
    ///
    /// # Errors
    /// Which value is wrong, and what it may be.
    pub fn check(&self) -> Result<(), String> {
        self.law.check()?;
        self.link.iter().try_for_each(Link::check)?;
        let Core { issue_ps, depth, outstanding, credits } = self.core;
        if !(1..=1_000_000).contains(&issue_ps)
            || [depth, outstanding, credits].iter().any(|n| !(1..=65_536).contains(n))
        {
            return Err(
                "a core issues a line in 1 ps to 1 us, and has 1 to 65,536 lines under way".to_owned()
            );
        }
        if !(1..=10_000).contains(&self.accept_per_mille) {
            return Err("accept is 0.001 to 10 of a latency".to_owned());
        }
        Ok(())
    }
}

/// \[D\] memo on local DDR5 and on a CXL card (MICRO 2023 method, data of CXL-DMSim): stores past the caches of 223 and 360 ns by
/// loads of 253 and 512 ns, each less a loop of 136 ns: 0.74 and 0.60 of a latency.
pub const ACCEPT: u64 = 670;

#[cfg(test)]
mod tests {
    use super::*;

    /// The link and the card that `cxl` takes by default.
    const X8: Link = Link { rate: 31.5, header: 21.0, request: 17.0, card: 33.0 };

    #[test]
    fn a_link_carries_more_of_both_directions_than_of_one_and_no_more_than_its_card() {
        assert!((23.0..=24.0).contains(&X8.cap(0.0)), "reads alone {}", X8.cap(0.0));
        let ratio = X8.cap(0.5) / X8.cap(0.0);
        assert!((1.2..=1.5).contains(&ratio), "one to one by reads alone {ratio}");
        assert!((Link { card: 25.2, ..X8 }.cap(0.5) - 25.2).abs() < 1e-9);
        assert!(X8.cap(1.0) <= X8.cap(0.0) + 1e-9);
        let narrow = Link { request: 64.0, card: 100.0, ..X8 };
        assert!(narrow.cap(0.4) < narrow.cap(0.3), "requests of reads take from the direction of writes");
    }

    #[test]
    fn a_tail_does_not_move_the_mean_and_has_the_published_quantiles() {
        let all: Vec<u64> = (0..1 << 20).map(|drawn| Tail::Card.per_mille(drawn)).collect();
        let mean = all.iter().sum::<u64>() as f64 / all.len() as f64;
        assert!((mean / 1_000.0 - 1.0).abs() < 0.01, "{mean}");
        let by_median =
            |part: f64| all[(part * all.len() as f64) as usize] as f64 / all[all.len() / 2] as f64;
        assert!((by_median(0.95) - 1.535).abs() < 0.01 && (by_median(0.99) - 1.92).abs() < 0.01);
        assert!(Tail::None.per_mille(1 << 19) == 1_000);
    }
}
