//! Published claims: what was printed, how the measured number is computed, and whether it holds.
//!
//! A paper's file under `presets/papers/` has one `[[claim]]` for each claim, with its sentence, published value and band, the
//! plan that measures it, and the cells that its number is made of:
//!
//! ```toml
//! measure = { plan = "hinfs-8", top = { fs = "hinfs" }, bottom = { fs = "pmfs" }, over = { threads = "*" }, fold = "min" }
//! ```
//!
//! A claim about a device alone names it instead: `device = "fast24"`. One with neither is not measured, and says so.
//!
//! `fitted = "how"` marks a claim for which a preset was changed after a check, `by_construction = "why"` one whose value is a
//! constant of the code. Neither counts as reproduced.
//!
//! | module | holds |
//! |---|---|
//! | [`measure`] | the cells a number is made of, and the arithmetic |

pub mod measure;

use std::collections::BTreeMap;

use media::Medium;
use media::block::BlockModel;
use results::claim::Claim;
use results::{ClaimOutcome, Clock, ResultFile};

use crate::error::Error;
use crate::flash::fragmentation::{self, Answer};
use crate::flash::host::HostCost;
use crate::machine::MachinePreset;
use crate::plan::matrix::DEFAULT_MEDIUM;
use crate::presets::{self, PAPERS};
use crate::readings::Readings;
use document::{Problem, Table};
use measure::{Measure, Measures};

/// The machine around a device that is measured by itself.
pub const DEVICE_MACHINE: &str = "fast24-server";

/// A paper and its claims.
#[derive(Clone, Debug, PartialEq)]
pub struct Paper {
    /// The name on the command line.
    pub name: String,
    /// Title, venue, year, as claims print it.
    pub paper: String,
    /// The simulator that measures all of its claims; `None`: each has a plan or a device.
    pub subject: Option<String>,
    /// Its figures with the plans that measure them, in order; a device or nothing may measure a figure instead.
    pub figures: Vec<(String, Option<String>)>,
    /// Its claims, in order.
    pub claims: Vec<PaperClaim>,
    /// What it leaves open.
    pub readings: Readings,
}

/// A claim and how it is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperClaim {
    /// What it says of itself.
    pub claim: Claim,
    /// How the number is computed, in words.
    pub value: String,
    /// Designs that it needs beyond the paper's own.
    pub needs: Vec<String>,
    /// How the number is computed from the cells of a plan.
    pub measure: Option<Measure>,
    /// The SSD that answers it by itself, without a file system.
    pub device: Option<Device>,
    /// What is known of a miss.
    pub known: String,
    /// Why it does not count as reproduced whatever was measured: how a constant was fitted on it, or why it cannot miss.
    pub uncounted: String,
}

/// An SSD that is measured without a file system, and the machine around it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    /// A medium of flash, with parameters.
    pub ssd: String,
    /// A machine, with values of its own if need be.
    pub machine: String,
}

impl Device {
    fn answers(&self) -> Result<Vec<Answer>, Error> {
        let model = BlockModel::parse(&self.ssd).map_err(|error| Error::Setting(error.to_string()))?;
        let no_ssd = || Error::Setting(format!("{} is no SSD, so it answers no claim", self.ssd));
        let (ssd, phase) = model.ssd().ok_or_else(no_ssd)?;
        let host = HostCost::of(&MachinePreset::load(&self.machine)?.machine);
        fragmentation::answers_of_device(ssd, phase, host)
    }
}

/// What devices have answered.
pub type DeviceAnswers = BTreeMap<Device, Vec<Answer>>;

/// Results by the name of their plan.
pub type Measured = BTreeMap<String, ResultFile>;

impl Paper {
    /// Parses a paper's file; `origin` names it in messages.
    pub fn parse(origin: &str, name: &str, text: &str) -> Result<Self, Problem> {
        document::read(origin, text, |root| {
            let paper = root.need("paper", "title, venue, year")?.text()?;
            root.need("spec", "where its mechanisms are described")?.text()?;
            let subject = root.get("subject").map(|item| item.word()).transpose()?;
            let figures = match subject {
                Some(_) => Vec::new(),
                None => root.need("figure", "figures and their plans")?.items()?,
            };
            let figures = figures.iter().map(|item| item.read(figure)).collect::<Result<_, _>>()?;
            let claims = root.need("claim", "what was published")?.items()?;
            let claims = claims.iter().map(|item| item.read(|table| claim(table, &paper)));
            let claims = claims.collect::<Result<_, _>>()?;
            let readings = Readings::read(root)?;
            Ok(Self { name: name.to_owned(), claims, paper, subject, figures, readings })
        })
    }

