//! Measured curves of latency by traffic, as others write them: the CSV of the Mess benchmark, and text of Intel's Memory Latency
//! Checker (MLC).
//!
//! | text | is known by | gives |
//! |---|---|---|
//! | Mess, `memory_curves.csv` | its columns `read_pct_rounded`, `bandwidth_mean` (GB/s, or MB/s), `latency_mean` | shares |
//! | `mlc --loaded_latency` | `Inject Latency` above rows of delay, ns, MB/s | one share, which is not in the text |
//! | `mlc --max_bandwidth` | lines `ALL Reads : MB/s`, `3:1 Reads-Writes : MB/s` | greatest bandwidths, by reads to writes |
//! | `mlc --idle_latency` | `Each iteration took … ns` | a latency |
//! | points of a preset | `READS%: GB/s@ns GB/s@ns; READS%: …` | shares |
//!
//! MLC's MB/s are 10^6 bytes a second. Points where the traffic falls while latency rises lie past saturation and are dropped, and
//! so are points that repeat one; latencies that fall by noise are made level. What is refused is named with its line.

use std::fmt::Write as _;

use sim::memory::Share;

/// What was read of a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Read {
    /// The shares that it has, with points in rising order.
    pub shares: Vec<Share>,
    /// Points that were read.
    pub points: usize,
    /// Of these, points past saturation or repeated.
    pub dropped: usize,
    /// Greatest bandwidths: the part of writes, and bytes a nanosecond.
    pub greatest: Vec<(f64, f64)>,
    /// A latency without traffic, in nanoseconds.
    pub idle: Option<f64>,
}

/// Points that a share has at least.
const LEAST_POINTS: usize = 4;
/// Latencies without traffic that a server has, in nanoseconds.
const IDLE: std::ops::RangeInclusive<f64> = 40.0..=2_000.0;
/// Latency that falls by less is noise.
const NOISE: f64 = 0.02;

impl Read {
    /// Its shares, if a medium can be made of them.
    ///
    /// # Errors
    /// Why none can: one share only, too few points, a latency or traffic that no memory has.
    pub fn usable(&self) -> Result<Vec<Share>, String> {
        let percent = |share: &Share| (1.0 - share.writes) * 100.0;
        if let [only] = &self.shares[..] {
            return Err(format!(
                "not usable: it has one share of reads only ({:.0} %), which says nothing about others; give a second file",
                percent(only)
            ));
        }
        for share in &self.shares {
            if share.points.len() < LEAST_POINTS {
                let points = share.points.len();
                return Err(format!(
                    "not usable: {:.1} % reads have {points} points, and need {LEAST_POINTS}",
                    percent(share)
                ));
            }
            let idle = share.points[0].1;
            if !IDLE.contains(&idle) {
                return Err(format!(
                    "not usable: the least latency of {:.1} % reads is {idle} ns, outside of 40 to 2,000 ns: is the unit right?",
                    percent(share)
                ));
            }
        }
        if self.shares.is_empty() {
            Err("not usable: there are no points in it".to_owned())
        } else {
            Ok(self.shares.clone())
        }
    }

    /// Adds the points of a share in any order.
    fn add(&mut self, writes: f64, mut points: Vec<(f64, f64)>) {
        self.points += points.len();
        let read = points.len();
        // In the order of latency the traffic rises up to saturation.
        points.sort_by(|one, other| one.1.total_cmp(&other.1).then(one.0.total_cmp(&other.0)));
        let level = |one: f64, other: f64| (one / other - 1.0).abs() < NOISE;
        let mut kept: Vec<(f64, f64)> = Vec::new();
        for (traffic, latency) in points {
            match kept.last_mut() {
                // Nearly as quick as the last, and with less traffic: noise of a level curve.
                Some(last) if traffic <= last.0 && level(latency, last.1) => {
                    let at = kept.partition_point(|point| point.0 < traffic);
                    if kept.get(at).is_some_and(|point| point.0 > traffic) {
                        let latency = kept[at].1;
                        kept.insert(at, (traffic, latency));
                    }
                }
                Some(last) if traffic <= last.0 => {}
                _ => kept.push((traffic, latency)),
            }
        }
        self.dropped += read - kept.len();
        self.shares.push(Share { writes, points: kept });
    }
}

