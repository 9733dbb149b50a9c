//! Readings: what a paper leaves open, each a named choice with a default that its text argues for.
//!
//! A paper's file has a `[[reading]]` for each question, and a `[[pair]]` for each two alternatives that are worth trying
//! together:
//!
//! ```toml
//! [[reading]]
//! name = "writers"
//! question = "How many tasks write back?"
//! default = { name = "four", why = "what the text says for it" }
//! [[reading.alternative]]
//! name = "one"
//! why = "what the text says for this one"
//! [[reading.alternative.change]]       # what it changes in the plans, see [`change`]
//! fs = { writeback_tasks = 1 }
//! [[reading.alternative.claim]]        # or how a claim is measured or judged
//! id = "hinfs.7.fileserver.gain"       # or several
//! high = 3.0
//! measure = { fold = "max" }           # keys of the measure that change; with `plan`, the whole measure
//! [[ablation]]                         # as a reading, of what no text leaves open
//! [[pair]]
//! choices = ["writers=one", "threads=two"]
//! why = "both lower the demand"
//! ```
//!
//! The default is the plans as they stand, and has no changes. The text must argue for it: a default that was chosen for the result
//! names the claims, `default = { …, fitted_on = ["hinfs.9.io4k"] }`, which then count as fitted, not as reproduced.
//! A [`Variation`] is the paper with some alternatives chosen; it
//! is refused if it changes nothing, since a reading that changes nothing would make every claim look robust.
//!
//! | module | holds |
//! |---|---|
//! | [`change`] | what an alternative changes in a plan |
//! | [`run`] | runs the variations, cells that they share once, and classes the claims |

pub mod change;
pub mod run;

use std::collections::BTreeMap;

use crate::claims::{Paper, PaperClaim, measure::Patch};
use crate::error::Error;
use crate::plan::{CellSpec, Place, Plan, Scale};
use change::Change;
use document::nearest;
use document::{Item, Problem, Problems, Table};

/// How the variation is called that chooses every default.
pub const DEFAULT: &str = "default";

/// A question that the paper leaves open.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Its name.
    pub name: String,
    /// What is open.
    pub question: String,
    /// What the plans do, and the text's argument for it.
    pub default: Choice,
    /// Claims for whose result the default was chosen.
    pub fitted_on: Vec<String>,
    /// What else the text allows.
    pub alternatives: Vec<Alternative>,
}

/// An answer and the argument for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its name.
    pub name: String,
    /// What the text says for it.
    pub why: String,
}

/// An answer that is not the default.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// The answer.
    pub choice: Choice,
    /// What it changes in plans.
    pub changes: Vec<Change>,
    /// Claims that it measures or judges otherwise.
    claims: Vec<ClaimChange>,
    /// Whether it takes so long that a scaled-down run leaves it out.
    pub long: bool,
    at: Place,
}

/// A claim measured otherwise, or with another band.
#[derive(Clone, Debug, PartialEq)]
struct ClaimChange {
    ids: Vec<String>,
    measure: Option<Patch>,
    low: Option<f64>,
    high: Option<f64>,
    at: Place,
}

/// Two alternatives that are tried together.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// `reading=alternative`, twice.
    pub choices: [String; 2],
    /// Why together.
    pub why: String,
    at: Place,
}

/// Everything that a paper leaves open.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings {
    /// The questions, in order.
    pub list: Vec<Reading>,
    /// What is tried together.
    pub pairs: Vec<Pair>,
    /// Mechanisms and sizes that no text leaves open: `--choose` changes them to explain a result, and they class no claim.
    pub ablations: Vec<Reading>,
}

/// The paper under some choices.
#[derive(Clone, Debug)]
pub struct Variation {
    /// The readings whose alternative is chosen, joined by `+`; [`DEFAULT`].
    pub name: String,
    /// The alternatives, likewise.
    pub choice: String,
    /// The plans, with what the choices change.
    pub plans: Vec<Plan>,
    /// The paper, with what the choices change in its claims.
    pub paper: Paper,
}