    /// The paper called `name`.
    pub fn load(name: &str) -> Result<Self, Error> {
        let preset = presets::find(PAPERS, "paper", name)?;
        Ok(Self::parse(&format!("presets/papers/{name}.toml"), name, preset.text)?)
    }

    /// The plans of these figures (all if none is named), each once.
    pub fn plans(&self, figures: &[String]) -> Result<Vec<String>, Error> {
        let known = || self.figures.iter().map(|(figure, _)| figure.as_str());
        if let Some(name) = figures.iter().find(|name| !known().any(|figure| figure == *name)) {
            let advice = format!("{} has the figures {}", self.name, known().collect::<Vec<_>>().join(", "));
            return Err(Error::Unknown { what: "figure", name: name.clone(), advice });
        }
        let wanted = self.figures.iter().filter(|(figure, _)| figures.is_empty() || figures.contains(figure));
        let mut plans: Vec<String> = Vec::new();
        for plan in wanted.filter_map(|(_, plan)| plan.as_ref()) {
            if !plans.contains(plan) {
                plans.push(plan.clone());
            }
        }
        Ok(plans)
    }

    /// What became of every claim that a plan of `measured` belongs to.
    pub fn judge(&self, measured: &Measured) -> Vec<ClaimOutcome> {
        let others: Measures<'_> = self
            .claims
            .iter()
            .filter_map(|claim| Some((claim.claim.id.as_str(), claim.measure.as_ref()?)))
            .collect();
        let judge = |claim: &PaperClaim| {
            let measure = claim.measure.as_ref().filter(|measure| measured.contains_key(&measure.plan))?;
            let mut outcome = claim.judge((measure, &others), measured);
            outcome.fitted |= self.readings.fitted(&outcome.id);
            Some(outcome)
        };
        self.claims.iter().filter_map(judge).collect()
    }

    /// What became of every claim, by the values that a simulator measured.
    pub fn judge_values(&self, values: &[(&str, f64)], seed: u64) -> Vec<ClaimOutcome> {
        let value = |claim: &PaperClaim| values.iter().find(|(id, _)| *id == claim.claim.id);
        let outcome = |claim: &PaperClaim| match value(claim) {
            Some((_, value)) => claim.explained(claim.claim.measured(*value, seed, Clock::Virtual)),
            None => claim.claim.not_measured(
                "not measured: the simulator has no such value",
                seed,
                Clock::Virtual,
            ),
        };
        self.claims.iter().map(outcome).collect()
    }

    /// The claims of these figures (all if none is named) that no plan measures.
    fn unplanned(&self, figures: &[String]) -> impl Iterator<Item = &PaperClaim> {
        let wanted = move |figure: &String| figures.is_empty() || figures.contains(figure);
        self.claims.iter().filter(move |claim| claim.measure.is_none() && wanted(&claim.claim.figure))
    }

    /// What an SSD alone says of the claims that no plan measures; what it cannot say stays unmeasured. A device that has answered
    /// before is not measured again.
    pub fn judge_devices(
        &self,
        figures: &[String],
        answers: &mut DeviceAnswers,
    ) -> Result<Vec<ClaimOutcome>, Error> {
        for device in self.unplanned(figures).filter_map(|claim| claim.device.as_ref()) {
            if !answers.contains_key(device) {
                answers.insert(device.clone(), device.answers()?);
            }
        }
        Ok(self.unplanned(figures).map(|claim| claim.judge_device(answers)).collect())
    }
}

