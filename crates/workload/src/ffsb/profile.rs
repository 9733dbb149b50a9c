//! The format: `key = value` lines in sections, which end with `[end]`; `#` begins a comment. A `[threadgroup]` within a
//! `[filesystem]` ages it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::keys::{KEYS, Place, Value};
use super::operations::{Kind, Weight};

/// A profile, checked.
#[derive(Clone, Debug, Default)]
pub(super) struct Profile {
    /// Seconds.
    pub(super) time: u64,
    pub(super) is_direct: bool,
    pub(super) is_aligned: bool,
    pub(super) file_systems: Vec<FileSystem>,
    pub(super) groups: Vec<Group>,
    /// Keys without influence, with their lines.
    pub(super) ignored: Vec<String>,
}

/// A `[filesystem]`.
#[derive(Clone, Debug)]
pub(super) struct FileSystem {
    pub(super) line: usize,
    pub(super) location: String,
    pub(super) files: u64,
    pub(super) directories: u64,
    /// Sizes with their weights; one pair of equal weights: uniform between both.
    pub(super) sizes: Sizes,
    pub(super) create_block: u64,
    pub(super) age_block: u64,
    pub(super) init_size: u64,
    /// In millionths.
    pub(super) init_share: u64,
    /// How it is aged, and up to which share.
    pub(super) ageing: Option<(Group, u64)>,
}

/// Sizes of files.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sizes {
    Uniform(u64, u64),
    Weighted(Vec<(u64, u64)>),
}

impl Sizes {
    /// The largest, and the mean.
    pub(super) fn largest_and_mean(&self) -> (u64, u64) {
        match self {
            Self::Uniform(least, most) => (*most, (least + most).div_ceil(2)),
            Self::Weighted(sizes) => {
                let weights: u64 = sizes.iter().map(|(_, weight)| weight).sum();
                let sum: u128 =
                    sizes.iter().map(|(size, weight)| u128::from(*size) * u128::from(*weight)).sum();
                let largest = sizes.iter().map(|(size, _)| *size).max().unwrap_or(0);
                (largest, (sum / u128::from(weights.max(1))) as u64)
            }
        }
    }
}

/// A `[threadgroup]`.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) line: usize,
    pub(super) bind: Option<String>,
    pub(super) threads: u64,
    pub(super) weights: Vec<Weight>,
    pub(super) read: Piece,
    pub(super) write: Piece,
    /// Bytes left out behind each block that is read.
    pub(super) skip: u64,
    pub(super) delay_ms: u64,
}

/// What is read or written of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Bytes of an operation.
    pub(super) size: u64,
    pub(super) block: u64,
    pub(super) is_random: bool,
}

/// The texts of a section's keys, each with its line.
struct Section {
    place: Place,
    line: usize,
    /// The section that it is in.
    within: Option<usize>,
    keys: BTreeMap<&'static str, (usize, String)>,
    sizes: Vec<(u64, u64)>,
    weights: Vec<Weight>,
}

struct Reader<'a> {
    vars: &'a BTreeMap<String, String>,
    used: Vec<&'a str>,
    sections: Vec<Section>,
    problems: Vec<(usize, String)>,
    ignored: Vec<String>,
}

/// Reads a profile; an error names every line that is wrong.
pub(super) fn read(name: &str, text: &str, vars: &BTreeMap<String, String>) -> Result<Profile, String> {
    let mut reader =
        Reader { vars, used: Vec::new(), sections: Vec::new(), problems: Vec::new(), ignored: Vec::new() };
    reader.lines(text);
    let profile = reader.profile();
    let unused: Vec<&String> = vars.keys().filter(|var| !reader.used.contains(&var.as_str())).collect();
    for var in unused {
        let keys: Vec<&str> =
            reader.sections.iter().flat_map(|section| section.keys.keys().copied()).collect();
        let advice = document::nearest(var, keys);
        reader.problems.push((0, format!("-D {var}: the profile does not give this key; {advice}")));
    }
    if reader.problems.is_empty() {
        return Ok(profile);
    }
    reader.problems.sort();
    let mut told = String::new();
    for (line, what) in &reader.problems {
        let place = if *line == 0 { name.to_owned() } else { format!("{name}:{line}") };
        let _ = writeln!(told, "{place}: {what}");
    }
    Err(told.trim_end().to_owned())
}

