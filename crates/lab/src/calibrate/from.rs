//! A medium, or the memory of a machine, from curves that another tool measured (`weir calibrate --from`).
//!
//! Files are those that [`media::nvmm::curve`] reads: a CSV of the Mess benchmark, or text of Intel's Memory Latency Checker, one
//! share of reads a file. Curves become a medium `curve` with their points. Greatest bandwidths with an idle latency, which are no
//! curve, become a `ddr` whose shape is that of other servers.
//!
//! How good a curve is between the shares that were measured is told by leaving one out: its points are predicted from the other
//! shares, and its greatest traffic is given. Beside these errors stand those of a memory without load (the idle latency), and of
//! one queue a channel with constant service (M/D/1).

use media::Medium;
use media::nvmm::curve::{self, Read};
use sim::memory::{Curve, Ddr, Law, Share};

use crate::error::Error;

/// Errors of predicted latencies, as parts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Errors {
    /// Points that were predicted.
    pub points: usize,
    /// Their mean.
    pub mean: f64,
    /// The greatest.
    pub most: f64,
}

/// What was left out, and how the rest predicts it.
#[derive(Clone, Debug, PartialEq)]
pub struct LeftOut {
    /// `100 % reads`, or `each point`.
    pub what: String,
    /// By the model.
    pub model: Errors,
    /// By the idle latency.
    pub idle: Errors,
    /// By a queue.
    pub queue: Errors,
}

/// What was made of files.
#[derive(Clone, Debug)]
pub struct Made {
    /// The medium.
    pub medium: Medium,
    /// The same as `[memory.model]` of a machine; none of a `ddr` without constants of its own.
    pub table: Option<String>,
    /// Points that were read, and of these dropped.
    pub points: (usize, usize),
    /// Greatest traffic by percent of reads, in GB/s.
    pub greatest: Vec<(f64, f64)>,
    /// Latency without traffic, in nanoseconds.
    pub idle: f64,
    /// Errors by what was left out.
    pub left_out: Vec<LeftOut>,
}

/// What a `ddr` is told of the data sheet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sheet {
    /// Channels of memory.
    pub channels: Option<u64>,
    /// Millions of transfers a second.
    pub rate: Option<u64>,
}

/// Reads files, each a name and its text, and makes a medium called `name`. `reads` are the shares in percent of the files that do
/// not say theirs, in order.
///
/// # Errors
/// The file and the line that is wrong, or why no medium can be made.
pub fn make(name: &str, files: &[(String, String)], reads: &[f64], sheet: Sheet) -> Result<Made, Error> {
    let mut all = Read::default();
    let mut shares = reads.iter().copied();
    for (file, text) in files {
        let wrong = |what: String| Error::Setting(format!("{file}: {what}"));
        let read = match curve::of_text(text, None) {
            Err(why) if why.contains("--reads") => match shares.next() {
                Some(share) => curve::of_text(text, Some(share)).map_err(wrong)?,
                None => return Err(wrong(why)),
            },
            read => read.map_err(wrong)?,
        };
        all.points += read.points;
        all.dropped += read.dropped;
        all.shares.extend(read.shares);
        all.greatest.extend(read.greatest);
        all.idle = all.idle.or(read.idle);
    }
    if shares.next().is_some() {
        return Err(Error::Setting(
            "--reads names more shares than there are files that do not say theirs".to_owned(),
        ));
    }
    let names: Vec<&str> = files.iter().map(|(file, _)| file.as_str()).collect();
    let source = format!("[M] weir calibrate --from {}", names.join(", "));
    let refused = |what: String| Error::Setting(format!("{}: {what}", names.join(", ")));
    match (all.shares.is_empty(), all.greatest.is_empty()) {
        (false, _) => of_curves(name, &all, &source).map_err(refused),
        (true, false) => of_greatest(name, &all, sheet, &source).map_err(refused),
        (true, true) => Err(refused("not usable: an idle latency alone says nothing about load".to_owned())),
    }
}