/// A text of any kind that this module knows. `reads` is the share in percent of a text that does not say it.
///
/// # Errors
/// The line that is wrong, and why.
pub fn of_text(text: &str, reads: Option<f64>) -> Result<Read, String> {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).ok_or("it is empty")?;
    if first.starts_with('<') {
        return Err(
            "line 1: this is HTML, a page about the file and not the file: fetch its raw text".to_owned()
        );
    }
    let has = |words: &str| text.lines().any(|line| line.to_lowercase().contains(words));
    if has("bandwidth_mean") {
        of_mess(text)
    } else if has("inject") && has("latency") {
        of_loaded(text, reads)
    } else if has("all reads") {
        of_max(text)
    } else if has("each iteration took") {
        of_idle(text)
    } else {
        let shown: String = first.chars().take(60).collect();
        Err(format!(
            "line 1: \"{shown}\" begins neither a CSV of the Mess benchmark nor text of mlc --loaded_latency, --max_bandwidth or \
             --idle_latency"
        ))
    }
}

/// A number of a line.
fn number(text: &str, line: usize, what: &str) -> Result<f64, String> {
    let parsed = text
        .trim()
        .replace(',', "")
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite() && *number >= 0.0);
    parsed.ok_or_else(|| format!("line {line}: \"{}\" is no {what}", text.trim()))
}

/// The CSV of the Mess benchmark.
///
/// # Errors
/// As [`of_text`].
pub(crate) fn of_mess(text: &str) -> Result<Read, String> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (_, head) = lines.next().ok_or("it is empty")?;
    let names: Vec<&str> = head.split(',').map(|name| name.trim().trim_matches('"')).collect();
    let column = |name: &str| {
        let found = names.iter().position(|known| *known == name);
        found.ok_or_else(|| format!("line 1: there is no column \"{name}\" among {}", names.join(", ")))
    };
    let columns = [column("read_pct_rounded")?, column("bandwidth_mean")?, column("latency_mean")?];
    let mut shares: Vec<(f64, Vec<(f64, f64)>)> = Vec::new();
    for (at, line) in lines {
        let cells: Vec<&str> = line.split(',').collect();
        if cells.len() != names.len() {
            return Err(format!(
                "line {}: {} cells of {}: the file is torn",
                at + 1,
                cells.len(),
                names.len()
            ));
        }
        let [reads, traffic, latency] =
            [0, 1, 2].map(|index| number(cells[columns[index]], at + 1, names[columns[index]]));
        let (reads, point) = (reads?, (traffic?, latency?));
        if !(0.0..=100.0).contains(&reads) {
            return Err(format!("line {}: {reads} % reads: a share is 0 to 100", at + 1));
        }
        match shares.iter_mut().find(|(known, _)| (known - reads).abs() < 1e-9) {
            Some((_, points)) => points.push(point),
            None => shares.push((reads, vec![point])),
        }
    }
    let greatest = shares.iter().flat_map(|(_, points)| points).map(|point| point.0).fold(0.0, f64::max);
    // The tool writes GB/s; MB/s are told by a traffic that no memory has.
    let unit = scale(greatest)?;
    let mut read = Read::default();
    for (reads, points) in shares {
        read.add(1.0 - reads / 100.0, points.into_iter().map(|(traffic, ns)| (traffic / unit, ns)).collect());
    }
    Ok(read)
}

/// What the greatest traffic of a file is divided by to be in GB/s.
fn scale(greatest: f64) -> Result<f64, String> {
    match greatest {
        most if (0.5..5_000.0).contains(&most) => Ok(1.0),
        most if (5_000.0..5e6).contains(&most) => Ok(1_000.0),
        most => Err(format!(
            "not usable: a greatest traffic of {most} is neither in GB/s nor in MB/s that of a memory"
        )),
    }
}

/// `mlc --loaded_latency`.
fn of_loaded(text: &str, reads: Option<f64>) -> Result<Read, String> {
    let said = text.lines().find_map(ratio_of_line);
    let reads = reads.or(said).ok_or(
        "the share of reads is not in the text of mlc --loaded_latency: give --reads (100 without -W, 67 with -W2, 50 with -W5)",
    )?;
    let mut points = Vec::new();
    let mut begun = false;
    for (at, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line.split_whitespace().collect();
        if line.contains("====") {
            begun = true;
            continue;
        }
        if !begun || cells.is_empty() || !cells[0].chars().all(|c| c.is_ascii_digit()) {
            continue;
        }
        let [_, latency, traffic] = cells[..] else {
            return Err(format!(
                "line {}: {} numbers where delay, ns and MB/s stand: the text is torn",
                at + 1,
                cells.len()
            ));
        };
        points.push((number(traffic, at + 1, "bandwidth")? / 1_000.0, number(latency, at + 1, "latency")?));
    }
    if points.is_empty() {
        return Err("not usable: there are no rows of delay, ns and MB/s below its line of ====".to_owned());
    }
    let most = points.iter().map(|point| point.0).fold(0.0, f64::max);
    if !(0.5..5_000.0).contains(&most) {
        return Err(format!(
            "not usable: a greatest bandwidth of {:.3} MB/s is no memory's: MLC prints MB/s of 10^6 bytes",
            most * 1e3
        ));
    }
    let mut read = Read::default();
    read.add(1.0 - reads / 100.0, points);
    Ok(read)
}

