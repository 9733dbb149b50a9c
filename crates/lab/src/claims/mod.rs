//! Published claims: what was printed, how the measured number is computed, and whether it holds.
//!
//! A paper's file under `presets/papers/` has one `[[claim]]` for each claim, with its sentence, published value and band, the
//! plan that measures it, and the cells that its number is made of:
//!
//! ```toml
//! measure = { plan = "hinfs-8", top = { fs = "hinfs" }, bottom = { fs = "pmfs" }, over = { threads = "*" }, fold = "min" }
//! ```
//!
//! `origin` says where a claim comes from ([`Origin`]); without it the paper prints it. One of `origin = "construction"`, whose
//! value is a constant of the code, says in `constant` why. `fitted = "how"` marks a claim for which a preset was changed after a
//! check. Neither counts as reproduced. `provided = { says, measure, low, high }` is a second number without which the
//! sentence is false although its first one lies in the band. `needs` names what a claim is about beyond the paper's own subject:
//! designs, schemes of logging, suites, media, counts; a name that none of these tables has is an error. `input = "generated"`
//! marks a claim on recorded input whose place something made up takes: it does not count as reproduced either. `unbuilt` says
//! what a claim is about and Weir does not have: it is not measured, and its measure may be the plan alone.
//!
//! A `[[figure]]` has an `id` and a `plan`. `apart` says why the plan takes too long to run beside the others: it runs where the
//! figure is named, and its claims are judged by the last result of it that was kept.
//!
//! A `[[tally]]` has a sentence and a measure: a number that is printed and is no claim, as it would prove nothing.
//!
//! | module | holds |
//! |---|---|
//! | [`measure`] | the cells a number is made of, and the arithmetic |
//! | `correlations` | numbers that are made of coefficients of events and throughput |
//! | `curves` | numbers that are made of whole curves: their classes, their peaks |

mod correlations;
mod curves;
pub mod measure;

use std::collections::BTreeMap;

use media::Medium;
use media::block::BlockModel;
use results::claim::Claim;
use results::{ClaimOutcome, Input, Origin, ResultFile};

use crate::error::Error;
use crate::machine::MachinePreset;
use crate::plan::Plan;
use crate::plan::usual::DEFAULT_MEDIUM;
use crate::presets::{self, PAPERS};
use crate::readings::Readings;
use document::{Item, Problem, Problems, Table, nearest};
use measure::{Measure, Measures};

/// A paper and its claims.
#[derive(Clone, Debug, PartialEq)]
pub struct Paper {
    /// The name on the command line.
    pub name: String,
    /// Title, venue, year, as claims print it.
    pub paper: String,
    /// The page that describes its mechanisms, from the root of the tree.
    pub spec: String,
    /// Its figures with the plans that measure them, in order; nothing may measure a figure.
    pub figures: Vec<(String, Option<String>)>,
    /// Plans that run only where a figure of theirs is named, each with the reason.
    pub apart: BTreeMap<String, String>,
    /// Its claims, in order.
    pub claims: Vec<PaperClaim>,
    /// Numbers that are printed and are no claims: what they are, and how they are measured.
    pub tallies: Vec<(String, Measure)>,
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
    /// What it is about beyond the paper's own subject: names of designs, schemes of logging, suites, media or counts.
    pub needs: Vec<String>,
    /// How the number is computed from the cells of a plan.
    pub measure: Measure,
    /// Without this the sentence is false, whatever the number.
    pub provided: Option<Provided>,
    /// What people have written of a miss, with the day.
    pub known: String,
    /// Why it does not count as reproduced whatever was measured: how a constant was fitted on it, or why it cannot miss.
    pub uncounted: String,
    /// What of it does not exist, so that it cannot be measured.
    pub unbuilt: String,
}

/// What else must be true, of the same plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Provided {
    /// The sentence.
    pub says: String,
    /// How its number is computed.
    pub measure: Measure,
    /// Least value.
    pub low: f64,
    /// Greatest value.
    pub high: f64,
}