impl PaperClaim {
    fn judge(&self, (measure, others): (&Measure, &Measures<'_>), measured: &Measured) -> ClaimOutcome {
        let results = &measured[&measure.plan];
        let (seed, clock) = (results.seed, results.clock);
        let mut claim = self.claim.clone();
        claim.fitted |= fitted(&claim.id, &results.machine, &media(&results.plan));
        let missing = self.missing();
        if !missing.is_empty() {
            return claim.not_measured(format!("not measured: needs {}", missing.join(", ")), seed, clock);
        }
        match measure.value(results, others) {
            Err(reason) => claim.not_measured(format!("not measured: {reason}"), seed, clock),
            Ok(value) => self.explained(claim.measured(value, seed, clock)),
        }
    }

    /// With why it does not count, or what is known of a miss.
    fn explained(&self, mut outcome: ClaimOutcome) -> ClaimOutcome {
        if outcome.reason.is_none() && !self.uncounted.is_empty() {
            outcome.reason = Some(self.uncounted.clone());
        }
        if !outcome.holds && outcome.reason.is_none() && !self.known.is_empty() {
            outcome.reason = Some(self.known.clone());
        }
        outcome
    }

    /// By what the device alone says.
    fn judge_device(&self, answers: &DeviceAnswers) -> ClaimOutcome {
        let (seed, clock) = (fragmentation::SEED, Clock::Virtual);
        let missing = self.missing();
        if !missing.is_empty() {
            let reason = format!("not measured: needs {}", missing.join(", "));
            return self.claim.not_measured(reason, seed, clock);
        }
        let answers = self.device.as_ref().and_then(|device| answers.get(device));
        match answers.and_then(|answers| answers.iter().find(|answer| answer.id == self.claim.id)) {
            Some(answer) if answer.complete => self.explained(self.claim.measured(answer.value, seed, clock)),
            _ => self.claim.not_measured("not measured: no plan measures it yet", seed, clock),
        }
    }

    /// Designs that it needs and that do not exist.
    fn missing(&self) -> Vec<&str> {
        self.needs.iter().map(String::as_str).filter(|name| fs::by_name(name).is_none()).collect()
    }
}

/// Whether a value of the machine or of a medium was fitted on the claim.
fn fitted(id: &str, machine: &str, media: &[Medium]) -> bool {
    let of_machine = MachinePreset::load(machine).map_or_else(|_| Vec::new(), |preset| preset.fitted_on);
    let of_media = media.iter().flat_map(Medium::fitted_on);
    of_machine.iter().chain(of_media).any(|fitted| fitted == id)
}

/// The media that a resolved plan names.
fn media(plan: &serde_json::Value) -> Vec<Medium> {
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let axes = list(&plan["axis"]).into_iter().filter(|axis| list(&axis["sets"]).contains(&"medium".into()));
    let values = axes.flat_map(|axis| list(&axis["values"]));
    let mut names: Vec<String> =
        values.filter_map(|value| Some(value["value"].as_str()?.to_owned())).collect();
    if names.is_empty() {
        names.push(DEFAULT_MEDIUM.to_owned());
    }
    names.iter().filter_map(|name| Medium::parse(name).ok()).collect()
}

fn device(ssd: String) -> Device {
    Device { ssd, machine: DEVICE_MACHINE.to_owned() }
}

fn figure(table: &Table<'_>) -> Result<(String, Option<String>), Problem> {
    let id = table.need("id", "the figure's number")?.word()?;
    Ok((id, table.get("plan").map(|item| item.text()).transpose()?))
}

fn claim(table: &Table<'_>, paper: &str) -> Result<PaperClaim, Problem> {
    let claim = Claim {
        id: table.need("id", "stable name")?.text()?,
        paper: paper.to_owned(),
        figure: table.need("figure", "where it was published")?.text()?,
        says: table.need("says", "the statement in our words")?.text()?,
        published: table.get("published").map(|item| item.float()).transpose()?,
        low: table.need("low", "lower end of the band")?.float()?,
        high: table.need("high", "upper end of the band, or inf")?.float()?,
        fitted: table.get("fitted").is_some(),
        by_construction: table.get("by_construction").is_some(),
    };
    let text = |key| table.get(key).map_or(Ok(String::new()), |item| item.text());
    let uncounted = if claim.fitted { text("fitted")? } else { text("by_construction")? };
    Ok(PaperClaim {
        claim,
        value: table.need("value", "how it is computed, in words")?.text()?,
        needs: table.get("needs").map_or(Ok(Vec::new()), |item| item.words())?,
        measure: table.get("measure").map(|item| item.read(Measure::read)).transpose()?,
        device: table.get("device").map(|item| item.text()).transpose()?.map(device),
        known: text("known")?,
        uncounted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Axis, AxisValue, Plan};

    /// For each paper the number of its claims.
    const LISTS: [(&str, usize); 5] =
        [("fragmentation", 30), ("fxmark-designs", 8), ("hinfs", 32), ("hw-logging", 13), ("rcache", 12)];

    /// Where the lists are, in the project's own checkout.
    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/claims");

    /// What must be identical in the two lists, as one text.
    fn canonical(claims: &[PaperClaim]) -> String {
        let line = |c: &PaperClaim| {
            let PaperClaim { claim, value, needs, .. } = c;
            let (id, figure, says) = (&claim.id, &claim.figure, &claim.says);
            format!(
                "{id}|{figure}|{says}|{value}|{:?}|{}|{}|{needs:?}\n",
                claim.published, claim.low, claim.high
            )
        };
        claims.iter().map(line).collect()
    }

    #[test]
    fn the_claims_are_those_of_the_projects_list() {
        for (paper, count) in LISTS {
            let ours = canonical(&Paper::load(paper).unwrap().claims);
            if let Ok(text) = std::fs::read_to_string(format!("{FOLDER}/{paper}.toml")) {
                assert_eq!(
                    ours,
                    listed(&text),
                    "presets/papers/{paper}.toml differs from the list of claims"
                );
            } else {
                eprintln!(
                    "skipped: the comparison of {paper} with the list of claims in {FOLDER}, which is not there"
                );
            }
            assert_eq!(ours.lines().count(), count, "claims of {paper} were added or are gone");
        }
        let listed: Vec<_> = LISTS.iter().map(|(paper, ..)| *paper).collect();
        assert_eq!(PAPERS.iter().map(|preset| preset.name).collect::<Vec<_>>(), listed);
    }

    /// A text of the list as the tree has it, which knows nothing of the places that the list names in parentheses.
    fn in_tree(text: &str) -> String {
        let Some((before, place)) = text.split_once(" (specs/") else { return text.to_owned() };
        let (_, after) = place.split_once(')').expect("the parenthesis ends");
        format!("{before}{after}")
    }

    fn listed(text: &str) -> String {
        let list: toml::Table = text.parse().unwrap();
        let text = |claim: &toml::Value, key: &str| claim[key].as_str().unwrap().to_owned();
        let float = |value: &toml::Value| value.as_float().or_else(|| value.as_integer().map(|i| i as f64));
        let line = |claim: &toml::Value| {
            let published = claim.get("published").and_then(float);
            let (low, high) = (float(&claim["low"]).unwrap(), float(&claim["high"]).unwrap());
            let needs = claim.get("needs").map_or(&[][..], |needs| needs.as_array().unwrap());
            let needs: Vec<_> = needs.iter().map(|name| name.as_str().unwrap()).collect();
            let [id, figure, says, value] =
                ["id", "figure", "says", "value"].map(|key| in_tree(&text(claim, key)));
            format!("{id}|{figure}|{says}|{value}|{published:?}|{low}|{high}|{needs:?}\n")
        };
        list["claim"].as_array().unwrap().iter().map(line).collect()
    }

    #[test]
    fn every_figure_has_a_plan_and_every_claim_belongs_to_one() {
        for preset in PAPERS {
            let paper = Paper::load(preset.name).unwrap();
            for (figure, plan) in &paper.figures {
                let Some(plan) = plan else { continue };
                assert!(Plan::load(plan, false).is_ok(), "figure {figure}: plan {plan}");
            }
            for claim in &paper.claims {
                let figure = &claim.claim.figure;
                let Some(measure) = &claim.measure else {
                    assert!(
                        paper.subject.is_some() || paper.figures.iter().any(|(has, _)| has == figure),
                        "{}",
                        claim.claim.id
                    );
                    continue;
                };
                let plan = Some(&measure.plan);
                assert!(paper.figures.iter().any(|(_, has)| has.as_ref() == plan), "{}", claim.claim.id);
            }
        }
    }

    #[test]
    fn a_claim_that_a_medium_was_fitted_on_does_not_count() {
        let text = "model = \"hinfs\"\nsummary = \"mine\"\ndate = \"2020\"\nfitted_on = [\"a.claim\"]\n";
        let mine = [Medium::from_preset("mine", text).unwrap()];
        assert!(fitted("a.claim", "hinfs-server", &mine) && fitted("a.claim", "host", &mine));
        assert!(!fitted("b.claim", "hinfs-server", &mine) && !fitted("a.claim", "hinfs-server", &[]));
    }

    #[test]
    fn the_media_of_a_result_are_those_of_its_axes_whatever_their_labels() {
        let names = |axis: &[(&str, &str)]| {
            let values = axis
                .iter()
                .map(|(label, value)| AxisValue { label: (*label).to_owned(), ..AxisValue::plain(*value) });
            let mut plan = Plan::new("p");
            plan.axis.extend((!axis.is_empty()).then(|| Axis::known("medium", values)).flatten());
            media(&plan.to_json()).iter().map(|medium| medium.name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(&[("fast", "dram"), ("slow", "hinfs,latency=400ns")]), ["dram", "hinfs"]);
        assert_eq!(names(&[]), [DEFAULT_MEDIUM]);
    }

    #[test]
    fn an_unknown_figure_is_told_which_there_are() {
        let error = Paper::load("hinfs").unwrap().plans(&["12".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("7, 8, 9, 10, 11"), "{error}");
    }
}