/// A medium of a model, with what is known of its errors.
fn preset(
    (model, name, summary): (&str, &str, &str),
    errors: &str,
    parameters: &[String],
) -> Result<Medium, String> {
    let head = format!(
        "model = {model:?}\nsummary = {summary:?}\ndate = \"that of its files\"\nfitted_on = []\nerrors = {errors:?}\n\n\
         [parameters]\n"
    );
    Medium::from_preset(&format!("{name}.toml"), &(head + &parameters.join("\n") + "\n"))
        .map_err(|error| error.to_string())
}

/// The errors of what was left out, in words.
fn in_words(left_out: &[LeftOut]) -> String {
    let one = |LeftOut { what, model, idle, queue }: &LeftOut| {
        let parts = [model.mean, model.most, idle.mean, queue.mean].map(|part| part * 100.0);
        let [mean, most, idle, queue] = parts;
        format!(
            "{what} left out: mean {mean:.1} %, most {most:.1} %, beside {idle:.1} % of an idle latency and {queue:.1} % of a queue"
        )
    };
    let known: Vec<String> = left_out.iter().map(one).chain(["not validated: all else".to_owned()]).collect();
    known.join("; ")
}

fn of_curves(name: &str, read: &Read, source: &str) -> Result<Made, String> {
    let shares = read.usable()?;
    let curve = Curve::new(shares.clone())?;
    let points = format!("{{ value = {:?}, source = {source:?} }}", curve::to_points(curve.shares()));
    let idle = shares.iter().map(|share| share.points[0].1).fold(f64::INFINITY, f64::min);
    let mut left_out: Vec<LeftOut> = Vec::new();
    if shares.len() > 2 {
        left_out.extend((0..shares.len()).filter_map(|out| without_share(&shares, out, idle)));
    }
    left_out.extend(without_points(&shares, idle));
    let head = ("curve", name, "memory of a socket by its measured curve");
    let errors = in_words(&left_out);
    let medium = preset(head, &errors, &[format!("points = {points}")])?;
    let table = format!(
        "[memory.model]\npoints = {}\nerrors = {{ text = {errors:?}, source = {source:?} }}\n",
        points.replacen("value", "text", 1)
    );
    Ok(Made {
        medium,
        table: Some(table),
        points: (read.points, read.dropped),
        greatest: shares.iter().map(|share| (percent(share.writes), most(share))).collect(),
        idle,
        left_out,
    })
}

fn percent(writes: f64) -> f64 {
    ((1.0 - writes) * 100_000.0).round() / 1_000.0
}

fn most(share: &Share) -> f64 {
    share.points.last().map_or(0.0, |point| point.0)
}

/// The points of a share by the other shares, at the same part of its own greatest traffic.
fn without_share(shares: &[Share], out: usize, idle: f64) -> Option<LeftOut> {
    let rest: Vec<Share> =
        shares.iter().enumerate().filter(|(at, _)| *at != out).map(|(_, share)| share.clone()).collect();
    let law = Law::Curve(Curve::new(rest).ok()?);
    let share = &shares[out];
    let scale = law.greatest(share.writes) / most(share);
    Some(LeftOut {
        what: format!("{} % reads", percent(share.writes)),
        model: errors(&share.points[1..], |traffic| law.latency(traffic * scale, share.writes)),
        idle: errors(&share.points[1..], |_| idle),
        queue: errors(&share.points[1..], |traffic| queue(idle, traffic, most(share))),
    })
}