impl Provided {
    fn read(table: &Table<'_>) -> Result<Self, Problem> {
        let mut all = Problems::default();
        let says = all.take(table.need("says", "what must be true, too").and_then(|item| item.text()));
        let measure = table.need("measure", "the cells of a plan that its number is made of");
        let measure = all.take(measure.and_then(|item| item.read(Measure::read)));
        let mut end = |name, open| match table.get(name) {
            None => open,
            Some(item) => all.take(item.float()).unwrap_or_default(),
        };
        let (low, high) = (end("low", f64::NEG_INFINITY), end("high", f64::INFINITY));
        all.take(table.finish());
        all.finish()?;
        Ok(Self { says: says.unwrap_or_default(), measure: measure.unwrap_or_default(), low, high })
    }

    /// Why it is false; none where it is true or was not measured.
    fn contradiction(&self, others: &Measures<'_>, measured: &Measured) -> Option<String> {
        let value = self.measure.value(measured.get(&self.measure.plan)?, others).ok()?;
        let holds = (self.low..=self.high).contains(&value);
        (!holds).then(|| {
            format!("the number is in the band, and yet it is not so that {}: {value:.3}", self.says)
        })
    }
}

/// Results by the name of their plan.
pub type Measured = BTreeMap<String, ResultFile>;

impl Paper {
    /// Parses a paper's file; `origin` names it in messages.
    pub fn parse(origin: &str, name: &str, text: &str) -> Result<Self, Problem> {
        document::read(origin, text, |root| {
            let mut all = Problems::default();
            let paper = all.take(root.need("paper", "title, venue, year").and_then(|item| item.text()));
            let spec = root.need("spec", "the page of docs/ that describes its mechanisms");
            let spec = all.take(spec.and_then(|item| item.text()));
            let figures = root.need("figure", "figures and their plans").and_then(|item| item.items());
            let figures =
                figures.and_then(|items| Problems::each(items.iter().map(|item| item.read(figure))));
            let (figures, apart): (Vec<_>, Vec<_>) =
                all.take(figures).unwrap_or_default().into_iter().unzip();
            let apart = apart.into_iter().flatten().collect();
            let of = paper.as_deref().unwrap_or_default();
            let claims = root.need("claim", "what was published").and_then(|item| item.items());
            let claims = claims.and_then(|items| {
                Problems::each(items.iter().map(|item| item.read(|table| claim(table, of))))
            });
            let claims = all.take(claims).unwrap_or_default();
            let tallies = root.get("tally").map_or(Ok(Vec::new()), |item| item.items());
            let tallies = tallies.and_then(|items| Problems::each(items.iter().map(|item| item.read(tally))));
            let tallies = all.take(tallies).unwrap_or_default();
            let readings = all.take(Readings::read(root)).unwrap_or_default();
            all.take(root.finish());
            all.finish()?;
            let (paper, spec) = (paper.unwrap_or_default(), spec.unwrap_or_default());
            Ok(Self { name: name.to_owned(), spec, claims, paper, figures, apart, tallies, readings })
        })
    }

    /// The paper called `name`.
    pub fn load(name: &str) -> Result<Self, Error> {
        let preset = presets::find(PAPERS, "paper", name)?;
        Ok(Self::parse(&format!("presets/papers/{name}.toml"), name, preset.text)?)
    }

    /// The plans of these figures, each once; where none is named, all that run beside others.
    pub fn plans(&self, figures: &[String]) -> Result<Vec<String>, Error> {
        let known = || self.figures.iter().map(|(figure, _)| figure.as_str());
        if let Some(name) = figures.iter().find(|name| !known().any(|figure| figure == *name)) {
            let advice = format!("{} has the figures {}", self.name, known().collect::<Vec<_>>().join(", "));
            return Err(Error::Unknown { what: "figure", name: name.clone(), advice });
        }
        let wanted = self.figures.iter().filter(|(figure, _)| figures.is_empty() || figures.contains(figure));
        let mut plans: Vec<String> = Vec::new();
        for plan in wanted.filter_map(|(_, plan)| plan.as_ref()) {
            let is_left_out = figures.is_empty() && self.apart.contains_key(plan);
            if !is_left_out && !plans.contains(plan) {
                plans.push(plan.clone());
            }
        }
        Ok(plans)
    }

    /// What became of every claim that a plan of `measured` belongs to.
    pub fn judge(&self, measured: &Measured) -> Vec<ClaimOutcome> {
        let others: Measures<'_> =
            self.claims.iter().map(|claim| (claim.claim.id.as_str(), &claim.measure)).collect();
        let judge = |claim: &PaperClaim| {
            measured.contains_key(&claim.measure.plan).then(|| {
                let mut outcome = claim.judge(&others, measured);
                outcome.fitted |= self.readings.fitted(&outcome.id);
                outcome
            })
        };
        self.claims.iter().filter_map(judge).collect()
    }

