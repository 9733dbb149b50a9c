//! All claims under the default and under each variant of it, and the class of each claim.
//!
//! A *variant* is the default with one reading replaced, or two ([`super::readings::PAIRS`]), or one ablation. A claim is *robust*
//! when it holds under the default and every variant, *sensitive* when under some, *missed* when under none.
//!
//! Runs that two variants share are made once: what a scheme or a workload does not read (the fence of software logging under
//! `fwb`, the share of gets under `hash`) is left out of the comparison.

use std::collections::BTreeMap;

use super::readings::{Alternative, PAIRS, READINGS, Reading};
use super::{Arithmetic, Crashes, Matrix, Scale, machine, run_all};
use crate::error::Error;
use crate::machine::Machine;
use crate::run::Config;

/// Schemes that the claims name.
const NAMED: [&str; 8] =
    ["non-pers", "unsafe-undo", "unsafe-redo", "undo-clwb", "redo-clwb", "undoredo-clwb", "hwl", "fwb"];
/// Those of the claims that are ratios.
const RATIOS: [&str; 3] = ["undo-clwb", "redo-clwb", "fwb"];
/// Crashes after which a mutant counts as not caught, under a variant. The rarest, a head that ignores open transactions, was
/// found after 60,000.
const PATIENCE: u64 = 100_000;

/// The default with something replaced.
#[derive(Clone, Debug)]
pub struct Variant {
    /// What is replaced: a reading, an ablation, two readings joined by "+"; "default".
    pub what: String,
    /// By what.
    pub by: String,
    /// Keys of the machine.
    pub sets: Vec<(&'static str, &'static str)>,
    /// Another machine.
    pub machine: Option<&'static str>,
    /// The arithmetic.
    pub arithmetic: Arithmetic,
    /// Whether it takes long.
    pub long: bool,
}

/// Values of claims by id.
type Values = Vec<(&'static str, f64)>;

/// A variant's claims.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The variant.
    pub variant: Variant,
    /// Value of each claim; `None`: the variant cannot be simulated, and why.
    pub values: Result<Values, Error>,
}

impl Variant {
    fn default_readings() -> Self {
        Self {
            what: "default".to_owned(),
            by: "default".to_owned(),
            sets: Vec::new(),
            machine: None,
            arithmetic: Arithmetic::DEFAULT,
            long: false,
        }
    }

    fn of(what: &str, other: &Alternative) -> Self {
        Self {
            what: what.to_owned(),
            by: other.name.to_owned(),
            sets: other.sets.to_vec(),
            machine: other.machine,
            arithmetic: other.arithmetic,
            long: other.long,
        }
    }

    /// Two readings at once: the keys of both, and the arithmetic of the one that has another.
    fn pair(readings: &[(&str, &str)]) -> Self {
        let joined =
            |side: fn(&(&str, &str)) -> String| readings.iter().map(side).collect::<Vec<_>>().join("+");
        let (what, by) = (joined(|pair| pair.0.to_owned()), joined(|pair| pair.1.to_owned()));
        let mut variant = Self { what, by, ..Self::default_readings() };
        for (reading, name) in readings {
            let reading = READINGS.iter().find(|known| known.name == *reading);
            let mut others = reading.into_iter().flat_map(|reading| reading.others);
            let other = others.find(|other| other.name == *name).expect("a pair names readings");
            variant.sets.extend(other.sets);
            if other.arithmetic != Arithmetic::DEFAULT {
                variant.arithmetic = other.arithmetic;
            }
        }
        variant
    }
}

/// The default, and each reading and pair.
pub fn readings(quick: bool) -> Vec<Variant> {
    let pairs = PAIRS.iter().map(|(_, readings)| Variant::pair(readings));
    of(READINGS).into_iter().chain(pairs).filter(|variant| !(quick && variant.long)).collect()
}