fn size(text: &str) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.trim_end_matches('b').trim_end_matches(['k', 'm', 'g', 't']);
    let shift = match lower.trim_end_matches('b').strip_prefix(digits)? {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

impl Reader<'_> {
    fn lines(&mut self, text: &str) {
        let section = |place, line, within| Section {
            place,
            line,
            within,
            keys: BTreeMap::new(),
            sizes: Vec::new(),
            weights: Vec::new(),
        };
        self.sections.push(section(Place::Global, 0, None));
        let mut open = vec![0];
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            let Some(name) = line.strip_prefix('[') else {
                let at = open.last().copied().unwrap_or(0);
                if !line.is_empty() {
                    self.key(at, number, line);
                }
                continue;
            };
            let name = name.trim_end_matches(']').trim().trim_end_matches(|c: char| c.is_ascii_digit());
            let place = match name {
                "filesystem" => Place::FileSystem,
                "threadgroup" => Place::ThreadGroup,
                "stats" => Place::Stats,
                "end" if open.len() > 1 => {
                    open.pop();
                    continue;
                }
                "end" => {
                    self.problems.push((number, "[end] without a section that it ends".to_owned()));
                    continue;
                }
                _ => {
                    let told =
                        format!("[{name}] is no section; there are filesystem, threadgroup, stats and end");
                    self.problems.push((number, told));
                    continue;
                }
            };
            let within = open.last().copied().filter(|at| *at > 0);
            open.push(self.sections.len());
            self.sections.push(section(place, number, within));
        }
        for at in open.into_iter().skip(1) {
            self.problems.push((self.sections[at].line, "the section has no [end]".to_owned()));
        }
    }

    fn key(&mut self, at: usize, line: usize, text: &str) {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name.trim(), value.trim()),
            None => text.split_once(char::is_whitespace).unwrap_or((text, "")),
        };
        let place = self.sections[at].place;
        let Some((_, key, kind)) = KEYS.iter().find(|(of, known, _)| *of == place && *known == name) else {
            let known = KEYS.iter().filter(|(of, ..)| *of == place).map(|(_, known, _)| *known);
            self.problems.push((
                line,
                format!("{name} is no key of this section; {}", document::nearest(name, known)),
            ));
            return;
        };
        let value = match self.vars.get_key_value(*key) {
            Some((var, value)) => {
                self.used.push(var);
                value.as_str()
            }
            None => value.trim(),
        };
        if let Err(told) = self.value(at, (key, *kind), line, value) {
            self.problems.push((line, format!("{key} = {value}: {told}")));
        }
    }

    fn value(
        &mut self,
        at: usize,
        key: (&'static str, Value),
        line: usize,
        text: &str,
    ) -> Result<(), String> {
        let count = |text: &str| text.parse::<u64>().map_err(|_| "expected a whole number".to_owned());
        let (name, kind) = key;
        match kind {
            Value::Ignored => self.ignored.push(format!("{name} (line {line})")),
            Value::Refused(why) if text != "0" => return Err(format!("not honoured: {why}")),
            Value::Count => drop(count(text)?),
            Value::Flag if !["0", "1"].contains(&text) => return Err("expected 0 or 1".to_owned()),
            Value::Size => drop(size(text).ok_or("expected a size, as 4k")?),
            Value::Share => drop(share(text).ok_or("expected a part from 0 to 1, as 0.25")?),
            Value::Sizes => {
                let parts = text.split_once(char::is_whitespace);
                let parts =
                    parts.and_then(|(bytes, weight)| Some((size(bytes)?, weight.trim().parse().ok()?)));
                let (bytes, weight) = parts.ok_or("expected a size and a weight, as 4k 33")?;
                if weight == 0 {
                    return Err("a size of weight 0 is never drawn: leave it out".to_owned());
                }
                self.sections[at].sizes.push((bytes, weight));
            }
            Value::Weight(kind, fsync) => {
                let weight = count(text)?;
                if weight > 0 {
                    self.sections[at].weights.push(Weight { kind, fsync, share: weight, line });
                }
            }
            Value::Flag | Value::Text | Value::Refused(_) => {}
        }
        self.sections[at].keys.insert(name, (line, text.to_owned()));
        Ok(())
    }

    /// A number of a section, or what it is when nothing is said. What is wrong was noted before.
    fn number(&self, at: usize, key: &str, usual: u64) -> u64 {
        let known = self.sections[at].keys.get(key);
        known.and_then(|(_, text)| size(text)).unwrap_or(usual)
    }

    fn text(&self, at: usize, key: &str) -> Option<String> {
        self.sections[at].keys.get(key).map(|(_, text)| text.clone())
    }

    fn line(&self, at: usize, key: &str) -> usize {
        self.sections[at].keys.get(key).map_or(self.sections[at].line, |(line, _)| *line)
    }

    fn profile(&mut self) -> Profile {
        let of = |reader: &Self, place| -> Vec<usize> {
            let found = reader.sections.iter().enumerate();
            found.filter(|(_, section)| section.place == place).map(|(at, _)| at).collect()
        };
        let (systems, groups) = (of(self, Place::FileSystem), of(self, Place::ThreadGroup));
        let mut profile = Profile {
            time: self.number(0, "time", 0),
            is_direct: self.number(0, "directio", 0) == 1,
            is_aligned: self.number(0, "alignio", 0) == 1,
            ..Profile::default()
        };
        if profile.time == 0 {
            let line = self.line(0, "time");
            self.problems.push((line, "time: the profile must say how many seconds it runs".to_owned()));
        }
        for at in &systems {
            let ageing = groups.iter().copied().find(|group| self.sections[*group].within == Some(*at));
            let file_system = self.file_system(*at, ageing);
            profile.file_systems.push(file_system);
        }
        let outer: Vec<usize> = groups.into_iter().filter(|at| self.sections[*at].within.is_none()).collect();
        for at in outer {
            let group = self.group(at);
            let is_known = |bind: &String| profile.file_systems.iter().any(|of| of.location == *bind);
            if let Some(bind) = group.bind.as_ref().filter(|bind| !is_known(bind)) {
                let told = format!("bindfs = {bind}: no [filesystem] has this location");
                let line = self.line(at, "bindfs");
                self.problems.push((line, told));
            }
            profile.groups.push(group);
        }
        for (name, is_missing) in
            [("filesystem", profile.file_systems.is_empty()), ("threadgroup", profile.groups.is_empty())]
        {
            if is_missing {
                self.problems.push((0, format!("the profile has no [{name}]")));
            }
        }
        profile.ignored = std::mem::take(&mut self.ignored);
        profile
    }

    fn file_system(&mut self, at: usize, ageing: Option<usize>) -> FileSystem {
        let (least, most) = (self.number(at, "min_filesize", 4096), self.number(at, "max_filesize", 4096));
        let most = if self.text(at, "max_filesize").is_some() { most } else { most.max(least) };
        if least > most {
            let told = format!("min_filesize = {least} is more than max_filesize = {most}");
            let line = self.line(at, "min_filesize");
            self.problems.push((line, told));
        }
        let weighted = std::mem::take(&mut self.sections[at].sizes);
        let sizes = if weighted.is_empty() {
            Sizes::Uniform(least.min(most), most)
        } else {
            Sizes::Weighted(weighted)
        };
        let ages = self.number(at, "agefs", 0) == 1;
        let desired = self.share(at, "desired_util");
        let ageing = match ageing {
            Some(group) if ages => Some((self.group(group), desired)),
            None if ages => {
                let told = "agefs = 1: the section has no [threadgroup] that ages it".to_owned();
                let line = self.line(at, "agefs");
                self.problems.push((line, told));
                None
            }
            _ => None,
        };
        if ageing.is_some() && desired == 0 {
            let line = self.line(at, "desired_util");
            self.problems.push((line, "desired_util: ageing needs a part above 0".to_owned()));
        }
        for key in ["create_blocksize", "age_blocksize"] {
            self.is_positive(at, key, 4096);
        }
        FileSystem {
            line: self.line(at, "num_files"),
            location: self.text(at, "location").unwrap_or_default(),
            files: self.number(at, "num_files", 0),
            directories: self.number(at, "num_dirs", 1).max(1),
            sizes,
            create_block: self.number(at, "create_blocksize", 4096),
            age_block: self.number(at, "age_blocksize", 4096),
            init_size: self.number(at, "init_size", 0),
            init_share: self.share(at, "init_util"),
            ageing,
        }
    }

    fn share(&self, at: usize, key: &str) -> u64 {
        self.text(at, key).and_then(|text| share(&text)).unwrap_or(0)
    }

    fn is_positive(&mut self, at: usize, key: &str, usual: u64) {
        let value = self.number(at, key, usual);
        if value == 0 || value > 1 << 30 {
            let line = self.line(at, key);
            self.problems.push((line, format!("{key} = {value}: expected 1 byte to 1g")));
        }
    }

    fn group(&mut self, at: usize) -> Group {
        let weights = std::mem::take(&mut self.sections[at].weights);
        let line = self.sections[at].line;
        if weights.is_empty() {
            self.problems
                .push((line, "the weights of all operations of this [threadgroup] are 0".to_owned()));
        }
        let threads = self.number(at, "num_threads", 1);
        if !(1..=4096).contains(&threads) {
            let line = self.line(at, "num_threads");
            self.problems.push((line, format!("num_threads = {threads}: expected 1 to 4096")));
        }
        let does = |kinds: &[Kind]| weights.iter().any(|weight| kinds.contains(&weight.kind));
        let reads = does(&[Kind::Read, Kind::ReadAll]);
        let writes = does(&[Kind::Write, Kind::WriteAll, Kind::Create, Kind::Append]);
        for (key, is_used) in [("read_blocksize", reads), ("write_blocksize", writes)] {
            if is_used {
                self.is_positive(at, key, 0);
            }
        }
        for (key, is_used) in
            [("read_size", does(&[Kind::Read])), ("write_size", does(&[Kind::Write, Kind::Append]))]
        {
            if is_used && self.number(at, key, 0) == 0 {
                let told = format!("{key}: an operation of this group needs it, and it is 0");
                let line = self.line(at, key);
                self.problems.push((line, told));
            }
        }
        let piece = |way: &str| Piece {
            size: self.number(at, &format!("{way}_size"), 0),
            block: self.number(at, &format!("{way}_blocksize"), 4096).clamp(1, 1 << 30),
            is_random: self.number(at, &format!("{way}_random"), 0) == 1,
        };
        let skips = self.number(at, "read_skip", 0) == 1;
        Group {
            line,
            bind: self.text(at, "bindfs"),
            threads,
            read: piece("read"),
            write: piece("write"),
            skip: if skips { self.number(at, "read_skipsize", 0) } else { 0 },
            delay_ms: self.number(at, "op_delay", 0),
            weights,
        }
    }
}

/// A part in millionths.
fn share(text: &str) -> Option<u64> {
    let part: f64 = text.trim().parse().ok()?;
    (0.0..=1.0).contains(&part).then_some((part * 1e6) as u64)
}
