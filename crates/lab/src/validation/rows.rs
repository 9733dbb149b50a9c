//! Files of rows: a published value each, and the command that repeats it.
//!
//! ```toml
//! [before]                  # optional: which commit gave the values `before` of the rows
//! commit = "651e0d0d641b"
//! [[row]]
//! id = "opt.lat.read.seq"   # unique
//! class = "media"
//! source = "…"              # and hardware, software, what, size, threads, uncertainty, preset, group
//! published = 169.4
//! unit = "ns"
//! better = "low"            # high; bound
//! design = "nova"           # optional
//! command = "lattester optane.100 seq read 64 1 0"
//! compare = "yes"           # band 0.30: …; sign: …; bound; claim: …; no: …
//! before = 169.3            # optional; also note, claim
//!
//! [[curve]]                 # what the model predicts where nothing was published: a row `ID.N` for each number of threads
//! id = "opt.thr.100x6.read"
//! unit = "GiB/s"            # also class, what, size, preset, group
//! threads = [1, 2, 4]
//! command = "lattester optane.100x6 seq read 256 THREADS 1"
//! ```
//!
//! A file that cannot be read as TOML, or a row without an id, is an error with its place. What else is wrong with a row leaves the
//! row out, and says why. Other keys of a row are ignored and told; `weir_COMMIT = VALUE` is `before` with its commit.

use std::collections::BTreeSet;
use std::path::Path;

use results::validation::{Better, Compared, LeftOut, Row};

use crate::error::{Error, read_to_string};
use crate::presets::VALIDATION;
use document::{Item, Problem, Table};

/// What was read of some files.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// The rows in the order of the files.
    pub rows: Vec<Row>,
    /// What a user should know: files without rows, keys that are not known.
    pub notes: Vec<String>,
}

/// How the key of a value begins that ends with the commit which gave it.
const OF_COMMIT: &str = "weir_";

impl Rows {
    /// The rows of `presets/validation`, all of which are there to calibrate with.
    pub fn calibration() -> Result<Self, Error> {
        let mut all = Self::default();
        for file in VALIDATION.iter().filter(|file| file.name.split('.').next_back() == Some("toml")) {
            all.add(&format!("presets/validation/{}", file.name), file.text)?;
        }
        // The machines beside them have none.
        all.notes.clear();
        all.mark(&|_| true);
        Ok(all)
    }

    /// The rows of these files. Those that are also in `presets/validation` count as rows to calibrate with.
    pub fn load(paths: &[impl AsRef<Path>]) -> Result<Self, Error> {
        let mut all = Self::default();
        for path in paths.iter().map(AsRef::as_ref) {
            let advice = "`weir validate` takes files of rows, as presets/validation/optane.toml";
            all.add(&path.display().to_string(), &read_to_string(path, "file of rows", advice)?)?;
        }
        let known: BTreeSet<String> = Self::calibration()?.rows.into_iter().map(|row| row.id).collect();
        all.mark(&|row| known.contains(&row.id));
        Ok(all)
    }

    /// Adds the rows of a file; `origin` names it in messages.
    pub fn add(&mut self, origin: &str, text: &str) -> Result<(), Problem> {
        let (rows, unknown) = document::read(origin, text, file)?;
        if rows.is_empty() {
            self.notes.push(format!("{origin}: there are no rows in it"));
        }
        if !unknown.is_empty() {
            let keys = unknown.into_iter().collect::<Vec<_>>().join(", ");
            self.notes.push(format!("{origin}: keys that are not known are ignored: {keys}"));
        }
        for mut row in rows {
            if self.rows.iter().any(|other| other.id == row.id) {
                let why = format!("{origin} has a second row of this id: give each row one of its own");
                row.left_out = Some(LeftOut::new("row", why));
            }
            self.rows.push(row);
        }
        Ok(())
    }

    fn mark(&mut self, is_calibration: &dyn Fn(&Row) -> bool) {
        for row in &mut self.rows {
            row.calibration = is_calibration(row);
        }
    }
}

/// The rows of a file, and keys that are not known. A file of something else, as a machine, has none.
fn file(root: &Table<'_>) -> Result<(Vec<Row>, BTreeSet<String>), Problem> {
    let mut unknown = BTreeSet::new();
    let mut read = Vec::new();
    if let Some(curves) = root.get("curve") {
        for item in curves.items()? {
            read.extend(item.read(curve)?);
        }
    }
    let Some(rows) = root.get("row") else {
        root.take_rest();
        return Ok((read, unknown));
    };
    let commit = match root.get("before") {
        Some(before) => {
            Some(before.read(|table| table.need("commit", "which commit gave `before`")?.text())?)
        }
        None => None,
    };
    for item in rows.items()? {
        let mut row = item.read(|table| row(table, &mut unknown))?;
        if row.before.is_some() && row.before_commit.is_none() {
            row.before_commit.clone_from(&commit);
        }
        read.push(row);
    }
    Ok((read, unknown))
}

