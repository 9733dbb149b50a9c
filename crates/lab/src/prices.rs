//! The sets of prices by which designs are compared: what stands for the code of a design beside its loads, its stores and the
//! work of a kernel above it. A comparison has one set for all of its designs, or the three that price designs without an
//! original alike.
//!
//! | set | a design with an original pays | a design without one pays |
//! |---|---|---|
//! | `originals` | what the module of Linux takes in each part (`originals.rs`) | what it charges: a mixture |
//! | `ran` | what Weir's code takes: no part has a price, units of [`sim::ran`] do | the same |
//! | `port:least` | as under `originals` | for each part the least of the originals (`port.toml`) |
//! | `port:most` | as under `originals` | the most |
//!
//! A design *has an original* if the code that it runs has prices. Where all compared designs have one, they are compared under
//! `originals`, otherwise under the three others; settings of one design without an original, and a machine that prices none,
//! have `ran`. Under `ran` and `port` a part without a price is charged by its units, whose prices
//! are the machine's own `[ran]`, or those of the host in `presets/originals/ran.toml`, scaled by what a component of a path
//! takes. Units inside a priced part are covered by it, and those of the front end by `[kernel.path]`: no unit is priced twice.
//!
//! The models `linux/…` charge what a kernel's code takes by tables of their own: they are ranked among themselves only.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use document::{Item, Problem, Table};
use results::PricesRecord;
use serde::{Deserialize, Serialize};
use sim::{Clock, Machine, PartPrice, Work};

use crate::error::Error;
use crate::machine::MachinePreset;
use crate::originals;
use crate::plan::{Plan, Target};
use crate::presets::ORIGINALS;
use crate::trust;

/// Files in `presets/originals` that are no prices of an original.
pub(crate) const FILES: [&str; 2] = ["port", "ran"];

/// A set of prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Prices {
    /// What the originals of designs take.
    Originals,
    /// What Weir's code takes.
    Ran,
    /// The least that a port to a kernel would take.
    PortLeast,
    /// The most.
    PortMost,
}

impl Prices {
    /// All of them, by name.
    pub const ALL: [(&'static str, Self); 4] = [
        ("originals", Self::Originals),
        ("ran", Self::Ran),
        ("port:least", Self::PortLeast),
        ("port:most", Self::PortMost),
    ];
    /// Those that price designs with and without an original alike, together.
    pub const TOGETHER: [Self; 3] = [Self::Ran, Self::PortLeast, Self::PortMost];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, one)| *one == self).expect("all are in the table").0
    }
}

impl fmt::Display for Prices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Prices {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, prices)| *prices);
        let names = || Self::ALL.iter().map(|(name, _)| *name);
        found.ok_or_else(|| format!("there are no prices \"{text}\"; {}", document::nearest(text, names())))
    }
}

impl From<Prices> for String {
    fn from(prices: Prices) -> Self {
        prices.name().to_owned()
    }
}

impl TryFrom<String> for Prices {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Whether the code that the design called `name` runs has prices. The models of a kernel's file systems have their own.
pub(crate) fn has_original(name: &str) -> bool {
    originals::of_design(name).is_some()
}

/// Whether `name` is a model of a kernel's file system.
pub(crate) fn is_model(name: &str) -> bool {
    fs::MODELS.iter().any(|design| design.name() == name)
}

impl Plan {
    /// The designs that it compares, by their labels.
    pub fn designs(&self) -> BTreeMap<String, String> {
        let axes = self.axis.iter().filter(|axis| axis.sets.contains(&Target::Design));
        let values = axes.flat_map(|axis| &axis.values).filter(|value| fs::by_name(&value.value).is_some());
        values.map(|value| (value.label.clone(), value.value.clone())).collect()
    }

    /// Whether it compares settings of one design only, or none.
    pub(crate) fn is_of_one_design(&self) -> bool {
        let designs = self.designs();
        let first = designs.values().next();
        designs.values().all(|name| Some(name) == first)
    }