impl Variation {
    /// Only these of its plans, and in them only these designs (all if none is named), which are fewer than the paper's.
    fn keep(&mut self, plans: &[String], designs: &[String]) -> Result<(), Error> {
        self.plans.retain(|plan| plans.contains(&plan.name));
        if !designs.is_empty() {
            self.plans.iter_mut().try_for_each(|plan| plan.keep_designs(designs))?;
        }
        Ok(())
    }

    /// Whether no cell and no claim of its plans differs from those of `other`.
    fn is_like(&self, other: &Self) -> Result<bool, Error> {
        let measured = |claim: &&PaperClaim| self.plans.iter().any(|plan| plan.name == claim.measure.plan);
        let claims = |of: &Self| of.paper.claims.iter().filter(measured).cloned().collect::<Vec<_>>();
        Ok(claims(self) == claims(other) && identities(&self.plans)? == identities(&other.plans)?)
    }

    /// Its plans as small as the scale says.
    pub fn shrink(&mut self, scale: Scale) {
        self.plans.iter_mut().for_each(|plan| scale.shrink(plan));
    }
}

impl Readings {
    /// The readings of a paper's file.
    pub(crate) fn read(root: &Table<'_>) -> Result<Self, Problem> {
        let items = |key| root.get(key).map_or(Ok(Vec::new()), |item: Item<'_>| item.items());
        let mut all = Problems::default();
        let list = Problems::each(items("reading")?.iter().map(|item| item.read(reading)));
        let list = all.take(list).unwrap_or_default();
        let pairs = Problems::each(items("pair")?.iter().map(|item| item.read(pair)));
        let pairs = all.take(pairs).unwrap_or_default();
        let ablations = Problems::each(items("ablation")?.iter().map(|item| item.read(reading)));
        let ablations = all.take(ablations).unwrap_or_default();
        all.finish()?;
        let twice = list.iter().enumerate().find(|(at, one)| list[..*at].iter().any(|o| o.name == one.name));
        match twice {
            Some((_, reading)) => Err(root.problem(format!("reading \"{}\" is given twice", reading.name))),
            None => Ok(Self { list, pairs, ablations }),
        }
    }

    /// Whether a default was chosen for the result of this claim.
    pub(crate) fn fitted(&self, id: &str) -> bool {
        self.list.iter().any(|reading| reading.fitted_on.iter().any(|fitted| fitted == id))
    }

    /// The alternative that `reading=alternative` names.
    fn find(&self, choice: &str) -> Result<(&Reading, &Alternative), String> {
        let (reading, alternative) =
            choice.split_once('=').ok_or_else(|| format!("\"{choice}\" is not reading=alternative"))?;
        let all = || self.list.iter().chain(&self.ablations);
        let found = all().find(|one| one.name == reading).ok_or_else(|| {
            let advice = nearest(reading, all().map(|one| one.name.as_str()));
            format!("there is no reading \"{reading}\"; {advice}")
        })?;
        let known = || found.alternatives.iter().map(|one| one.choice.name.as_str());
        let chosen = found.alternatives.iter().find(|one| one.choice.name == alternative);
        let advice =
            || format!("{reading} has no alternative \"{alternative}\"; {}", nearest(alternative, known()));
        Ok((found, chosen.ok_or_else(advice)?))
    }
}

/// Of the variations of a whole paper, the first of which is the default, those that differ from it in these plans and designs.
pub fn kept_of(all: Vec<Variation>, plans: &[String], designs: &[String]) -> Result<Vec<Variation>, Error> {
    let mut kept: Vec<Variation> = Vec::new();
    for mut variation in all {
        variation.keep(plans, designs)?;
        match kept.first() {
            Some(default) if variation.is_like(default)? => {}
            _ => kept.push(variation),
        }
    }
    Ok(kept)
}

impl Paper {
    /// The paper under its defaults, under each alternative by itself, and under each pair if `pairs`. `plans` are those that
    /// measure it, at the scale in force; with fewer than the paper has, or with fewer designs, use [`kept_of`] on the result.
    pub fn variations(&self, plans: &[Plan], pairs: bool) -> Result<Vec<Variation>, Error> {
        let usual = identities(plans)?;
        let mut all = vec![self.defaults(plans)];
        for reading in &self.readings.list {
            let quick = plans.iter().any(|plan| plan.quick);
            for alternative in reading.alternatives.iter().filter(|one| !(quick && one.long)) {
                let chosen = [(reading, alternative)];
                all.extend(self.vary(&all[0], &usual, &chosen, &alternative.at)?);
            }
        }
        for pair in self.readings.pairs.iter().filter(|_| pairs) {
            let find = |choice: &String| self.readings.find(choice).map_err(|what| pair.at.problem(what));
            let chosen = [find(&pair.choices[0])?, find(&pair.choices[1])?];
            all.extend(self.vary(&all[0], &usual, &chosen, &pair.at)?);
        }
        Ok(all)
    }