/// The rows of a curve without published values.
fn curve(table: &Table<'_>) -> Result<Vec<Row>, Problem> {
    let text = |key: &'static str| table.get(key).map(|item| item.word()).transpose();
    let id = table.need("id", "a name of its own")?.text()?;
    let command = table.need("command", "what measures a point, with THREADS in it")?.text()?;
    let threads = table.need("threads", "a list of numbers of threads")?;
    let words = |key| Ok::<_, Problem>(text(key)?.unwrap_or_default());
    let like = Row {
        unit: table.need("unit", "what the numbers count")?.text()?,
        class: words("class")?,
        what: words("what")?,
        size: words("size")?,
        preset: words("preset")?,
        group: text("group")?.unwrap_or_else(|| id.clone()),
        better: Better::High,
        compare: "predicted".to_owned(),
        compared: Compared::Predicted,
        ..Row::default()
    };
    let numbers = threads.items()?.iter().map(Item::number).collect::<Result<Vec<u64>, _>>()?;
    let point = |threads: u64| Row {
        id: format!("{id}.{threads}"),
        command: command.replace("THREADS", &threads.to_string()),
        threads,
        ..like.clone()
    };
    Ok(numbers.into_iter().map(point).collect())
}

fn row(table: &Table<'_>, unknown: &mut BTreeSet<String>) -> Result<Row, Problem> {
    let mut row = Row { id: table.need("id", "a name of its own")?.text()?, ..Row::default() };
    if let Err(problem) = fill(table, &mut row) {
        row.left_out = Some(LeftOut::new("row", problem.to_string()));
    }
    for (key, item) in table.take_rest() {
        match key.strip_prefix(OF_COMMIT) {
            Some(commit) => {
                row.before = item.float().ok();
                row.before_commit = Some(commit.to_owned());
            }
            None => _ = unknown.insert(key),
        }
    }
    if row.left_out.is_none() && !(row.published > 0.0 && row.published.is_finite()) {
        let why = format!("the published value is {}: an error needs one above 0", row.published);
        row.left_out = Some(LeftOut::new("published", why));
    }
    Ok(row)
}

/// Every key but the id.
fn fill(table: &Table<'_>, row: &mut Row) -> Result<(), Problem> {
    let optional = |key: &'static str| table.get(key).map(|item| item.word()).transpose();
    let text = |key: &'static str| Ok::<_, Problem>(optional(key)?.unwrap_or_default());
    // All keys are asked for first, so that a row with one that is wrong has no unknown keys besides.
    let (design, note, claim) = (table.get("design"), table.get("note"), table.get("claim"));
    let (before, threads, compare) = (table.get("before"), table.get("threads"), table.get("compare"));
    let (better, published, unit) = (table.get("better"), table.get("published"), table.get("unit"));
    (row.class, row.source, row.hardware) = (text("class")?, text("source")?, text("hardware")?);
    (row.software, row.what, row.size) = (text("software")?, text("what")?, text("size")?);
    (row.uncertainty, row.preset) = (text("uncertainty")?, text("preset")?);
    (row.group, row.command) = (text("group")?, text("command")?);
    let words = |item: Option<Item<'_>>| item.map(|item| item.text()).transpose();
    (row.design, row.note, row.claim) = (words(design)?, words(note)?, words(claim)?);
    row.before = before.map(|item| item.float()).transpose()?;
    row.threads = threads.map_or(Ok(1), |item| item.number())?;
    let missing = |key: &str| table.problem(format!("a row needs \"{key}\""));
    row.unit = unit.ok_or_else(|| missing("unit"))?.text()?;
    row.published = published.ok_or_else(|| missing("published"))?.float()?;
    let better = better.ok_or_else(|| missing("better"))?;
    row.better = better.one_of(&[("low", Better::Low), ("high", Better::High), ("bound", Better::Bound)])?;
    let compare = compare.ok_or_else(|| missing("compare"))?;
    row.compare = compare.text()?;
    (row.compared, row.band) = compared(&row.compare).map_err(|message| compare.problem(message))?;
    Ok(())
}

/// What the words of `compare` mean: the kind before the colon, a band with its width.
fn compared(words: &str) -> Result<(Compared, Option<f64>), String> {
    let kind = words.split_once(':').map_or(words, |(kind, _)| kind).trim();
    if let Some(width) = kind.strip_prefix("band") {
        let width = width.trim().parse().ok().filter(|width| (0.0..10.0).contains(width) && *width > 0.0);
        let width = width.ok_or_else(|| format!("\"{words}\": a band has a width, as in \"band 0.30\""))?;
        return Ok((Compared::Band, Some(width)));
    }
    let compared = match kind {
        "yes" => Compared::Yes,
        "sign" => Compared::Sign,
        "bound" | "upper bound" => Compared::Bound,
        "claim" => Compared::Claim,
        "no" => Compared::No,
        _ => return Err(format!("\"{words}\" is none of yes, band, sign, bound, claim, no")),
    };
    Ok((compared, None))
}
