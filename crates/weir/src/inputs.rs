//! The texts that a plan names: scripts, the machine, media. A result keeps them ([`of`]), so that its plan can be run where
//! they are not, or where this name means something else ([`restore`]).
//!
//! What is code (a design, a benchmark of FxMark, a model of a block device) has no text; the result names the version of Weir.

use std::path::{Path, PathBuf};

use lab::plan::{AxisValue, Target};
use lab::{MachinePreset, Plan};
use media::Medium;
use media::flash::SsdModel;
use results::{InputKind, InputRecord};
use workload::suite;

use crate::failure::Failure;
use crate::store;

/// The texts that `plan` names, as they are now. What cannot be read is left out: the run tells it.
pub(crate) fn of(plan: &Plan) -> Vec<InputRecord> {
    let workloads = plan.workload.iter().map(|workload| (InputKind::Workload, workload.name.clone()));
    let machine = (plan.clock == sim::Clock::Virtual).then(|| (InputKind::Machine, base(&plan.machine)));
    let media = if plan.is_of_processors() { Vec::new() } else { media_of(plan) };
    let media = media.into_iter().map(|name| (InputKind::Medium, name));
    let mut inputs: Vec<InputRecord> = Vec::new();
    for (kind, name) in workloads.chain(machine).chain(media) {
        if inputs.iter().any(|known| (known.kind, &known.name) == (kind, &name)) {
            continue;
        }
        if let Some(text) = text(kind, &name) {
            inputs.push(InputRecord { kind, name, text });
        }
    }
    inputs
}

/// Makes `plan` take the texts of `inputs`: where a name means another text here, or nothing, it is replaced by a file with the
/// text in `folder`. Returns what was replaced.
pub(crate) fn restore(
    plan: &mut Plan,
    inputs: &[InputRecord],
    folder: &Path,
) -> Result<Vec<String>, Failure> {
    let mut replaced = Vec::new();
    for input in inputs {
        if text(input.kind, &input.name).is_some_and(|text| is_same(&text, &input.text)) {
            continue;
        }
        let path = unpack(input, folder)?;
        put(plan, input, &path.to_string_lossy());
        replaced.push(format!("{} {}", input.kind, input.name));
    }
    Ok(replaced)
}

/// Whether two texts say the same: the medium of a machine is one that the plan has already, or that it had before machines had
/// one.
fn is_same(one: &str, other: &str) -> bool {
    let decisive = |text: &str| {
        text.lines().filter(|line| !line.starts_with("medium = {")).map(str::to_owned).collect::<Vec<_>>()
    };
    decisive(one) == decisive(other)
}

/// The name without values that are set after it.
fn base(name: &str) -> String {
    name.split(',').next().unwrap_or(name).to_owned()
}

/// The media that the plan's cells may be on, without values that are set after the name.
fn media_of(plan: &Plan) -> Vec<String> {
    let axes = plan.axis.iter().filter(|axis| axis.sets.contains(&Target::Medium));
    let named: Vec<String> = axes.flat_map(|axis| &axis.values).map(|value| base(&value.value)).collect();
    if named.is_empty() { vec![base(plan.usual_medium())] } else { named }
}

/// The text of that name here; none where there is none.
fn text(kind: InputKind, name: &str) -> Option<String> {
    match kind {
        InputKind::Machine => match MachinePreset::load(name) {
            Ok(preset) => Some(preset.to_toml()),
            // The file of a processor.
            Err(_) => archsim::Machine::load(name).ok().and_then(|_| std::fs::read_to_string(name).ok()),
        },
        InputKind::Medium if SsdModel::is_file(name) => std::fs::read_to_string(name).ok(),
        InputKind::Medium => Medium::parse(name).ok().map(|medium| medium.to_toml()),
        InputKind::Workload => match suite::find(name) {
            Some((suite, entry)) => suite.extension().and_then(|_| suite.describe(entry.name)),
            None => lab::named::text(name).ok(),
        },
    }
}

/// The folder of texts that come from results.
pub(crate) fn folder() -> Result<PathBuf, Failure> {
    Ok(store::data()?.join("inputs"))
}

/// Writes every text into a folder, whence [`restore`] takes it.
pub(crate) fn unpack_all<'i>(
    inputs: impl IntoIterator<Item = &'i InputRecord>,
    folder: &Path,
) -> Result<(), Failure> {
    inputs.into_iter().try_for_each(|input| unpack(input, folder).map(drop))
}

/// Writes the text into the folder, under a name that is its own, unless it is there.
fn unpack(input: &InputRecord, folder: &Path) -> Result<PathBuf, Failure> {
    let folder = folder.join(format!("{:016x}", digest(&input.text)));
    let path = folder.join(file_name(input));
    if std::fs::read_to_string(&path).is_ok_and(|text| text == input.text) {
        return Ok(path);
    }
    std::fs::create_dir_all(&folder).map_err(|error| Failure::io("make the folder", &folder, &error))?;
    results::file::write_atomic(&path, &input.text)?;
    Ok(path)
}

/// The name of a file that holds the text, with the ending by which it is known.
pub(crate) fn file_name(input: &InputRecord) -> String {
    let name = Path::new(&input.name).file_name().unwrap_or_default().to_string_lossy();
    let ending = match input.kind {
        InputKind::Machine | InputKind::Medium => "toml",
        InputKind::Workload => {
            suite::find(&input.name).and_then(|(suite, _)| suite.extension()).unwrap_or_default()
        }
    };
    let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).collect();
    if ending.is_empty() || name.ends_with(&format!(".{ending}")) { name } else { format!("{name}.{ending}") }
}

/// FNV-1a: tells texts apart in the names of folders, where a clash would only mean that one is written over.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Puts `path` in the place of the input's name. Results go on calling it by that name.
fn put(plan: &mut Plan, input: &InputRecord, path: &str) {
    match input.kind {
        InputKind::Machine => plan.machine = plan.machine.replacen(&input.name, path, 1),
        InputKind::Workload => {
            for workload in plan.workload.iter_mut().filter(|workload| workload.name == input.name) {
                workload.label.get_or_insert_with(|| input.name.clone());
                path.clone_into(&mut workload.name);
            }
        }
        InputKind::Medium => {
            let mut named = false;
            for axis in plan.axis.iter_mut().filter(|axis| axis.sets.contains(&Target::Medium)) {
                named = true;
                for value in axis.values.iter_mut().filter(|value| base(&value.value) == input.name) {
                    value.value = value.value.replacen(&input.name, path, 1);
                }
            }
            if !named {
                let value = AxisValue { value: path.to_owned(), ..AxisValue::plain(&input.name) };
                plan.axis.extend(lab::plan::Axis::known("medium", [value]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_keeps_the_texts_that_it_names_each_once() {
        let plan = Plan::load("quick", false).unwrap();
        let inputs = of(&plan);
        let kinds = |kind| inputs.iter().filter(|input| input.kind == kind).count();
        assert_eq!(kinds(InputKind::Machine), 1);
        assert!(kinds(InputKind::Medium) >= 1 && kinds(InputKind::Workload) >= 1);
        assert!(inputs.iter().all(|input| !input.text.is_empty()));
        let mut same = plan.clone();
        assert_eq!(restore(&mut same, &inputs, Path::new("nowhere")).unwrap(), [""; 0]);
        assert_eq!(same, plan, "texts that are the same here change nothing");
    }
}