    /// The paper under these answers, each `reading=alternative`, all at once.
    pub fn choose(&self, plans: &[Plan], choices: &[String]) -> Result<Variation, Error> {
        let find = |choice: &String| self.readings.find(choice).map_err(Error::Setting);
        let chosen = choices.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        let twice =
            (1..chosen.len()).find(|at| chosen[..*at].iter().any(|one| one.0.name == chosen[*at].0.name));
        if let Some((reading, _)) = twice.map(|at| chosen[at]) {
            return Err(Error::Setting(format!("reading \"{}\" has two answers: choose one", reading.name)));
        }
        let none = || Error::Setting(format!("{} says nothing of these figures", choices.join(", ")));
        let (_, first) = chosen.first().ok_or_else(none)?;
        self.vary(&self.defaults(plans), &identities(plans)?, &chosen, &first.at)?.ok_or_else(none)
    }

    /// The paper as its plans stand.
    fn defaults(&self, plans: &[Plan]) -> Variation {
        Variation { name: DEFAULT.into(), choice: DEFAULT.into(), plans: plans.to_vec(), paper: self.clone() }
    }

    /// The paper with these alternatives; none where none of them concerns `plans`.
    fn vary(
        &self,
        default: &Variation,
        usual: &[BTreeMap<String, String>],
        chosen: &[(&Reading, &Alternative)],
        at: &Place,
    ) -> Result<Option<Variation>, Error> {
        let mut varied = default.clone();
        varied.paper.readings = Readings::default();
        for (_, alternative) in chosen {
            alternative.apply(self, &mut varied)?;
        }
        let join = |name: fn(&(&Reading, &Alternative)) -> String| {
            chosen.iter().map(name).collect::<Vec<_>>().join("+")
        };
        varied.name = join(|(reading, _)| reading.name.clone());
        varied.choice = join(|(_, alternative)| alternative.choice.name.clone());
        let concerns = |alternative: &Alternative| alternative.concerns(&default.plans);
        if !chosen.iter().any(|(_, alternative)| concerns(alternative)) {
            return Ok(None);
        }
        if varied.paper.claims == default.paper.claims && identities(&varied.plans)? == usual {
            let Variation { name, choice, .. } = &varied;
            return Err(at.problem(format!(
                "reading \"{name}\", alternative \"{choice}\" changes nothing: every cell has the settings that it has without it"
            )));
        }
        Ok(Some(varied))
    }
}

impl Alternative {
    /// Whether it says something of one of these plans.
    fn concerns(&self, plans: &[Plan]) -> bool {
        let of_claim = |change: &ClaimChange| {
            let plan = change.measure.as_ref().and_then(Patch::plan);
            plan.is_none_or(|name| plans.iter().any(|plan| plan.name == name))
        };
        self.changes.iter().any(|change| plans.iter().any(|plan| change.concerns(plan)))
            || self.claims.iter().any(of_claim)
    }