    /// The sets of prices under which its cells run: those that it names, or else those that price its designs alike. None where
    /// nothing has a price: under the real clock, and of simulators.
    pub fn price_sets(&self) -> Result<Vec<Prices>, Error> {
        let designs = self.designs();
        if self.clock == Clock::Real || self.is_of_processors() || designs.is_empty() {
            return Ok(Vec::new());
        }
        let named = MachinePreset::load(&self.machine)?.machine.originals;
        if !self.prices.is_empty() {
            self.check_prices(&designs, named)?;
            return Ok(self.prices.clone());
        }
        let alike = |name: &String| has_original(name) || is_model(name);
        Ok(if designs.values().all(alike) && named {
            vec![Prices::Originals]
        } else if named && !self.is_of_one_design() {
            Prices::TOGETHER.to_vec()
        } else {
            vec![Prices::Ran]
        })
    }

    /// Prices that none of the designs can have are refused.
    fn check_prices(&self, designs: &BTreeMap<String, String>, named: bool) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::Setting(format!("plan {}: {what}", self.name)));
        let names = designs.values().map(String::as_str).collect::<Vec<_>>().join(", ");
        for (at, prices) in self.prices.iter().enumerate() {
            if self.prices[..at].contains(prices) {
                return wrong(format!("prices {prices} are named twice"));
            }
            let has = |name: &String| has_original(name) || is_model(name);
            if *prices == Prices::Originals && !designs.values().any(has) {
                return wrong(format!(
                    "no compared design ({names}) can have the prices originals, since no code of theirs has an original; \
                     take ran, port:least or port:most"
                ));
            }
            if matches!(prices, Prices::PortLeast | Prices::PortMost) && !named {
                return wrong(format!(
                    "machine {} names no originals, from which {prices} takes its prices, so no compared design can have them; \
                     take ran, or a machine whose [kernel] has originals (`weir show MACHINE`)",
                    self.machine
                ));
            }
        }
        Ok(())
    }

    /// What a result says of the prices of its designs; nothing under the real clock.
    pub(crate) fn priced_as(&self) -> Result<Option<PricesRecord>, Error> {
        if self.clock == Clock::Real {
            return Ok(None);
        }
        let (sets, designs) = (self.price_sets()?, self.designs());
        let (mut own, mut ported) = (BTreeMap::new(), BTreeMap::new());
        for (label, name) in &designs {
            match originals::of_design(name).filter(|_| !self.as_new) {
                Some((_, of_it)) => drop(own.insert(label.clone(), of_it)),
                None if is_model(name) => {}
                None => drop(ported.insert(label.clone(), ported_parts(name)?)),
            }
        }
        own.retain(|_, of_it| !of_it.is_empty() && sets.iter().any(|prices| *prices != Prices::Ran));
        ported
            .retain(|_, _| sets.iter().any(|prices| matches!(prices, Prices::PortLeast | Prices::PortMost)));
        let errors = if designs.len() > 1 { trust::records(self, &sets)? } else { Vec::new() };
        let unranked = self.unranked(&sets);
        let sets = sets.iter().map(ToString::to_string).collect();
        Ok(Some(PricesRecord { sets, designs, unranked, own, ported, errors }))
    }

    /// Why designs are not ranked although all ran: they were not priced alike. None where they were.
    fn unranked(&self, sets: &[Prices]) -> Option<String> {
        let designs = self.designs();
        let (models, others): (Vec<&String>, Vec<&String>) =
            designs.values().partition(|name| is_model(name));
        if sets.is_empty() || designs.len() < 2 {
            return None;
        }
        if let (Some(model), Some(other)) = (models.first(), others.first()) {
            return Some(format!(
                "{model} is a model of a kernel's file system with prices of its own, and {other} is not: models are ranked among \
                 themselves (--fs linux/…), designs without them"
            ));
        }
        let without: Vec<&str> =
            others.iter().map(|name| name.as_str()).filter(|name| !has_original(name)).collect();
        let mixed = sets.contains(&Prices::Originals) && !without.is_empty() && without.len() < others.len();
        mixed.then(|| {
            format!(
                "the others pay what their originals take, and {} what Weir's code is charged: --prices ran,port:least,port:most \
                 rank them",
                without.join(" and ")
            )
        })
    }
}