/// Each point between others of its share by these.
fn without_points(shares: &[Share], idle: f64) -> Option<LeftOut> {
    let mut all: Vec<((f64, f64), [f64; 3])> = Vec::new();
    for share in shares {
        for at in 1..share.points.len().saturating_sub(1) {
            let mut rest = share.clone();
            let point = rest.points.remove(at);
            let law = Law::Curve(Curve::new(vec![rest]).ok()?);
            let found = [law.latency(point.0, share.writes), idle, queue(idle, point.0, most(share))];
            all.push((point, found));
        }
    }
    let of = |index: usize| {
        let parts: Vec<f64> = all.iter().map(|(point, found)| (found[index] / point.1 - 1.0).abs()).collect();
        summed(&parts)
    };
    (!all.is_empty()).then(|| LeftOut {
        what: "each point".to_owned(),
        model: of(0),
        idle: of(1),
        queue: of(2),
    })
}

fn errors(points: &[(f64, f64)], latency: impl Fn(f64) -> f64) -> Errors {
    summed(
        &points
            .iter()
            .map(|(traffic, measured)| (latency(*traffic) / measured - 1.0).abs())
            .collect::<Vec<_>>(),
    )
}

fn summed(parts: &[f64]) -> Errors {
    Errors {
        points: parts.len(),
        mean: parts.iter().sum::<f64>() / parts.len().max(1) as f64,
        most: parts.iter().copied().fold(0.0, f64::max),
    }
}

/// Idle and the wait of a queue with constant service, eight channels wide.
fn queue(idle: f64, traffic: f64, most: f64) -> f64 {
    let busy = (traffic / most).min(0.99);
    idle + busy / (2.0 * (1.0 - busy)) * 64.0 / (most / 8.0)
}

