//! The steps of an operation: what of them a preset says, checked and with routines put in their places.

use std::collections::BTreeMap;

use document::{Item, Problem, Problems, Table, nearest};
use sim::Part;

use super::component::Component;
use super::parts;
use super::preset::{Kind, Object};

/// A step of an operation.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// Its number among all steps that count passes.
    pub(super) counter: usize,
    /// Once for so many passes of a core.
    pub(super) every: u32,
    pub(super) when: Option<When>,
    pub(super) act: Act,
    pub(super) inner: Vec<Step>,
}

/// When a step is done at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// The inode's time stamps have not changed in this tick.
    Tick,
    /// The inode was the last that became an orphan.
    OrphanHead,
    /// The call gives up pages.
    FreesPages,
    /// The inode's data was written since a sync, or it is in no log yet.
    Unlogged,
}

/// What a step does. Objects are numbers in the preset's list.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Add(usize),
    Exchange(usize),
    Lock {
        object: usize,
        touch: u64,
    },
    Share(usize),
    Part(&'static Part),
    Serve {
        object: usize,
        data: bool,
    },
    Component(Component),
    Each(Which),
    Copy,
    /// Only the steps inside: a routine.
    Group,
}

/// Which pages of a call steps are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Used,
    New,
    Freed,
    Dirty,
}

const WHICH: [(&str, Which); 4] = [
    ("page", Which::Used),
    ("new_page", Which::New),
    ("freed_page", Which::Freed),
    ("dirty_page", Which::Dirty),
];
const WHEN: [(&str, When); 4] = [
    ("tick", When::Tick),
    ("orphan_head", When::OrphanHead),
    ("frees_pages", When::FreesPages),
    ("unlogged", When::Unlogged),
];

/// What steps may name.
pub(super) struct Names<'a, 'd> {
    pub(super) objects: &'a [Object],
    /// The lists of steps of routines, as they stand in the file.
    pub(super) routines: &'a BTreeMap<String, Item<'d>>,
}

/// Steps as they are read: which objects they use, and how many count passes.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) used: Vec<bool>,
    pub(super) called: Vec<String>,
    pub(super) counters: usize,
    /// The routines that the step stands in, the outermost first.
    pub(super) within: Vec<String>,
}

impl Names<'_, '_> {
    /// A list of steps, without those of the routines in `without`.
    pub(super) fn steps(
        &self,
        list: &Item<'_>,
        without: &[String],
        reading: &mut Reading,
    ) -> Result<Vec<Step>, Problem> {
        let mut all = Problems::default();
        let mut steps = Vec::new();
        for item in list.items()? {
            let step = item.read(|table| self.step(&item, table, without, reading));
            steps.extend(all.take(step).flatten());
        }
        all.finish().map(|()| steps)
    }

    fn step(
        &self,
        item: &Item<'_>,
        table: &Table<'_>,
        without: &[String],
        reading: &mut Reading,
    ) -> Result<Option<Step>, Problem> {
        let every = table.get("every").map(|item| item.number()).transpose()?.unwrap_or(1);
        let when = table.get("when").map(|item| item.one_of(&WHEN)).transpose()?;
        let inner_list = table.get("steps");
        let called = table.get("call");
        let act = match &called {
            Some(_) => Act::Group,
            None => self.act(item, table, reading)?,
        };
        let takes_inner = matches!(act, Act::Lock { .. } | Act::Share(_) | Act::Each(_));
        let inner = match (called, inner_list) {
            (Some(name), None) => match self.called(&name, without, reading)? {
                Some(inner) => inner,
                None => return Ok(None),
            },
            (None, Some(list)) if takes_inner => self.steps(&list, without, reading)?,
            (_, Some(list)) => return Err(list.problem("only lock, share and each have steps inside")),
            (None, None) => Vec::new(),
        };
        let counter = reading.counters;
        reading.counters += usize::from(every > 1);
        let every = u32::try_from(every).ok().filter(|every| *every > 0);
        let every = every.ok_or_else(|| item.problem("\"every\" is a number of passes, 1 or more"))?;
        Ok(Some(Step { counter, every, when, act, inner }))
    }