impl MachinePreset {
    /// The machine with the prices of this set for the design called `name`; `as_new`: as if the design had no original.
    pub(crate) fn priced(&self, prices: Prices, name: &str, as_new: bool) -> Result<Machine, Error> {
        let mut machine = self.machine.clone();
        let original = originals::of_design(name).map(|(module, _)| module);
        let is_priced = is_model(name) || (original.is_some() && !as_new);
        let stays = prices == Prices::Originals || (prices != Prices::Ran && is_priced);
        if stays {
            if machine.originals {
                for work in Work::RAN {
                    machine.work_ps[work.index()] = 0;
                }
            }
            return Ok(machine);
        }
        machine.originals = false;
        machine.parts = match prices {
            Prices::Ran | Prices::Originals => Vec::new(),
            Prices::PortLeast => ported(original.unwrap_or(name), &machine.parts, u64::min)?,
            Prices::PortMost => ported(original.unwrap_or(name), &machine.parts, u64::max)?,
        };
        if !self.has_own_ran {
            let component = machine.work_ps[vfs::charges::PATH_COMPONENT.index()];
            for (work, ps) in shipped_ran(component)? {
                machine.work_ps[work.index()] = ps;
            }
        }
        Ok(machine)
    }
}

/// Parts of a design that `port.toml` maps, or none where it has no table there.
fn ported_parts(name: &str) -> Result<Vec<String>, Error> {
    let module = originals::of_design(name).map_or(name, |(module, _)| module);
    Ok(port(module)?.into_iter().map(|(part, _)| format!("{module}.{part}")).collect())
}

/// The prices of the parts of a design: of each its entries' least or most.
fn ported(module: &str, parts: &[PartPrice], choose: fn(u64, u64) -> u64) -> Result<Vec<PartPrice>, Error> {
    let of = |part: &str| parts.iter().find(|known| known.part == part).map(|known| known.ps);
    let priced = |(part, entries): (String, Vec<Entry>)| {
        let sums = entries.iter().filter_map(|entry| match entry {
            Entry::Within => Some(0),
            Entry::Sum(names) => names.iter().map(|name| of(name)).sum(),
        });
        sums.reduce(choose).map(|ps| PartPrice { part: format!("{module}.{part}"), ps })
    };
    Ok(port(module)?.into_iter().filter_map(priced).collect())
}

/// What an original takes for a part.
enum Entry {
    /// Nothing: another of its parts has it.
    Within,
    /// The sum of these.
    Sum(Vec<String>),
}

/// A part with what originals take for it.
type Ported = (String, Vec<Entry>);

/// The table of a design in `port.toml`.
fn port(module: &str) -> Result<Vec<Ported>, Error> {
    let all = read("port", |root| {
        root.need("summary", "what it is, in one line")?.text()?;
        let table = |(name, item): (String, Item<'_>)| {
            let part = |(part, item): (String, Item<'_>)| Ok((part, item.read(entries)?));
            let parts = item.read(|table| table.take_rest().into_iter().map(part).collect())?;
            Ok((name, parts))
        };
        root.take_rest().into_iter().map(table).collect::<Result<Vec<(String, Vec<Ported>)>, Problem>>()
    })?;
    Ok(all.into_iter().find(|(name, _)| name == module).map_or_else(Vec::new, |(_, parts)| parts))
}

fn entries(table: &Table<'_>) -> Result<Vec<Entry>, Problem> {
    let item = table.need("as", "parts of originals that do the same")?;
    let entry = |text: String| match text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
        Some(_) => Entry::Within,
        None => Entry::Sum(text.split('+').map(str::to_owned).collect()),
    };
    let entries: Vec<Entry> = item.words()?.into_iter().map(entry).collect();
    if entries.is_empty() {
        return Err(item.problem("name a part of an original, or leave the line out"));
    }
    let why = table.need("why", "why these do the same")?;
    if why.text()?.trim().is_empty() {
        return Err(why.problem("is empty: say why these do the same"));
    }
    Ok(entries)
}