/// The default, and each alternative of a list.
pub fn of(list: &[Reading]) -> Vec<Variant> {
    let others = list.iter().flat_map(|reading| reading.others.iter().map(|o| Variant::of(reading.name, o)));
    std::iter::once(Variant::default_readings()).chain(others).collect()
}

/// The runs of all variants, each once.
#[derive(Debug)]
pub struct Campaign {
    variants: Vec<Variant>,
    machines: Vec<Result<Machine, Error>>,
    /// Only the claims that are ratios.
    ratios: bool,
    scale: Scale,
    seed: u64,
    configs: Vec<Config>,
    place: BTreeMap<String, usize>,
}

impl Campaign {
    /// What these variants need for every claim, or for those that are `ratios`.
    ///
    /// # Errors
    /// [`Error`] for a name that is not there.
    pub fn new(variants: Vec<Variant>, ratios: bool, scale: Scale, seed: u64) -> Result<Self, Error> {
        let machines: Vec<_> =
            variants.iter().map(|variant| machine(scale, variant.machine, &variant.sets)).collect();
        let mut campaign =
            Self { variants, machines, ratios, scale, seed, configs: Vec::new(), place: BTreeMap::new() };
        for machine in campaign.machines.iter().flatten() {
            for (_, config) in Matrix::points(machine, scale, seed, campaign.schemes()) {
                let next = campaign.configs.len();
                if *campaign.place.entry(config.essence()?).or_insert(next) == next {
                    campaign.configs.push(config);
                }
            }
        }
        Ok(campaign)
    }

    fn schemes(&self) -> &'static [&'static str] {
        if self.ratios { &RATIOS } else { &NAMED }
    }

    /// How many runs and crash campaigns there are.
    pub fn size(&self) -> u64 {
        (self.configs.len() + self.variants.len()) as u64
    }

    /// Simulates all, `jobs` side by side, and computes every claim under every variant. A variant with a run that fails is not
    /// measured, and the others are.
    pub fn measure(&self, jobs: usize, done: &(dyn Fn() + Sync)) -> Vec<Measured> {
        let outcomes = run_all(&self.configs, jobs, done);
        let mut crashes: BTreeMap<Vec<(&str, &str)>, Result<Values, Error>> = BTreeMap::new();
        let mut measured = Vec::new();
        for (variant, machine) in self.variants.iter().zip(&self.machines) {
            let values = machine.clone().and_then(|machine| {
                let points = Matrix::points(&machine, self.scale, self.seed, self.schemes()).into_iter();
                let runs = points.map(|point| {
                    let outcome = outcomes[self.place[&point.1.essence()?]].clone()?;
                    Ok((point, outcome))
                });
                let matrix = Matrix::collect(runs.collect::<Result<Vec<_>, Error>>()?.into_iter());
                if self.ratios {
                    return Ok(matrix.ratios(variant.arithmetic));
                }
                let crashed =
                    crashes.entry(variant.sets.clone()).or_insert_with(|| self.crash(&variant.sets));
                let mut values = matrix.claims(variant.arithmetic);
                values.extend(crashed.clone()?);
                Ok(values)
            });
            measured.push(Measured { variant: variant.clone(), values });
            done();
        }
        measured
    }

    /// The crash campaigns on the small machine, with those of the keys that keep it small.
    fn crash(&self, sets: &[(&str, &str)]) -> Result<Values, Error> {
        const SIZES: [&str; 8] =
            ["log_size", "footprint", "l2_size", "value", "warmup", "fwb_period", "row", "row_buffers"];
        let sets: Vec<_> = sets.iter().copied().filter(|(key, _)| !SIZES.contains(key)).collect();
        Ok(Crashes::explore(self.scale.crashes, PATIENCE, self.seed, &sets)?.claims())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_names_readings_and_changes_something() {
        for (why, readings) in PAIRS {
            let pair = Variant::pair(readings);
            assert!(!pair.sets.is_empty(), "{why}");
        }
    }
}
