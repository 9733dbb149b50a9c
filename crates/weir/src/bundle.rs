//! Bundles: one archive (gzip of tar) that holds results with all that is needed to read them and to run them again.
//!
//! ```text
//! weir-NAME/README              what this is, how to read it, how to run it again
//! weir-NAME/result.json         the results, with plan, inputs and the facts about the host; results.json where there are several
//! weir-NAME/report.html         the page
//! weir-NAME/samples.csv         a row for each sample and operation
//! weir-NAME/inputs/KIND/FILE    scripts, machine and media as files, for people; `weir run --like` takes them from the result
//! ```
//!
//! The same results make the same bytes. Every command that reads results reads a bundle, and also a compressed result that is in
//! no archive (`.json.gz`).

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use report::Report;
use results::{ResultFile, ResultsFile};

use crate::failure::{Exit, Failure};
use crate::inputs;

/// A result of this size was not written by a run.
const MOST_BYTES: u64 = 4 << 30;
/// The first bytes of a file in gzip's format (RFC 1952).
const MAGIC: [u8; 2] = [0x1f, 0x8b];
/// The file of the results, by how many there are.
const ONE: &str = "result.json";
const SEVERAL: &str = "results.json";

/// Whether the file may be a bundle.
pub(crate) fn is_one(path: &Path) -> bool {
    let mut start = [0; MAGIC.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == MAGIC
}

/// Writes a bundle whole or not at all.
pub(crate) fn write(report: &Report, path: &Path) -> Result<(), Failure> {
    let files = files(report)?;
    let folder = format!("weir-{}", folder_name(report));
    let fill = |file: &mut File| {
        let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::default()));
        for (name, bytes) in &files {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, format!("{folder}/{name}"), &bytes[..])?;
        }
        archive.into_inner()?.finish()?.flush()
    };
    results::file::replace(path, fill).map_err(|error| Failure::io("write", path, &error))
}

fn folder_name(report: &Report) -> String {
    let name = report.sections.first().map_or("", |section| section.results.name.as_str());
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' }).collect()
}

fn files(report: &Report) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let results: Vec<&ResultFile> = report.sections.iter().map(|section| &section.results).collect();
    let data = match &results[..] {
        [only] => (ONE.to_owned(), only.to_json().into_bytes()),
        several => (SEVERAL.to_owned(), ResultsFile::new(several.to_vec()).to_json().into_bytes()),
    };
    let mut files = vec![("README".to_owned(), readme(&results).into_bytes()), data];
    for (format, name) in [("html", "report.html"), ("csv", "samples.csv")] {
        let format = report::by_name(format).expect("it is built in");
        files.push((name.to_owned(), format.bytes(report)?));
    }
    for input in results.iter().flat_map(|result| &result.inputs) {
        let name = format!("inputs/{}/{}", input.kind, inputs::file_name(input));
        if files.iter().all(|(known, _)| *known != name) {
            files.push((name, input.text.clone().into_bytes()));
        }
    }
    Ok(files)
}

fn readme(results: &[&ResultFile]) -> String {
    let mut text = "Results of Weir, with the plan, the scripts, the machine and the media that they came from.\n\n\
                    report.html   read it in a browser\n\
                    samples.csv   every sample; column names contain the units\n\
                    inputs/       the texts that the plan names\n\n\
                    With Weir, on this file as it is: weir report BUNDLE, weir compare BUNDLE OTHER, weir run --like BUNDLE.\n\n"
        .to_owned();
    for result in results {
        let environment = &result.environment;
        let commit = environment.commit.as_deref().map_or_else(String::new, |commit| format!(" ({commit})"));
        let when = environment.started_utc.as_deref().unwrap_or("an unknown date");
        let _ = writeln!(
            text,
            "{}: {} clock, seed {}, machine {}; Weir {}{commit}, {when} UTC\n  {}",
            result.name, result.clock, result.seed, result.machine, environment.weir_version, result.command
        );
    }
    text
}

/// The results in a bundle.
pub(crate) fn read(path: &Path) -> Result<Vec<ResultFile>, Failure> {
    let wrong = |what: &str| {
        let advice = "give an archive that `weir report --bundle` wrote";
        Failure::new(Exit::Usage, format!("{}: {what}: {advice}", path.display()))
    };
    let file = File::open(path).map_err(|error| Failure::io("read", path, &error))?;
    let text = result_text(file).map_err(|error| wrong(&format!("is no bundle ({error})")))?;
    let text = text.ok_or_else(|| wrong("it contains no result"))?;
    Ok(ResultFile::parse_all(path, &text)?)
}

/// The text of the first member that is called as results are; all of it where it is no archive but JSON.
fn result_text(file: File) -> io::Result<Option<Vec<u8>>> {
    let mut unpacked = BufReader::new(GzDecoder::new(file));
    if unpacked.fill_buf()?.starts_with(b"{") {
        return whole(unpacked).map(Some);
    }
    let mut archive = tar::Archive::new(unpacked);
    for member in archive.entries()? {
        let member = member?;
        let name = member.path()?.file_name().map(|name| name.to_string_lossy().into_owned());
        if name.is_some_and(|name| name == ONE || name == SEVERAL) {
            return whole(member).map(Some);
        }
    }
    Ok(None)
}

fn whole(from: impl Read) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    from.take(MOST_BYTES).read_to_end(&mut text)?;
    Ok(text)
}