    /// What the step does: the one key of these that it has.
    fn act(&self, item: &Item<'_>, table: &Table<'_>, reading: &mut Reading) -> Result<Act, Problem> {
        let mut acts = Vec::new();
        if let Some(name) = table.get("add") {
            acts.push(Act::Add(self.object(&name, &[Kind::Line], reading)?));
        }
        if let Some(name) = table.get("exchange") {
            acts.push(Act::Exchange(self.object(&name, &[Kind::Line], reading)?));
        }
        if let Some(name) = table.get("lock") {
            let kinds = [Kind::Mutex, Kind::Spinlock, Kind::Sleeplock, Kind::Rwsem];
            let object = self.object(&name, &kinds, reading)?;
            acts.push(Act::Lock { object, touch: touch(table)? });
        }
        if let Some(name) = table.get("share") {
            acts.push(Act::Share(self.object(&name, &[Kind::Rwsem], reading)?));
        }
        if let Some(name) = table.get("serve") {
            let data = table.get("data").map(|item| item.typed::<bool>()).transpose()?.unwrap_or(false);
            acts.push(Act::Serve { object: self.object(&name, &[Kind::Thread], reading)?, data });
        }
        if let Some(name) = table.get("part") {
            let text = name.text()?;
            let part = parts::ALL.iter().find(|(known, _)| *known == text).map(|(_, part)| Act::Part(part));
            acts.push(
                part.ok_or_else(|| unknown(&name, "part", parts::ALL.iter().map(|(known, _)| *known)))?,
            );
        }
        if let Some(name) = table.get("component") {
            acts.push(Act::Component(self.component(&name, reading)?));
        }
        if let Some(which) = table.get("each") {
            acts.push(Act::Each(which.one_of(&WHICH)?));
        }
        if let Some(copy) = table.get("copy") {
            if !copy.typed::<bool>()? {
                return Err(copy.problem("leave the step out instead"));
            }
            acts.push(Act::Copy);
        }
        match (acts.pop(), acts.is_empty()) {
            (Some(act), true) => Ok(act),
            _ => Err(item.problem(
                "a step has one of add, exchange, lock, share, call, part, serve, component, each, copy",
            )),
        }
    }

    /// A component, all of whose objects there are.
    fn component(&self, name: &Item<'_>, reading: &mut Reading) -> Result<Component, Problem> {
        let component = name.one_of(&Component::NAMES)?;
        for needed in component.objects() {
            let Some(number) = self.objects.iter().position(|object| object.name == *needed) else {
                let text = name.text()?;
                return Err(name.problem(format!("\"{text}\" needs an object called \"{needed}\"")));
            };
            reading.used[number] = true;
        }
        Ok(component)
    }

    fn object(&self, name: &Item<'_>, kinds: &[Kind], reading: &mut Reading) -> Result<usize, Problem> {
        let text = name.text()?;
        let known = || self.objects.iter().map(|object| object.name.as_str());
        let Some(number) = self.objects.iter().position(|object| object.name == text) else {
            return Err(unknown(name, "object", known()));
        };
        let kind = self.objects[number].kind;
        if !kinds.contains(&kind) {
            return Err(
                name.problem(format!("\"{text}\" is a {}, which this step does not take", kind.word()))
            );
        }
        reading.used[number] = true;
        Ok(number)
    }

    /// The steps of a routine; none where the file system is without it.
    fn called(
        &self,
        name: &Item<'_>,
        without: &[String],
        reading: &mut Reading,
    ) -> Result<Option<Vec<Step>>, Problem> {
        let text = name.text()?;
        let Some(list) = self.routines.get(&text) else {
            return Err(unknown(name, "routine", self.routines.keys().map(String::as_str)));
        };
        if reading.within.contains(&text) {
            let circle = reading.within.join(", ");
            return Err(name.problem(format!("routine \"{text}\" calls itself, by way of {circle}")));
        }
        reading.called.push(text.clone());
        if without.contains(&text) {
            return Ok(None);
        }
        reading.within.push(text);
        let steps = self.steps(list, without, reading);
        reading.within.pop();
        steps.map(Some)
    }
}

/// Lines that move with the lock: a number, and the fields that it counts.
fn touch(table: &Table<'_>) -> Result<u64, Problem> {
    let Some(item) = table.get("touch") else { return Ok(0) };
    let lines = item.number()?;
    if table.get("fields").map(|fields| fields.text()).transpose()?.is_none_or(|text| text.trim().is_empty())
    {
        return Err(item.problem("\"touch\" needs \"fields\": the fields on these lines"));
    }
    Ok(lines)
}

/// A name that nothing has.
pub(super) fn unknown<'a>(item: &Item<'_>, what: &str, known: impl Iterator<Item = &'a str>) -> Problem {
    match item.text() {
        Ok(text) => item.problem(format!("no {what} is called \"{text}\"; {}", nearest(&text, known))),
        Err(problem) => problem,
    }
}