    /// The claims of a plan that was not run, which say so with the command that runs it.
    pub fn not_run(&self, plan: &Plan) -> Vec<ClaimOutcome> {
        let figure = self.figures.iter().find(|(_, has)| has.as_ref() == Some(&plan.name));
        let figure = figure.map_or("", |(figure, _)| figure.as_str());
        let why = self.apart.get(&plan.name).map_or("", String::as_str);
        let told = format!("not run: {why}; `weir reproduce {}/{figure}` runs it", self.name);
        let own = self.claims.iter().filter(|claim| claim.measure.plan == plan.name);
        let clock = crate::cell::clock(plan.clock);
        own.map(|claim| claim.claim.clone().not_measured(told.clone(), plan.seed, clock)).collect()
    }

    /// The tallies whose cells were measured, in words: `43: cells of the 57 …`.
    pub fn tallied(&self, measured: &Measured) -> Vec<String> {
        let of = |(says, measure): &(String, Measure)| {
            let value = measure.value(measured.get(&measure.plan)?, &Measures::new()).ok()?;
            Some(format!("{value}: {says}"))
        };
        self.tallies.iter().filter_map(of).collect()
    }

    /// The plans that claims are measured by, each once.
    pub fn plans_of_claims(&self) -> Vec<String> {
        let mut plans: Vec<String> = Vec::new();
        for claim in &self.claims {
            if !plans.contains(&claim.measure.plan) {
                plans.push(claim.measure.plan.clone());
            }
        }
        plans
    }
}