/// The share of reads that a line of MLC's head names.
fn ratio_of_line(line: &str) -> Option<f64> {
    let line = line.to_lowercase();
    if line.contains("read-only") || line.contains("all reads") {
        return Some(100.0);
    }
    let (_, after) = line.split_once("read:write ratio").or_else(|| line.split_once("reads:writes"))?;
    ratio(after.trim_start_matches([' ', '=', ':']))
}

/// `3:1` in percent of reads.
fn ratio(text: &str) -> Option<f64> {
    let (reads, writes) = text.split_whitespace().next()?.split_once(':')?;
    let (reads, writes): (f64, f64) = (reads.parse().ok()?, writes.trim_end_matches(',').parse().ok()?);
    (reads + writes > 0.0).then(|| reads / (reads + writes) * 100.0)
}

/// `mlc --max_bandwidth`. The ratios are of the traffic of memory: a store reads its line and writes it back.
fn of_max(text: &str) -> Result<Read, String> {
    let mut read = Read::default();
    for (at, line) in text.lines().enumerate() {
        let Some((name, value)) = line.split_once(" :").or_else(|| line.split_once("\t:")) else { continue };
        let name = name.trim().to_lowercase();
        let reads = if name.starts_with("all reads") {
            Some(100.0)
        } else {
            ratio(&name).filter(|_| name.contains("reads-writes"))
        };
        let Some(reads) = reads else { continue };
        let gb = number(value, at + 1, "bandwidth in MB/s")? / 1_000.0;
        if !(0.5..5_000.0).contains(&gb) {
            return Err(format!(
                "line {}: {} MB/s is no memory's bandwidth: MLC prints MB/s of 10^6 bytes",
                at + 1,
                value.trim()
            ));
        }
        read.greatest.push((1.0 - reads / 100.0, gb));
    }
    if read.greatest.len() < 2 {
        return Err(
            "not usable: two lines of ALL Reads and 3:1, 2:1 or 1:1 Reads-Writes of mlc --max_bandwidth \
             are needed"
                .to_owned(),
        );
    }
    Ok(read)
}

/// `mlc --idle_latency`.
fn of_idle(text: &str) -> Result<Read, String> {
    for (at, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split(|c: char| c.is_whitespace() || c == '(' || c == ')').collect();
        if let Some(unit) = words.iter().position(|word| *word == "ns").filter(|unit| *unit > 0) {
            let idle = number(words[unit - 1], at + 1, "latency")?;
            if !IDLE.contains(&idle) {
                return Err(format!(
                    "line {}: not usable: an idle latency of {idle} ns, outside of 40 to 2,000 ns",
                    at + 1
                ));
            }
            return Ok(Read { idle: Some(idle), ..Read::default() });
        }
    }
    Err("not usable: mlc --idle_latency prints a time in ns, and none is there".to_owned())
}

/// The points of a preset.
///
/// # Errors
/// What is wrong with them.
pub fn of_points(text: &str) -> Result<Vec<Share>, String> {
    let share = |part: &str| {
        let (reads, points) =
            part.split_once("%:").ok_or_else(|| format!("\"{}\" is not READS%: GB/s@ns …", part.trim()))?;
        let reads = number(reads, 1, "share of reads in percent")?;
        let point = |text: &str| {
            let (traffic, latency) =
                text.split_once('@').ok_or_else(|| format!("\"{text}\" is not GB/s@ns"))?;
            Ok::<_, String>((number(traffic, 1, "traffic")?, number(latency, 1, "latency")?))
        };
        let points = points.split_whitespace().map(point).collect::<Result<Vec<_>, _>>()?;
        Ok::<_, String>(Share { writes: 1.0 - reads / 100.0, points })
    };
    text.split(';').filter(|part| !part.trim().is_empty()).map(share).collect()
}