    fn apply(&self, paper: &Paper, varied: &mut Variation) -> Result<(), Error> {
        for change in &self.changes {
            change.check(paper, &varied.plans)?;
            for plan in varied.plans.iter_mut().filter(|plan| change.concerns(plan)) {
                change.apply(plan)?;
            }
        }
        self.claims.iter().try_for_each(|change| change.apply(&mut varied.paper.claims))
    }
}

impl ClaimChange {
    fn apply(&self, claims: &mut [PaperClaim]) -> Result<(), Error> {
        let known = || claims.iter().map(|claim| claim.claim.id.as_str());
        if let Some(id) = self.ids.iter().find(|id| known().all(|known| known != id.as_str())) {
            return Err(self.at.problem(format!("there is no claim \"{id}\"; {}", nearest(id, known()))));
        }
        for claim in claims.iter_mut().filter(|claim| self.ids.contains(&claim.claim.id)) {
            self.measure.iter().for_each(|patch| patch.apply(&mut claim.measure));
            claim.claim.low = self.low.unwrap_or(claim.claim.low);
            claim.claim.high = self.high.unwrap_or(claim.claim.high);
        }
        Ok(())
    }
}

/// For each plan its cells by name, with everything that decides what happens in them.
fn identities(plans: &[Plan]) -> Result<Vec<BTreeMap<String, String>>, Error> {
    let of_cell = |plan: &Plan, cell: &CellSpec| {
        (cell.title(), format!("{} | {} | {} | {}", cell.identity(), plan.machine, plan.seed, plan.repeats))
    };
    let of_plan = |plan: &Plan| Ok(plan.cells()?.iter().map(|cell| of_cell(plan, cell)).collect());
    plans.iter().map(of_plan).collect()
}

fn choice(table: &Table<'_>) -> Result<Choice, Problem> {
    Ok(Choice {
        name: table.need("name", "how the answer is called")?.word()?,
        why: table.need("why", "what the text says for it")?.text()?,
    })
}

fn reading(table: &Table<'_>) -> Result<Reading, Problem> {
    let alternatives = table.need("alternative", "what else the text allows")?.items()?;
    let default = table.need("default", "what the plans do, with name and why")?;
    let (default, fitted_on) = default.read(|table| {
        Ok((choice(table)?, table.get("fitted_on").map_or(Ok(Vec::new()), |item: Item<'_>| item.words())?))
    })?;
    Ok(Reading {
        name: table.need("name", "how the reading is called")?.word()?,
        question: table.need("question", "what the paper leaves open")?.text()?,
        default,
        fitted_on,
        alternatives: Problems::each(alternatives.iter().map(|item| item.read(alternative)))?,
    })
}

fn alternative(table: &Table<'_>) -> Result<Alternative, Problem> {
    let items = |key| table.get(key).map_or(Ok(Vec::new()), |item: Item<'_>| item.items());
    Ok(Alternative {
        choice: choice(table)?,
        changes: items("change")?.iter().map(|item| item.read(Change::read)).collect::<Result<_, _>>()?,
        claims: items("claim")?.iter().map(|item| item.read(claim_change)).collect::<Result<_, _>>()?,
        long: table.get("long").map_or(Ok(false), |item| item.parse())?,
        at: Place::of(table),
    })
}

fn claim_change(table: &Table<'_>) -> Result<ClaimChange, Problem> {
    Ok(ClaimChange {
        ids: table.need("id", "the claim")?.words()?,
        measure: table.get("measure").map(|item| item.read(Patch::read)).transpose()?,
        low: table.get("low").map(|item| item.float()).transpose()?,
        high: table.get("high").map(|item| item.float()).transpose()?,
        at: Place::of(table),
    })
}

fn pair(table: &Table<'_>) -> Result<Pair, Problem> {
    let item = table.need("choices", "two of \"reading=alternative\"")?;
    let choices: Result<[String; 2], _> = item.words()?.try_into();
    let choices = choices.map_err(|_| item.problem("a pair has two choices"))?;
    Ok(Pair { choices, why: table.need("why", "why together")?.text()?, at: Place::of(table) })
}
