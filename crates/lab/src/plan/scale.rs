//! How large an experiment is: as published, or a part of that.
//!
//! A tenth is what a plan says under `[quick]`. A hundredth is a tenth of that: of files, buffers, regions and times, with the
//! same threads, sizes of files and of I/O. It shows which way a change goes, and its values are not to be quoted: a run is so
//! short that what is done once in five or thirty seconds is not done.

use design::OptionKind;
use sim::{Bytes, Nanos};

use super::{Axis, AxisValue, Plan, Target, WarmUp};
use crate::error::Error;
use crate::named::file_counts;

/// What is said of a run at a hundredth, whatever its plan says of a tenth.
const HUNDREDTH: &str = "Scaled down (--scale hundredth): a hundredth of the published data set, buffer and time; \
                         it shows which way a change goes, and its values are not to be quoted.";

/// The part of the published size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// As published.
    #[default]
    Full,
    /// As `[quick]` says.
    Tenth,
    /// A tenth of that.
    Hundredth,
}

impl Scale {
    /// The word for people and results.
    pub fn word(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Tenth => "tenth",
            Self::Hundredth => "hundredth",
        }
    }

    /// The plan called `name`, with its note, at this scale but for what [`Scale::shrink`] does.
    pub fn load(self, name: &str) -> Result<Plan, Error> {
        let mut plan = Plan::load(name, self != Self::Full)?;
        if self == Self::Hundredth {
            plan.note = Some(HUNDREDTH.to_owned());
        }
        Ok(plan)
    }

    /// Makes a plan that `[quick]` has made a tenth, with what a reading changes in it, as small as the scale says.
    pub fn shrink(self, plan: &mut Plan) {
        if self != Self::Hundredth {
            return;
        }
        plan.stop = plan.stop.shorter(10);
        if let WarmUp::For(time) = plan.warm_up {
            plan.warm_up = WarmUp::For(Nanos(time.0 / 10));
        }
        plan.region = plan.region.map(tenth);
        for workload in &mut plan.workload {
            workload.stop = workload.stop.map(|stop| stop.shorter(10));
            workload.region = workload.region.map(tenth);
            for count in file_counts(&workload.name) {
                workload.vars.entry((*count).to_owned()).and_modify(number);
            }
        }
        plan.fs.iter_mut().filter(|(name, _)| is_cache(name)).for_each(|(_, value)| size(value));
        plan.axis.iter_mut().for_each(shrink_axis);
    }
}

fn shrink_axis(axis: &mut Axis) {
    let sets_cache = axis.sets.iter().any(|target| matches!(target, Target::Option(name) if is_cache(name)));
    for AxisValue { value, options, .. } in &mut axis.values {
        options.iter_mut().filter(|(name, _)| is_cache(name)).for_each(|(_, value)| size(value));
        if sets_cache {
            size(value);
        }
    }
}

/// Whether an option, perhaps with its design before a dot, is a size of memory that holds data.
fn is_cache(option: &str) -> bool {
    let name = option.rsplit('.').next().unwrap_or(option);
    let mut specs = fs::FILE_SYSTEMS.iter().flat_map(|design| design.options());
    specs.any(|spec| spec.name == name && spec.kind == OptionKind::Cache)
}

fn tenth(bytes: Bytes) -> Bytes {
    Bytes(bytes.0 / 10)
}

/// A tenth of a size; what is no size stays.
fn size(text: &mut String) {
    if let Ok(bytes) = text.parse::<Bytes>() {
        *text = tenth(bytes).0.to_string();
    }
}

/// A tenth of a number; what is no number stays.
fn number(text: &mut String) {
    if let Ok(count) = text.parse::<u64>() {
        *text = (count / 10).max(1).to_string();
    }
}

#[cfg(test)]
mod tests {
    use super::super::Stop;
    use super::*;

    #[test]
    fn a_hundredth_has_a_tenth_of_the_files_buffers_and_times_of_a_tenth() {
        let mut plan = Scale::Hundredth.load("hinfs-10").unwrap();
        Scale::Hundredth.shrink(&mut plan);
        assert_eq!(plan.stop, Stop::After(Nanos::from_millis(300)));
        let count = file_counts(&plan.workload[0].name)[0];
        assert_eq!(plan.workload[0].vars[count], "409");
        let sized = plan.axis.iter().find(|axis| axis.values.iter().any(|one| one.label == "0.1")).unwrap();
        let values: Vec<_> =
            sized.values.iter().map(|one| (one.label.as_str(), one.value.as_str())).collect();
        assert_eq!(values[0], ("0.1", "5347737"));
        assert!(plan.cells().is_ok());
        assert!(plan.note.is_some_and(|note| note.contains("a hundredth") && !note.contains("a tenth")));
        let (mut tenth, whole) =
            (Scale::Tenth.load("hinfs-7").unwrap(), Scale::Tenth.load("hinfs-7").unwrap());
        Scale::Tenth.shrink(&mut tenth);
        assert_eq!(tenth, whole);
    }
}