impl PaperClaim {
    fn judge(&self, others: &Measures<'_>, measured: &Measured) -> ClaimOutcome {
        let results = &measured[&self.measure.plan];
        let (seed, clock) = (results.seed, results.clock);
        let mut claim = self.claim.clone();
        if !self.unbuilt.is_empty() {
            return claim.not_measured(format!("not measured: {}", self.unbuilt), seed, clock);
        }
        claim.fitted |= fitted(&claim.id, &results.machine, &media(&results.plan));
        match self.measure.value(results, others) {
            Err(reason) => claim.not_measured(format!("not measured: {reason}"), seed, clock),
            Ok(value) => {
                let mut outcome = self.explained(claim.measured(value, seed, clock));
                outcome.by_seed = self.measure.by_repeat(results, others);
                let provided = self.provided.as_ref().filter(|_| outcome.holds);
                outcome.contradicted = provided.and_then(|also| also.contradiction(others, measured));
                outcome
            }
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
        if let Some(beside) = self.measure.beside().filter(|_| outcome.holds || outcome.reason.is_some()) {
            let reasons = outcome.reason.into_iter().chain([beside]);
            outcome.reason = Some(reasons.collect::<Vec<_>>().join("; "));
        }
        outcome
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
        let usual = plan["medium"]["name"].as_str().unwrap_or(DEFAULT_MEDIUM);
        names.push(usual.to_owned());
    }
    names.iter().filter_map(|name| Medium::parse(name).ok()).collect()
}

/// A figure with its plan.
type Figure = (String, Option<String>);

/// A figure, and the plan that runs only where it is named, with the reason.
fn figure(table: &Table<'_>) -> Result<(Figure, Option<(String, String)>), Problem> {
    let id = table.need("id", "the figure's number")?.word()?;
    let plan = table.get("plan").map(|item| item.text()).transpose()?;
    let apart = table.get("apart").map(|item| item.text()).transpose()?;
    Ok(((id, plan.clone()), plan.zip(apart)))
}

fn tally(table: &Table<'_>) -> Result<(String, Measure), Problem> {
    let says = table.need("says", "what is counted")?.text()?;
    Ok((says, table.need("measure", "the cells of a plan that the number is made of")?.read(Measure::read)?))
}

fn claim(table: &Table<'_>, paper: &str) -> Result<PaperClaim, Problem> {
    let mut all = Problems::default();
    let mut text = |item: Result<Item<'_>, Problem>| all.take(item.and_then(|item| item.text()));
    let texts = [
        text(table.need("id", "stable name")),
        text(table.need("figure", "where it was published")),
        text(table.need("says", "the statement in our words")),
        text(table.need("value", "how it is computed, in words")),
    ];
    let [id, figure, says, value] = texts.map(Option::unwrap_or_default);
    let known = all.take(known(table)).unwrap_or_default();
    let mut band = |item: Result<Item<'_>, Problem>| all.take(item.and_then(|item| item.float()));
    let low = band(table.need("low", "lower end of the band"));
    let high = band(table.need("high", "upper end of the band, or inf"));
    let published = all.take(table.get("published").map(|item| item.float()).transpose()).flatten();
    let (origin, fitted, uncounted) = all.take(standing(table)).unwrap_or_default();
    let input = all.take(table.get("input").map_or(Ok(Input::Original), |item| item.one_of(&Input::WORDS)));
    let unbuilt = all.take(table.get("unbuilt").map(|item| item.text()).transpose()).flatten();
    let (input, unbuilt) = (input.unwrap_or_default(), unbuilt.unwrap_or_default());
    let needs = all.take(table.get("needs").map_or(Ok(Vec::new()), |item| needs(&item))).unwrap_or_default();
    let measure = table.need("measure", "the cells of a plan that its number is made of");
    let read = if unbuilt.is_empty() { Measure::read } else { Measure::read_plan };
    let measure = all.take(measure.and_then(|item| item.read(read)));
    let provided =
        all.take(table.get("provided").map(|item| item.read(Provided::read)).transpose()).flatten();
    all.take(table.finish());
    all.finish()?;
    let (low, high, measure) =
        (low.unwrap_or_default(), high.unwrap_or_default(), measure.unwrap_or_default());
    let claim =
        Claim { id, paper: paper.to_owned(), figure, says, published, low, high, fitted, origin, input };
    Ok(PaperClaim { claim, value, needs, measure, provided, known, uncounted, unbuilt })
}

/// What people have written of a miss, with the day on which they did: it is of the model of that day.
fn known(table: &Table<'_>) -> Result<String, Problem> {
    let (known, day) = (table.get("known"), table.get("known_on"));
    let Some(known) = known else {
        return match day {
            Some(item) => Err(item.problem("there is no \"known\" that was written then")),
            None => Ok(String::new()),
        };
    };
    let day = table.need("known_on", "the day on which \"known\" was written: 2026-11-25")?;
    let text = day.text()?;
    let parts: Vec<&str> = text.split('-').collect();
    let is_day = parts.iter().map(|part| part.len()).eq([4, 2, 2])
        && parts.iter().all(|part| part.parse::<u16>().is_ok());
    if !is_day {
        return Err(day.problem("must be a day as 2026-11-25"));
    }
    Ok(format!("written {text}: {}", known.text()?))
}

/// Where a claim comes from, whether something was fitted on it, and why it does not count if it does not.
fn standing(table: &Table<'_>) -> Result<(Origin, bool, String), Problem> {
    // All keys are asked for before one is refused, so that those that are misspelt are told, too.
    let (origin, fitted, constant) = (table.get("origin"), table.get("fitted"), table.get("constant"));
    let origin = origin.map_or(Ok(Origin::Paper), |item| item.one_of(&Origin::WORDS))?;
    let fitted = fitted.map(|item| item.text()).transpose()?;
    let constant = match (origin, constant) {
        (Origin::Construction, _) => Some(table.need("constant", "why its value cannot miss")?.text()?),
        (_, Some(item)) => {
            return Err(item.problem("only a claim of origin = \"construction\" is a constant"));
        }
        (_, None) => None,
    };
    Ok((origin, fitted.is_some(), fitted.or(constant).unwrap_or_default()))
}

/// Names of the tables in which [`PaperClaim::needs`] is looked up.
fn needed() -> impl Iterator<Item = String> {
    let designs = fs::all().map(design::Design::name);
    let schemes = archsim::scheme::SCHEMES.iter().map(|scheme| scheme.name);
    let suites = workload::SUITES.iter().map(|suite| suite.name());
    let media = media::medium::names().into_iter().chain(BlockModel::names());
    let counts = fs::FILE_SYSTEMS.iter().flat_map(|design| design.counts()).map(|count| count.name());
    let of_media = media::charges::COUNTS.iter().map(|count| count.name());
    let names = designs.chain(schemes).chain(suites).chain(media).chain(counts).chain(of_media);
    let workloads = workload::suite::all().map(|(suite, entry)| workload::suite::full_name(suite, entry));
    names.map(str::to_owned).chain(workloads)
}

fn needs(item: &Item<'_>) -> Result<Vec<String>, Problem> {
    let one = |item: &Item<'_>| {
        let name = item.word()?;
        if needed().any(|known| known == name) {
            return Ok(name);
        }
        let kinds = "no design, scheme of logging, suite, workload, medium or count";
        let known: Vec<String> = needed().collect();
        let near = nearest(&name, known.iter().map(String::as_str));
        Err(item.problem(format!("\"needs\": there is {kinds} called \"{name}\"; {near}")))
    };
    Problems::each(item.one_or_more()?.iter().map(one))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Axis, AxisValue};

    /// All of a claim that was compared with what its paper prints, as a line.
    fn said(PaperClaim { claim, value, needs, .. }: &PaperClaim) -> String {
        let Claim { id, figure, says, published, low, high, origin, .. } = claim;
        let origin = origin.word();
        format!("{id}|{figure}|{origin}|{says}|{value}|{published:?}|{low}|{high}|{needs:?}\n")
    }

    /// `compared.txt` has the claims as they were when they were compared with the papers. One that changes is compared again, and
    /// written there with `WEIR_WRITE_CLAIMS=1`.
    #[test]
    fn claims_and_bands_are_those_that_were_compared_with_the_papers() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/claims/compared.txt");
        let papers = PAPERS.iter().map(|preset| Paper::load(preset.name).unwrap());
        let now: String = papers.flat_map(|paper| paper.claims).map(|claim| said(&claim)).collect();
        if std::env::var_os("WEIR_WRITE_CLAIMS").is_some() {
            std::fs::write(&path, &now).unwrap();
        }
        let known = std::fs::read_to_string(&path).unwrap();
        let [is, was] = [&now, &known].map(|text| text.lines().collect::<std::collections::BTreeSet<_>>());
        let differs: Vec<_> = is.symmetric_difference(&was).collect();
        assert_eq!(differs, [&""; 0], "compare these claims with what was published");
    }

    #[test]
    fn every_paper_names_a_page_of_the_documentation() {
        for preset in PAPERS {
            let spec = Paper::load(preset.name).unwrap().spec;
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(&spec);
            assert!(
                spec.starts_with("docs/") && path.is_file(),
                "presets/papers/{}.toml: {spec}",
                preset.name
            );
        }
    }

    /// A paper with one claim, and after it this text.
    fn told(rest: &str) -> String {
        let text = format!(
            "paper = \"P\"\nspec = \"docs/p.md\"\n[[figure]]\nid = \"1\"\n[[claim]]\nid = \"p.1\"\nfigure = \"1\"\n\
             says = \"s\"\nvalue = \"v\"\nlow = 0\nhigh = 1\n\
             measure = {{ plan = \"q\", top = {{ fs = \"pmfs\" }} }}\n{rest}"
        );
        Paper::parse("p.toml", "p", &text).map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn what_a_claim_needs_is_in_some_table_or_an_error_with_its_place() {
        let known = ["pmfs", "undoredo-clwb", "filebench", "optane.100", "fast24"];
        for name in known {
            assert_eq!(told(&format!("needs = [\"{name}\"]")), "", "{name}");
        }
        for (name, near) in
            [("ext4-dx", "ext4-dax"), ("undoredo-clw", "undoredo-clwb"), ("fielbench", "filebench")]
        {
            let error = told(&format!("needs = [\"pmfs\", \"{name}\"]"));
            assert!(
                error.starts_with("p.toml:13:18: ") && error.contains(&format!("did you mean \"{near}\"?")),
                "{error}"
            );
        }
    }

    #[test]
    fn every_error_of_a_paper_is_told_at_once_and_an_origin_is_one_of_seven() {
        let error = told("origin = \"slide\"\nneeds = [\"pmsf\"]\nfited = \"x\"\n");
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines.len(), 3, "{error}");
        for (at, near) in
            [("p.toml:15:1: ", "fitted"), ("p.toml:13:10: ", "slides"), ("p.toml:14:10: ", "pmfs")]
        {
            assert!(lines.iter().any(|line| line.starts_with(at) && line.contains(near)), "{at}: {error}");
        }
        assert!(told("origin = \"construction\"\n").contains("needs \"constant\""));
        assert!(told("constant = \"c\"\n").starts_with("p.toml:13:12: "));
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
                let plan = Some(&claim.measure.plan);
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

    /// A plan of hours does not run with the others, and its claims are not passed over.
    #[test]
    fn a_plan_that_runs_apart_runs_where_its_figure_is_named_and_its_claims_tell_the_command() {
        let paper = Paper::load("characterization").unwrap();
        let events = "characterization-events".to_owned();
        let all = paper.plans(&[]).unwrap();
        assert!(!all.contains(&events) && all.contains(&"characterization-ffsb".to_owned()));
        assert_eq!(paper.plans(&["C4".to_owned()]).unwrap(), std::slice::from_ref(&events));
        let claims = paper.not_run(&Plan::load(&events, false).unwrap());
        assert_eq!(claims.len(), 3);
        for claim in &claims {
            let reason = claim.reason.as_deref().unwrap_or_default();
            assert!(claim.value.is_none() && reason.starts_with("not run: "), "{reason}");
            assert!(reason.ends_with("`weir reproduce characterization/C4` runs it"), "{reason}");
        }
        // Every claim is measured by a plan or told.
        let known = paper.claims.iter().filter(|claim| all.contains(&claim.measure.plan)).count();
        assert_eq!(known + claims.len(), paper.claims.len());
    }

    /// The text of a miss is of the model of one day, which a reader is told.
    #[test]
    fn what_is_written_of_a_miss_has_its_day() {
        let text = |more: &str| {
            format!(
                "paper = \"P\"\nspec = \"s\"\n[[figure]]\nid = \"1\"\n[[claim]]\nid = \"p.1\"\nfigure = \"1\"\n\
             says = \"s\"\nvalue = \"v\"\nlow = 1\nhigh = 2\nmeasure = {{ plan = \"p\", top = {{ fs = \"pmfs\" }} }}\n{more}\n"
            )
        };
        let read = |more: &str| Paper::parse("t.toml", "t", &text(more));
        let known = |more: &str| read(more).map(|paper| paper.claims[0].known.clone());
        assert_eq!(known("").unwrap(), "");
        assert_eq!(known("known = \"slow\"\nknown_on = \"2026-11-25\"").unwrap(), "written 2026-11-25: slow");
        assert!(known("known = \"slow\"").unwrap_err().to_string().contains("known_on"));
        let wrong = known("known = \"slow\"\nknown_on = \"yesterday\"").unwrap_err().to_string();
        assert!(wrong.contains("must be a day"), "{wrong}");
    }

    /// A second number that must be right, too.
    #[test]
    fn a_sentence_is_contradicted_by_the_number_that_it_is_provided_with() {
        let measure =
            |fs: &str| format!("{{ plan = \"p\", top = {{ fs = \"{fs}\" }}, bottom = {{ fs = \"base\" }} }}");
        let text = format!(
            "paper = \"P\"\nspec = \"s\"\n[[figure]]\nid = \"1\"\n[[claim]]\nid = \"p.1\"\nfigure = \"1\"\nsays = \"s\"\n\
             value = \"v\"\nlow = 1\nhigh = 2\nmeasure = {}\nprovided = {{ says = \"it is faster\", low = 1.0, measure = {} }}\n",
            measure("on"),
            measure("off")
        );
        let paper = Paper::parse("t.toml", "t", &text).unwrap();
        let judged = |off: f64| {
            let mut result = ResultFile::new("p", serde_json::Value::Null, 1, results::Clock::Virtual);
            for (fs, rate) in [("base", 100.0), ("on", 150.0), ("off", off)] {
                let mut sample = results::Sample::new([("fs".to_owned(), fs.to_owned())].into(), 0, 1);
                sample.throughput_ops_per_s = rate;
                result.samples.push(sample);
            }
            paper.judge(&Measured::from([("p".to_owned(), result)])).remove(0)
        };
        assert_eq!((judged(120.0).holds, judged(120.0).contradicted), (true, None));
        assert!(judged(80.0).contradicted.unwrap().contains("it is not so that it is faster: 0.800"));
    }
}