fn of_greatest(name: &str, read: &Read, sheet: Sheet, source: &str) -> Result<Made, String> {
    let idle = read.idle.ok_or(
        "not usable: greatest bandwidths need a latency: give the text of mlc --idle_latency as well",
    )?;
    let (Some(channels), Some(rate)) = (sheet.channels, sheet.rate) else {
        return Err(
            "not usable: greatest bandwidths make a formula, which needs --channels and --rate of the memory"
                .to_owned(),
        );
    };
    let mut greatest = read.greatest.clone();
    greatest.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (first, last) = (greatest[0], greatest[greatest.len() - 1]);
    let value = |key: &str, value: String, source: &str| {
        format!("{key} = {{ value = {value:?}, source = {source:?} }}")
    };
    let known = |(writes, gb): (f64, f64)| format!("{}MB/s@{}", (gb * 1e3).round(), percent(writes));
    let sheet_of = "[I] given with --channels and --rate";
    let parameters = [
        value("channels", channels.to_string(), sheet_of),
        value("rate", rate.to_string(), sheet_of),
        value("idle", format!("{idle}ns"), source),
        value("max_reads", known(first), source),
        value("max_mixed", known(last), source),
    ];
    let law = Ddr {
        known: Some([first, last]),
        ..Ddr::of_data_sheet(channels as f64 * rate as f64 * 8.0 / 1e3, idle)
    };
    let between = greatest.get(1..greatest.len() - 1).unwrap_or_default();
    let left_out = between.iter().map(|(writes, gb)| LeftOut {
        what: format!("greatest at {} % reads", percent(*writes)),
        model: summed(&[(law.greatest(*writes) / gb - 1.0).abs()]),
        idle: summed(&[(first.1 / gb - 1.0).abs()]),
        queue: summed(&[(first.1 / gb - 1.0).abs()]),
    });
    let left_out: Vec<LeftOut> = left_out.collect();
    let head = ("ddr", name, "memory of a socket by its greatest bandwidths, in the shape of other servers");
    let medium = preset(head, &in_words(&left_out), &parameters)?;
    medium.build().map_err(|error| error.to_string())?;
    Ok(Made {
        medium,
        table: None,
        points: (greatest.len() + 1, 0),
        left_out,
        greatest: greatest.into_iter().map(|(writes, gb)| (percent(writes), gb)).collect(),
        idle,
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn mess(shares: &[(f64, f64)]) -> String {
        let law = |writes: f64| Ddr { k: 0.9, ..Ddr::of_data_sheet(200.0, 100.0 + writes) };
        let mut text = "read_pct_rounded,bandwidth_mean,latency_mean\n".to_owned();
        for (reads, jitter) in shares {
            let writes = 1.0 - reads / 100.0;
            for step in 0..10 {
                let traffic = law(writes).greatest(writes) * f64::from(step) / 9.0 * jitter;
                let latency = Law::Ddr(law(writes)).latency(traffic, writes);
                writeln!(text, "{reads},{traffic:.4},{latency:.4}").unwrap();
            }
        }
        text
    }

    fn made(text: String) -> Result<Made, Error> {
        make("mine", &[("curves.csv".to_owned(), text)], &[], Sheet::default())
    }

    #[test]
    fn a_curve_that_goes_in_comes_out_and_tells_what_it_is_worth() {
        let made = made(mess(&[(100.0, 1.0), (75.0, 1.0), (50.0, 1.0)])).unwrap();
        assert_eq!((made.points, made.greatest.len()), ((30, 0), 3));
        let again = Medium::from_preset("mine.toml", &made.medium.to_toml()).unwrap();
        let model = again.build().unwrap();
        let law = &model.memory().expect("a memory").model().law;
        for (writes, part) in [(0.0, 0.3), (0.25, 0.6), (0.5, 0.9)] {
            let truth = Ddr { k: 0.9, ..Ddr::of_data_sheet(200.0, 100.0 + writes) };
            let traffic = truth.greatest(writes) * part;
            let (found, expected) = (law.latency(traffic, writes), Law::Ddr(truth).latency(traffic, writes));
            assert!((found / expected - 1.0).abs() < 0.02, "{writes} {part}: {found}, {expected}");
        }
        let middle = made.left_out.iter().find(|one| one.what == "75 % reads").expect("it was left out");
        assert!(middle.model.mean < 0.05 && middle.idle.mean > 0.1, "{middle:?}");
        assert!(made.table.expect("a table").contains("[memory.model]"));
    }

    #[test]
    fn shares_that_are_exchanged_predict_worse() {
        let right = mess(&[(100.0, 1.0), (75.0, 1.0), (50.0, 1.0)]);
        let exchanged = right.replace("\n100,", "\nX,").replace("\n75,", "\n100,").replace("\nX,", "\n75,");
        let mean = |text: String| {
            let made = made(text).unwrap();
            made.left_out
                .iter()
                .filter(|one| one.what.contains("reads"))
                .map(|one| one.model.mean)
                .sum::<f64>()
        };
        assert!(mean(exchanged) > mean(right));
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_file_and_reason() {
        let cases = [
            (String::new(), "empty"),
            ("<html>".to_owned(), "HTML"),
            (mess(&[(100.0, 1.0)]), "one share"),
            (mess(&[(100.0, 0.001), (50.0, 0.001)]), "greatest traffic"),
        ];
        for (text, word) in cases {
            let why = made(text).unwrap_err().to_string();
            assert!(why.contains("curves.csv") && why.contains(word), "{why}");
        }
        let max =
            "ALL Reads        :\t240600.0\n2:1 Reads-Writes :\t196200.0\n1:1 Reads-Writes :\t190000.0\n";
        let idle = "Each iteration took 345.6 base frequency clocks (\t115.2\tns)\n";
        let both = [("max.txt".to_owned(), max.to_owned()), ("idle.txt".to_owned(), idle.to_owned())];
        assert!(make("m", &both, &[], Sheet::default()).unwrap_err().to_string().contains("--channels"));
        let sheet = Sheet { channels: Some(8), rate: Some(4_800) };
        let made = make("m", &both, &[], sheet).unwrap();
        assert_eq!((made.left_out.len(), made.idle), (1, 115.2));
        assert!(make("m", &both[..1], &[], sheet).unwrap_err().to_string().contains("idle_latency"));
        let small = Sheet { channels: Some(1), rate: Some(4_800) };
        assert!(make("m", &both, &[], small).unwrap_err().to_string().contains("does not fit"));
    }
}
