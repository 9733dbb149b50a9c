//! Where results lie: the user's data folder, a folder for each run.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use lab::environment;
use report::{Format, Report};
use results::{FileError, ResultFile};
use rustix::io::Errno;

use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::{bundle, mounted};

/// The name that stands for the last run, where nothing else is called so. No baseline can be.
pub(crate) const LATEST: &str = "latest";

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

/// Where results lie that have been given a name.
pub(crate) fn baselines() -> Result<PathBuf, Failure> {
    Ok(data()?.join("baselines"))
}

/// The folder of the run that was made last.
pub(crate) fn latest() -> Result<PathBuf, Failure> {
    let runs = runs()?;
    let entries = std::fs::read_dir(&runs).into_iter().flatten().flatten();
    let dated = entries.filter_map(|entry| {
        let made = entry.metadata().and_then(|data| data.modified()).ok()?;
        entry.path().is_dir().then(|| (made, entry.path()))
    });
    let latest = dated.max().map(|(_, path)| path);
    latest.ok_or_else(|| Failure::usage(format!("there is no run in {} yet: name a result", runs.display())))
}

/// A new folder for a run: date and time in UTC, name, and a number when there is one already.
pub(crate) fn new_folder(name: &str) -> Result<PathBuf, Failure> {
    new_folder_in(&runs()?, name)
}

/// The same, in another folder.
pub(crate) fn new_folder_in(runs: &Path, name: &str) -> Result<PathBuf, Failure> {
    let when = environment::utc(now()).replace(' ', "-").replace(':', "");
    let stem = format!("{when}-{name}");
    std::fs::create_dir_all(runs).map_err(|error| Failure::io("make the folder", runs, &error))?;
    for number in 1_u64.. {
        let ending = if number == 1 { String::new() } else { format!("-{number:03}") };
        let path = runs.join(format!("{stem}{ending}"));
        match std::fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            // Another run of this minute has it.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Failure::io("make the folder", &path, &error)),
        }
    }
    unreachable!("numbers do not end")
}

/// The names of kept runs and of the newest one.
pub(crate) fn names() -> Vec<String> {
    let folders = runs().ok().and_then(|runs| std::fs::read_dir(runs).ok()).into_iter().flatten().flatten();
    let mut names: Vec<String> = folders.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names.push(LATEST.to_owned());
    names
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    environment::seconds_since_1970()
}

/// The date in UTC of a time in seconds since 1970: `2026-01-31`.
pub(crate) fn date(seconds: u64) -> String {
    let text = environment::utc(seconds);
    text.split(' ').next().unwrap_or(&text).to_owned()
}

/// Reads the results of a file, a bundle, a folder, a mount as it is now, a baseline, or the run with that name in the data
/// folder: at least one.
pub(crate) fn read(name: &str) -> Result<Vec<ResultFile>, Failure> {
    if let Some(result) = of_mount(Path::new(name))? {
        return Ok(vec![result]);
    }
    let (runs, baselines) = (runs()?, baselines()?);
    let mut empty = None;
    let last = if name == LATEST { latest().ok() } else { None };
    let places = [Some(PathBuf::from(name)), Some(baselines.join(name)), Some(runs.join(name)), last];
    for path in places.into_iter().flatten().filter(|path| path.exists()) {
        let results = match &path {
            folder if folder.is_dir() => read_folder(folder)?,
            file if bundle::is_one(file) => bundle::read(file)?,
            file => ResultFile::read_all(file)?,
        };
        if !results.is_empty() {
            return Ok(results);
        }
        empty.get_or_insert(path);
    }
    let advice = "give a result.json, the folder of a run, or a name from";
    Err(Failure::usage(match empty {
        Some(path) if path.is_dir() => {
            format!("the folder {name} holds no result: {advice} {}", runs.display())
        }
        Some(_) => {
            format!("the file {name} is an empty list of results: {advice} {}", runs.display())
        }
        None => format!("there is no result {name}: {advice} {}", runs.display()),
    }))
}

/// What a mounted file system of ours has done so far; none where the directory is something else.
fn of_mount(dir: &Path) -> Result<Option<ResultFile>, Failure> {
    match fuse::result_of(dir) {
        Ok(text) => {
            let result = serde_json::from_slice::<ResultFile>(&text).ok();
            let dir = mounted::absolute(dir)?;
            Ok(result.map(|result| ResultFile { plan: serde_json::json!({ "mount": dir }), ..result }))
        }
        Err(errno @ (Errno::ACCESS | Errno::NOTCONN)) => {
            let Ok(mounted) = mounted::ours(&mounted::absolute(dir)?, "") else { return Ok(None) };
            let (dir, why) = (dir.display(), mounted.why_silent(errno));
            Err(Failure::new(Exit::Run, format!("cannot read what the mount on {dir} has done: {why}")))
        }
        Err(_) => Ok(None),
    }
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
    let made = std::fs::create_dir_all(&runs).and_then(|()| try_writing(&runs));
    made.map_err(|error| {
        let failure = Failure::io("make the folder", &runs, &error);
        Failure::new(failure.exit, failure.message + "; name another with XDG_DATA_HOME")
    })
}