/// Shares as points of a preset.
pub fn to_points(shares: &[Share]) -> String {
    let mut text = String::new();
    for share in shares {
        let reads = format!("{:.3}", (1.0 - share.writes) * 100.0);
        let separator = if text.is_empty() { "" } else { "; " };
        let _ = write!(text, "{separator}{}%:", reads.trim_end_matches('0').trim_end_matches('.'));
        for (traffic, latency) in &share.points {
            let _ = write!(text, " {traffic}@{latency}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESS: &str = "read_pct_rounded,bandwidth_mean,bandwidth_sd,latency_mean\n100,10,0,100\n100,50,0,110\n100,90,0,130\n\
                        100,99,0,180\n100,95,0,260\n50,10,0,100\n50,40,0,120\n50,60,0,150\n50,70,0,190\n";

    #[test]
    fn a_curve_of_mess_is_read_by_the_names_of_its_columns_and_loses_points_past_saturation() {
        let read = of_text(MESS, None).unwrap();
        assert_eq!((read.points, read.dropped, read.shares.len()), (9, 1, 2));
        assert_eq!(read.shares[0].points.last(), Some(&(99.0, 180.0)));
        let megabytes = MESS.replace(",10,", ",10000,").replace(",99,", ",99000,").replace(",95,", ",95000,");
        let megabytes =
            megabytes.replace(",50,0", ",50000,0").replace(",90,", ",90000,").replace(",40,", ",40000,");
        let megabytes = megabytes.replace(",60,", ",60000,").replace(",70,", ",70000,");
        assert_eq!(of_text(&megabytes, None).unwrap().shares, read.shares);
        let again = of_points(&to_points(&read.shares)).unwrap();
        assert_eq!(again[0].points, read.shares[0].points);
        assert!((again[1].writes - 0.5).abs() < 1e-12);
    }

    #[test]
    fn latency_that_falls_by_noise_is_made_level() {
        let noisy = MESS.replace("100,50,0,110", "100,50,0,99.5");
        let read = of_text(&noisy, None).unwrap();
        let points = &read.shares[0].points;
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1), "{points:?}");
        assert_eq!(points.len(), 4, "{points:?}");
        assert!(sim::memory::Curve::new(read.shares).is_ok());
    }

    #[test]
    fn text_of_mlc_is_read_and_asks_for_a_share_that_it_does_not_say() {
        let loaded = "Inject\tLatency\tBandwidth\nDelay\t(ns)\tMB/sec\n==========================\n 00000\t250.10\t 230000.5\n \
                      00100\t150.00\t 180000.0\n 00500\t125.00\t  60000.0\n 20000\t116.00\t   3000.0\n";
        let why = of_text(loaded, None).unwrap_err();
        assert!(why.contains("--reads"), "{why}");
        let read = of_text(loaded, Some(100.0)).unwrap();
        assert_eq!(read.shares[0].points[0], (3.0, 116.0));
        assert_eq!(read.shares[0].points[3], (230.0005, 250.1));
        assert!(read.usable().unwrap_err().contains("one share"));
        let max =
            "ALL Reads        :\t240600.0\n3:1 Reads-Writes :\t210000.0\n1:1 Reads-Writes :\t190000.0\n";
        assert_eq!(of_text(max, None).unwrap().greatest[1], (0.25, 210.0));
        let idle = "Each iteration took 345.6 base frequency clocks (\t115.2\tns)\n";
        assert_eq!(of_text(idle, None).unwrap().idle, Some(115.2));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let mut torn = MESS.to_owned();
        torn.truncate(torn.len() - 8);
        let few =
            "read_pct_rounded,bandwidth_mean,latency_mean\n100,10,100\n100,20,101\n50,10,100\n50,20,102\n";
        let nanos = MESS.replace(",100\n", ",0.1\n").replace(",110\n", ",0.11\n");
        let max = "ALL Reads        :\t240.6\n1:1 Reads-Writes :\t190.1\n";
        let cases = [
            ("", "empty"),
            ("<!DOCTYPE html>\n<html>", "HTML"),
            (&torn, "line 10"),
            ("hello\nworld", "line 1"),
            (&MESS.replace("latency_mean", "latency"), "latency_mean"),
            (&MESS.replace("100,50,0,110", "100,fifty,0,110"), "line 3"),
            (&MESS.replace("100,50,0,110", "140,50,0,110"), "0 to 100"),
            (max, "line 1"),
        ];
        for (text, word) in cases {
            let why = of_text(text, None).unwrap_err();
            assert!(why.contains(word), "{text:?}: {why}");
        }
        assert!(of_text(few, None).unwrap().usable().unwrap_err().contains("points"));
        assert!(of_text(&nanos, None).unwrap().usable().unwrap_err().contains("is the unit right"));
    }
}