/// What a unit of small work takes on a machine where a component of a path takes so long.
fn shipped_ran(component_ps: u64) -> Result<Vec<(Work, u64)>, Error> {
    read("ran", |root| {
        for (key, what) in
            [("summary", "one line"), ("host", "the processor"), ("date", "when it was measured")]
        {
            root.need(key, what)?.text()?;
        }
        let reference = root.need("path_component", "nanoseconds of it on that host")?.float()?;
        let ran = root.need("ran", "nanoseconds of a unit of each kind")?;
        ran.read(|table| {
            let unit = |work: &Work| {
                let Some(item) = table.get(work.key()) else { return Ok(None) };
                let ps = item.float()? * component_ps as f64 / reference;
                Ok(Some((*work, ps.round() as u64)))
            };
            Work::RAN.iter().filter_map(|work| unit(work).transpose()).collect()
        })
    })
}

fn read<T>(name: &str, read: impl FnOnce(&Table<'_>) -> Result<T, Problem>) -> Result<T, Error> {
    let preset = ORIGINALS.iter().find(|preset| preset.name == name).expect("it comes with Weir");
    Ok(document::read(&format!("presets/originals/{name}.toml"), preset.text, read)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::MACHINES;

    fn plan(fs: &str, rest: &str) -> Plan {
        let text = format!(
            "[plan]\nname = \"p\"\nwhy = \"w\"\nstop = \"1ms\"\n{rest}\n\
             [[axis]]\nfs = [{fs}]\n[[workload]]\nname = \"fxmark/DWOL\"\n"
        );
        Plan::parse("p.toml", &text, false).unwrap()
    }

    fn sets(fs: &str, rest: &str) -> Result<Vec<String>, String> {
        let sets = plan(fs, rest).price_sets().map_err(|error| error.to_string())?;
        Ok(sets.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn designs_that_all_have_an_original_are_priced_by_it_and_others_by_three_sets() {
        assert_eq!(sets("\"nova\", \"hinfs\", \"ext4-dax\", \"rcache\"", "").unwrap(), ["originals"]);
        assert_eq!(sets("\"nova\", \"crest\"", "").unwrap(), ["ran", "port:least", "port:most"]);
        assert_eq!(sets("\"crest\", { name = \"crest\", label = \"b\" }", "").unwrap(), ["ran"]);
        assert_eq!(sets("\"nova\", \"pmfs\"", "machine = \"spr-server,kernel=none\"").unwrap(), ["ran"]);
        assert_eq!(sets("\"linux/ext4\", \"linux/xfs\"", "").unwrap(), ["originals"]);
        assert_eq!(sets("\"nova\", \"crest\"", "clock = \"real\"").unwrap(), [""; 0]);
    }

    #[test]
    fn prices_that_no_compared_design_can_have_are_refused() {
        let told = sets("\"redo\", \"crest\"", "prices = \"originals\"").unwrap_err();
        assert!(told.contains("no compared design (crest, redo) can have the prices originals"), "{told}");
        let told =
            sets("\"nova\", \"crest\"", "prices = \"port:most\"\nmachine = \"spr-server,kernel=none\"")
                .unwrap_err();
        assert!(told.contains("names no originals"), "{told}");
        assert!("porty".parse::<Prices>().unwrap_err().contains("port:least"));
    }

    #[test]
    fn a_mixture_that_is_asked_for_is_not_ranked_and_says_what_ranks_it() {
        let why = |fs: &str, rest: &str| {
            let plan = plan(fs, rest);
            plan.unranked(&plan.price_sets().unwrap())
        };
        assert!(
            why("\"nova\", \"crest\"", "prices = \"originals\"")
                .unwrap()
                .contains("--prices ran,port:least,port:most")
        );
        assert!(why("\"nova\", \"linux/ext4\"", "").unwrap().contains("models are ranked among themselves"));
        assert_eq!(why("\"nova\", \"crest\"", ""), None);
        assert_eq!(why("\"nova\", \"rcache\"", ""), None);
    }

    #[test]
    fn a_ported_part_pays_the_least_or_the_most_of_what_originals_take() {
        let preset = MachinePreset::load("spr-server").unwrap();
        let price = |prices, part: &str| {
            let machine = preset.priced(prices, "crest", false).unwrap();
            machine.parts.iter().find(|known| known.part == part).map(|known| known.ps)
        };
        let original = |part: &str| preset.machine.parts.iter().find(|known| known.part == part).unwrap().ps;
        assert_eq!(price(Prices::PortLeast, "crest.record"), Some(original("nova.append")));
        let most = original("pmfs.new_trans") + original("pmfs.commit_trans");
        assert_eq!(price(Prices::PortMost, "crest.record"), Some(most));
        assert_eq!(price(Prices::PortLeast, "crest.alloc"), Some(0));
        assert_eq!(price(Prices::Ran, "crest.record"), None);
    }

    #[test]
    fn every_line_of_port_is_of_a_part_that_its_design_has_and_no_entry_is_of_the_design_itself() {
        let named: Vec<String> = MachinePreset::load("spr-server")
            .unwrap()
            .machine
            .parts
            .into_iter()
            .map(|one| one.part)
            .collect();
        for module in ["crest", "nova", "pmfs", "ext4", "wofs", "squirrelfs"] {
            let parts = port(module).unwrap();
            assert!(!parts.is_empty(), "{module}");
            for (part, entries) in parts {
                assert!(module == "crest" || named.contains(&format!("{module}.{part}")), "{module}.{part}");
                for name in entries.iter().flat_map(|entry| match entry {
                    Entry::Within => &[][..],
                    Entry::Sum(names) => &names[..],
                }) {
                    assert!(
                        named.contains(name) && !name.starts_with(&format!("{module}.")),
                        "{module}.{part}: {name}"
                    );
                }
            }
        }
    }

    /// A unit is priced by itself where no part of an original and no path of a kernel has it.
    #[test]
    fn no_unit_is_priced_twice() {
        for preset in MACHINES {
            let preset = MachinePreset::load(preset.name).unwrap();
            let units = |machine: &Machine| Work::RAN.iter().any(|work| machine.work_ps[work.index()] > 0);
            let of = |prices, name| preset.priced(prices, name, false).unwrap();
            let ran = of(Prices::Ran, "nova");
            assert!(ran.parts.is_empty() && !ran.originals && units(&ran), "{}", ran.name);
            for prices in [Prices::Originals, Prices::PortLeast, Prices::PortMost] {
                let nova = of(prices, "nova");
                assert!(!(nova.originals && units(&nova)), "{} {prices}", nova.name);
            }
            if preset.machine.originals {
                let crest = of(Prices::PortMost, "crest");
                assert!(units(&crest) && !crest.originals && !crest.parts.is_empty(), "{}", crest.name);
            }
        }
    }

    #[test]
    fn units_of_a_run_are_scaled_by_a_component_of_a_path() {
        let units = |component| shipped_ran(component).unwrap();
        for ((work, one), (_, two)) in units(60_000).into_iter().zip(units(120_000)) {
            assert!(one > 0 && two.abs_diff(2 * one) <= 1, "{}: {one} {two}", work.key());
        }
    }
}