/// Makes a folder for images before a run, and checks that they can be written there.
pub(crate) fn prepare_images(folder: &Path) -> Result<(), Failure> {
    let made = std::fs::create_dir_all(folder).and_then(|()| try_writing(folder));
    made.map_err(|error| Failure::io("keep images (--save-image) in the folder", folder, &error))
}

/// Makes a file in the folder and removes it: what comes after a long run can be written.
fn try_writing(folder: &Path) -> std::io::Result<()> {
    let probe = folder.join(format!(".weir-{}.tmp", std::process::id()));
    // On a full disk the file is there, too, only empty.
    let written = std::fs::write(&probe, "weir");
    let removed = std::fs::remove_file(&probe);
    written.and(removed)
}

/// Checks before a run that a report can be written: its ending, its folder, and that it is no folder itself.
pub(crate) fn check_report(path: &Path) -> Result<(), Failure> {
    format_of(path)?;
    check_file(path)
}

/// Checks that a file can be written.
pub(crate) fn check_file(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        return Err(Failure::usage(format!("{}: is a folder: name a file", path.display())));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !parent.is_dir() {
        let (path, parent) = (path.display(), parent.display());
        return Err(Failure::usage(format!("{path}: there is no folder {parent}: make it, or name another")));
    }
    try_writing(parent).map_err(|error| Failure::io("write into the folder", parent, &error))
}

/// The format that a file's name ends in.
pub(crate) fn format_of(path: &Path) -> Result<&'static dyn Format, Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is =
        |format: &&dyn Format| name.strip_suffix(format.extension()).is_some_and(|rest| rest.ends_with('.'));
    if let Some(instead) = report::format::replacement(&name) {
        return Err(Failure::usage(format!("{}: {instead}", path.display())));
    }
    let format = report::FORMATS.iter().copied().find(is).ok_or_else(|| {
        let known: Vec<_> = report::FORMATS.iter().map(|format| format!(".{}", format.extension())).collect();
        Failure::usage(format!("{}: the name must end in one of {}", path.display(), known.join(" ")))
    })?;
    match format.left_out() {
        Some(why) => Err(Failure::usage(format!("{}: {why}", path.display()))),
        None => Ok(format),
    }
}

/// Writes one table in the format of tables called `format`.
pub(crate) fn write_table(table: &report::grains::Grain, format: &str, path: &Path) -> Result<(), Failure> {
    let bytes = report::format::table(table, format).expect("a format of tables")?;
    results::file::write_atomic(path, bytes).map_err(Failure::from)
}

/// Writes a report in the format that the file's name ends in. Beside a page lie its results, which the commands on it run
/// again; they replace those of the page that was there before, and no other file.
pub(crate) fn write_report(report: &Report, path: &Path, output: &Output) -> Result<(), Failure> {
    let format = format_of(path)?;
    if format.name() != PAGE {
        return write_as(report, format, path, output);
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let named = Report { page: Some(stem), ..report.clone() };
    let replaces = path.exists();
    write_as(&named, format, path, output)?;
    for section in &named.sections {
        let file = path.with_file_name(named.file_of(&section.results));
        // What another program has written, or the result itself, keeps its name.
        match ResultFile::read_all(&file) {
            Ok(there) if there == [section.results.clone()] => {}
            Ok(_) if replaces => section.results.write(&file)?,
            _ if file.exists() => {
                let (page, file) = (path.display(), file.display());
                output.note(&format!("{page}: {file} is another file, so the result is not beside the page"));
            }
            _ => section.results.write(&file)?,
        }
    }
    Ok(())
}

/// The name of the format of pages.
const PAGE: &str = "html";

/// Writes a report in a format, and tells what of it has no place there.
pub(crate) fn write_as(
    report: &Report,
    format: &dyn Format,
    path: &Path,
    output: &Output,
) -> Result<(), Failure> {
    let bytes = format.bytes(report)?;
    if let Some(skipped) = format.skips(report) {
        output.note(&format!("{}: {skipped}", path.display()));
    }
    results::file::write_atomic(path, bytes).map_err(Failure::from)
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
}
