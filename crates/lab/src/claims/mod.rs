//! Published claims: what was printed, how the measured number is computed, and whether it holds.
//!
//! A paper's file under `presets/papers/` has one `[[claim]]` for each claim, with its sentence, published value and band, the
//! plan that measures it, and the cells that its number is made of:
//!
//! ```toml
//! measure = { plan = "hinfs-8", top = { fs = "hinfs" }, bottom = { fs = "pmfs" }, over = { threads = "*" }, fold = "min" }
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`measure`] | the cells a number is made of, and the arithmetic |

pub mod measure;

use std::collections::BTreeMap;

use results::claim::Claim;
use results::{ClaimOutcome, ResultFile};

use crate::document::{self, Problem, Table};
use crate::error::Error;
use crate::machine::MachinePreset;
use crate::presets::{self, PAPERS};
use measure::Measure;

/// A paper and its claims.
#[derive(Clone, Debug, PartialEq)]
pub struct Paper {
    /// The name on the command line.
    pub name: String,
    /// Title, venue, year, as claims print it.
    pub paper: String,
    /// Its figures with the plans that measure them, in order.
    pub figures: Vec<(String, String)>,
    /// Its claims, in order.
    pub claims: Vec<PaperClaim>,
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
    /// How the number is computed.
    pub measure: Measure,
    /// What is known of a miss.
    pub known: String,
}

/// Results by the name of their plan.
pub type Measured = BTreeMap<String, ResultFile>;

impl Paper {
    /// Parses a paper's file; `origin` names it in messages.
    pub fn parse(origin: &str, name: &str, text: &str) -> Result<Self, Problem> {
        document::read(origin, text, |root| {
            let paper = root.need("paper", "title, venue, year")?.text()?;
            root.need("spec", "where its mechanisms are described")?.text()?;
            let figures = root.need("figure", "figures and their plans")?.items()?;
            let figures = figures.iter().map(|item| item.read(figure)).collect::<Result<_, _>>()?;
            let claims = root.need("claim", "what was published")?.items()?;
            let claims = claims.iter().map(|item| item.read(|table| claim(table, &paper)));
            Ok(Self { name: name.to_owned(), claims: claims.collect::<Result<_, _>>()?, paper, figures })
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
        for (_, plan) in wanted {
            if !plans.contains(plan) {
                plans.push(plan.clone());
            }
        }
        Ok(plans)
    }

    /// What became of every claim that a plan of `measured` belongs to.
    pub fn judge(&self, measured: &Measured) -> Vec<ClaimOutcome> {
        let concerned = self.claims.iter().filter(|claim| measured.contains_key(&claim.measure.plan));
        concerned.map(|claim| claim.judge(measured)).collect()
    }
}

impl PaperClaim {
    fn judge(&self, measured: &Measured) -> ClaimOutcome {
        let results = &measured[&self.measure.plan];
        let (seed, clock) = (results.seed, results.clock);
        let mut claim = self.claim.clone();
        claim.fitted = fitted(&results.machine, &claim.id);
        let missing = self.missing();
        if !missing.is_empty() {
            return claim.not_measured(format!("not measured: needs {}", missing.join(", ")), seed, clock);
        }
        match self.measure.value(results) {
            Err(reason) => claim.not_measured(format!("not measured: {reason}"), seed, clock),
            Ok(value) => {
                let mut outcome = claim.measured(value, seed, clock);
                if !outcome.holds && outcome.reason.is_none() && !self.known.is_empty() {
                    outcome.reason = Some(self.known.clone());
                }
                outcome
            }
        }
    }

    /// Designs that it needs and that do not exist.
    fn missing(&self) -> Vec<&str> {
        self.needs.iter().map(String::as_str).filter(|name| fs::by_name(name).is_none()).collect()
    }
}

/// Whether a value of the machine was fitted on the claim.
fn fitted(machine: &str, id: &str) -> bool {
    MachinePreset::load(machine).is_ok_and(|preset| preset.fitted_on.iter().any(|fitted| fitted == id))
}

fn figure(table: &Table<'_>) -> Result<(String, String), Problem> {
    let id = table.need("id", "the figure's number")?.word()?;
    Ok((id, table.need("plan", "what measures it")?.text()?))
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
        fitted: false,
    };
    Ok(PaperClaim {
        claim,
        value: table.need("value", "how it is computed, in words")?.text()?,
        needs: table.get("needs").map_or(Ok(Vec::new()), |item| item.words())?,
        measure: table.need("measure", "how it is computed")?.read(Measure::read)?,
        known: table.get("known").map_or(Ok(String::new()), |item| item.text())?,
    })
}
