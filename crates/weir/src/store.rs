//! Where results lie: the user's data folder, a folder for each run.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use report::{Format, Report};
use results::{FileError, ResultFile};

use crate::failure::{Exit, Failure};

/// The user's data folder: `$XDG_DATA_HOME/weir`.
pub(crate) fn data() -> Result<PathBuf, Failure> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = set("XDG_DATA_HOME").or_else(|| Some(set("HOME")?.join(".local/share")));
    let advice = "neither XDG_DATA_HOME nor HOME is set: set one, results are kept there";
    Ok(data.ok_or_else(|| Failure::new(Exit::Host, advice))?.join("weir"))
}

/// Where runs are kept.
pub(crate) fn runs() -> Result<PathBuf, Failure> {
    Ok(data()?.join("runs"))
}

/// A new folder for a run: date, name, seed, and a number when there is one already.
pub(crate) fn new_folder(name: &str, seed: u64) -> Result<PathBuf, Failure> {
    let runs = runs()?;
    let stem = format!("{}-{name}-{seed}", date(now()));
    let taken = |path: &PathBuf| path.exists();
    let numbered = (1..).map(|number| match number {
        1 => runs.join(&stem),
        number => runs.join(format!("{stem}.{number}")),
    });
    let path = numbered.into_iter().find(|path| !taken(path)).expect("numbers do not end");
    std::fs::create_dir_all(&path).map_err(|error| Failure::io("make the folder", &path, &error))?;
    Ok(path)
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The date in UTC of a time in seconds since 1970: `2026-01-31`.
pub(crate) fn date(seconds: u64) -> String {
    let (year, month, day) = civil((seconds / 86_400).cast_signed());
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day of a number of days since 1970 (proleptic Gregorian; H. Hinnant's algorithm).
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted_month + 2) / 5 + 1)
}

/// Reads the results of a file, of a folder, of a mount as it is now, or of the run with that name in the data folder: at least
/// one.
pub(crate) fn read(name: &str) -> Result<Vec<ResultFile>, Failure> {
    if let Some(result) = of_mount(Path::new(name)) {
        return Ok(vec![result]);
    }
    let runs = runs()?;
    let mut empty = None;
    for path in [PathBuf::from(name), runs.join(name)].into_iter().filter(|path| path.exists()) {
        let results = if path.is_dir() { read_folder(&path)? } else { ResultFile::read_all(&path)? };
        if !results.is_empty() {
            return Ok(results);
        }
        empty.get_or_insert(path);
    }
    let advice = "give a result.json, the folder of a run, or a name from";
    Err(Failure::usage(match empty {
        Some(path) if path.is_dir() => {
            format!("the folder {name} is there, but holds no result: {advice} {}", runs.display())
        }
        Some(_) => {
            format!("the file {name} is a list of results, but holds none: {advice} {}", runs.display())
        }
        None => format!("there is no result {name}: {advice} {}", runs.display()),
    }))
}

/// What a mounted file system of ours has done so far; none where the directory is something else.
fn of_mount(dir: &Path) -> Option<ResultFile> {
    let mut text = vec![0; fuse::RESULT_BYTES_MAX];
    let len = rustix::fs::getxattr(dir, fuse::RESULT_XATTR, &mut text).ok()?;
    serde_json::from_slice(&text[..len]).ok()
}

/// The results that lie in a folder, each once, in the order in which they ran. JSON files of other schemas are passed over.
fn read_folder(folder: &Path) -> Result<Vec<ResultFile>, Failure> {
    let only = folder.join("result.json");
    if only.is_file() {
        return Ok(ResultFile::read_all(only)?);
    }
    let entries = std::fs::read_dir(folder).map_err(|error| Failure::io("read", folder, &error))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.is_file() && path.extension().is_some_and(|end| end == "json"));
    paths.sort();
    let mut results: Vec<ResultFile> = Vec::new();
    for path in paths {
        match ResultFile::read_all(&path) {
            Err(FileError::Schema { .. }) => {}
            Err(error) => return Err(error.into()),
            // A report in the same folder holds the same results again.
            Ok(read) => read.into_iter().for_each(|result| {
                if !results.contains(&result) {
                    results.push(result);
                }
            }),
        }
    }
    results.sort_by_cached_key(place);
    Ok(results)
}

/// Where a result stands among those of its folder: by name, with numbers by value, and the virtual clock before the real one.
fn place(result: &ResultFile) -> (Vec<(String, Option<u64>)>, results::Clock) {
    let clock = format!("-{}", result.clock);
    let name = result.name.strip_suffix(&clock).unwrap_or(&result.name);
    let mut parts = vec![(String::new(), None)];
    for c in name.chars() {
        let (text, number) = parts.last_mut().expect("there is always a part");
        match (c.to_digit(10), *number) {
            (Some(digit), so_far) => {
                *number = Some(so_far.unwrap_or(0_u64).saturating_mul(10).saturating_add(digit.into()));
            }
            (None, None) => text.push(c),
            (None, Some(_)) => parts.push((c.to_string(), None)),
        }
    }
    (parts, result.clock)
}

/// The folder of all runs, made if it is not there: a run that could not be kept is better not begun.
pub(crate) fn prepare() -> Result<(), Failure> {
    let runs = runs()?;
    std::fs::create_dir_all(&runs).map_err(|error| {
        let failure = Failure::io("make the folder", &runs, &error);
        Failure::new(failure.exit, failure.message + "; name another with XDG_DATA_HOME")
    })
}

/// The format that a file's name ends in.
pub(crate) fn format_of(path: &Path) -> Result<&'static dyn Format, Failure> {
    let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
    let format = report::FORMATS.iter().copied().find(|format| format.extension() == extension);
    format.ok_or_else(|| {
        let known: Vec<_> = report::FORMATS.iter().map(|format| format!(".{}", format.extension())).collect();
        Failure::usage(format!("{}: the name must end in one of {}", path.display(), known.join(" ")))
    })
}

/// Writes a report in the format that the file's name ends in.
pub(crate) fn write_report(report: &Report, path: &Path) -> Result<(), Failure> {
    let text = format_of(path)?.render(report)?;
    results::file::write_atomic(path, &text).map_err(Failure::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::Clock::{Real, Virtual};
    use results::ResultsFile;

    #[test]
    fn results_of_a_folder_stand_in_the_order_in_which_they_ran() {
        let folder = tempfile::tempdir().unwrap();
        let ran = [
            ("fig-7", Virtual),
            ("fig-8", Virtual),
            ("fig-10", Virtual),
            ("x-virtual", Virtual),
            ("x-real", Real),
        ];
        let ran = ran.map(|(name, clock)| ResultFile::new(name, serde_json::Value::Null, 1, clock));
        for result in &ran {
            result.write(folder.path().join(format!("{}.json", result.name))).unwrap();
        }
        std::fs::write(folder.path().join("other.json"), r#"{"schema":"else/1"}"#).unwrap();
        let report = ResultsFile::new(ran.to_vec()).to_json();
        std::fs::write(folder.path().join("report.json"), report).unwrap();
        assert_eq!(read_folder(folder.path()).unwrap(), ran);
    }

    #[test]
    fn days_are_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(20_454), (2026, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
    }
}
