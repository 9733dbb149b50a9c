//! From TOML to a plan. Every key that is not asked for here is refused with its place.

use std::collections::BTreeMap;

use sim::Clock;

use super::{Axis, AxisValue, FigureText, Hypothesis, Order, Place, Plan, Standing, Target, Workload};
use crate::counters::Counters;
use crate::error::Error;
use crate::prices::Prices;
use document::{Item, Problem, Problems, Table};

const CLOCKS: [(&str, Clock); 2] = [("virtual", Clock::Virtual), ("real", Clock::Real)];
const ORDERS: [(&str, Order); 2] = [("interleaved", Order::Interleaved), ("sequential", Order::Sequential)];

/// What is said of a scaled-down run whose plan does not say it better.
const QUICK: &str = "Scaled down (--quick): not the published sizes.";

/// The parts of a plan that can be read, and what is wrong with the others.
pub(super) fn partly(origin: &str, text: &str, quick: bool) -> (Option<Plan>, Result<Plan, Problem>) {
    let mut partly = None;
    let whole = document::read(origin, text, |root| {
        let mut all = Problems::default();
        let head = root.need("plan", "name, why and how to run").and_then(|head| head.read(head_of));
        let mut plan = all.take(head).unwrap_or_else(|| Plan::new(""));
        plan.axis = each(root, "axis", &mut all, axis);
        let has_all_axes = all.is_empty();
        plan.workload = each(root, "workload", &mut all, |table| workload(table, quick));
        let options = root.get("fs").map_or(Ok(BTreeMap::new()), |item| item.read(words));
        plan.fs = all.take(options).unwrap_or_default();
        let processor = root.get("processor").map_or(Ok(BTreeMap::new()), |item| item.read(words));
        plan.processor = all.take(processor).unwrap_or_default();
        plan.figure = all.take(figures(root)).unwrap_or_default();
        let expect = root.get("expect").map_or(Ok(Vec::new()), |item| item.read(hypotheses));
        plan.expect = all.take(expect).unwrap_or_default();
        all.take(distinct_axes(&plan, root));
        if let Some(item) = root.get("quick") {
            all.take(item.read(|table| quicken(table, (&mut plan, has_all_axes), quick)));
        }
        if let Some(item) = root.get("standing") {
            plan.standing = all.take(item.read(|table| Standing::read(table, &plan)));
        }
        all.take(root.finish());
        // What follows speaks of the parts together, which must be right for it; names can be looked up before.
        if !all.is_empty() {
            all.take(names(&plan, root));
        }
        plan.settle_medium();
        partly = Some(plan.clone());
        all.finish().map(|()| plan)
    });
    (partly, whole)
}

/// Names that nothing has, in the parts of a plan that could be read.
fn names(plan: &Plan, root: &Table<'_>) -> Result<(), Problem> {
    let wrong = match plan.cells() {
        Err(Error::Several(wrong)) => wrong,
        Err(error) => vec![error],
        Ok(_) => Vec::new(),
    };
    let mut all = Problems::default();
    for error in wrong {
        match error {
            Error::Problem(problem) => drop(all.take(Err::<(), _>(problem))),
            Error::Unknown { .. } => drop(all.take(Err::<(), _>(root.problem(error.to_string())))),
            // It may be only what the rest has left out.
            _ => {}
        }
    }
    all.finish()
}

fn head_of(table: &Table<'_>) -> Result<Plan, Problem> {
    let (mut all, mut plan) = (Problems::default(), Plan::new(""));
    let name = table.need("name", "the name of its results").and_then(|item| item.text());
    all.put(&mut plan.name, name.map(Some));
    let why = table.need("why", "the question that the plan asks").and_then(|item| item.text());
    all.put(&mut plan.why, why.map(Some));
    let stop = table.need("stop", "a time such as \"60s\" or a count such as \"1M ops\"");
    all.put(&mut plan.stop, stop.and_then(|item| item.parse()).map(Some));
    all.put(&mut plan.warm_up, table.get("warm_up").map(|item| item.parse()).transpose());
    all.put(&mut plan.seed, table.get("seed").map(|item| item.number()).transpose());
    all.put(&mut plan.repeats, table.get("repeats").map(|item| repeats(&item)).transpose());
    all.put(&mut plan.clock, table.get("clock").map(|item| item.one_of(&CLOCKS)).transpose());
    all.put(&mut plan.machine, table.get("machine").map(|item| item.text()).transpose());
    all.put(&mut plan.prices, table.get("prices").map(|item| prices(&item)).transpose());
    all.put(&mut plan.order, table.get("order").map(|item| item.one_of(&ORDERS)).transpose());
    plan.region = all.take(table.get("region").map(|item| item.parse()).transpose()).flatten();
    plan.churn = all.take(table.get("churn").map(|item| churn(&item)).transpose()).flatten();
    let counters = table.get("counters").map(|item| item.one_of(&Counters::WORDS)).transpose();
    all.put(&mut plan.counters, counters);
    plan.note = all.take(table.get("note").map(|item| item.text()).transpose()).flatten();
    all.take(table.finish());
    all.finish().map(|()| plan)
}

fn prices(item: &Item<'_>) -> Result<Vec<Prices>, Problem> {
    Problems::each(item.one_or_more()?.iter().map(Item::parse))
}

fn churn(item: &Item<'_>) -> Result<u32, Problem> {
    super::churn::times(&item.word()?).map_err(|message| item.problem(message))
}

fn repeats(item: &Item<'_>) -> Result<u32, Problem> {
    let number = item.number().ok().and_then(|number: u64| u32::try_from(number).ok());
    let number = number.filter(|number| (1..=1000).contains(number));
    number.ok_or_else(|| item.problem("\"repeats\" must be between 1 and 1000"))
}

/// Reads each table of an array of tables; those that are wrong are left out.
fn each<T>(
    root: &Table<'_>,
    key: &'static str,
    all: &mut Problems,
    read: impl Fn(&Table<'_>) -> Result<T, Problem>,
) -> Vec<T> {
    let items = root.get(key).map_or(Ok(Vec::new()), |item| item.items());
    let items = all.take(items).unwrap_or_default();
    items.iter().filter_map(|item| all.take(item.read(&read))).collect()
}

fn figures(root: &Table<'_>) -> Result<Vec<FigureText>, Problem> {
    let items = root.get("figure").map_or(Ok(Vec::new()), |item| item.items())?;
    Problems::each(items.iter().map(|item| Ok(FigureText { text: item.json()?, at: Place::at(item) })))
}

/// A table of words by free names.
pub(crate) fn words(table: &Table<'_>) -> Result<BTreeMap<String, String>, Problem> {
    let read = |(key, item): (String, Item<'_>)| Ok((key, item.word()?));
    Ok(Problems::each(table.take_rest().into_iter().map(read))?.into_iter().collect())
}

/// Switches of a suite by name.
pub(crate) fn switches(table: &Table<'_>) -> Result<BTreeMap<String, bool>, Problem> {
    let read = |(name, item): (String, Item<'_>)| Ok((name, item.parse::<bool>()?));
    Ok(Problems::each(table.take_rest().into_iter().map(read))?.into_iter().collect())
}

pub(crate) fn axis(table: &Table<'_>) -> Result<Axis, Problem> {
    let mut all = Problems::default();
    let (sets, unaffected) = (table.get("sets"), table.get("unaffected"));
    let targets = sets.as_ref().and_then(|item| all.take(targets(item)));
    let unaffected = unaffected.and_then(|item| all.take(item.words())).unwrap_or_default();
    let mut rest = table.take_rest();
    let Some((name, item)) = rest.pop() else {
        let missing = table.problem("[axis] needs a key that names the axis, such as threads = [1, 2, 4]");
        all.take(Err::<(), _>(missing.clone()));
        return all.finish().and(Err(missing));
    };
    if let Some((other, item)) = rest.pop() {
        let message = format!("an [[axis]] has one name, and this has \"{name}\" and \"{other}\"");
        all.take(Err::<(), _>(item.problem(message)));
    }
    let values = all.take(values(&name, &item)).unwrap_or_default();
    let known = Axis::known(&name, values.clone());
    if known.is_some() && sets.is_some() {
        all.take(Err::<(), _>(item.problem(format!("\"{name}\" already says what it sets"))));
    } else if known.is_none() && sets.is_none() {
        let message = format!(
            "axis \"{name}\" needs sets = [\"var.NAME\", \"fs.OPTION\", \"medium.KEY\" or \"processor.KEY\"]"
        );
        all.take(Err::<(), _>(item.problem(message)));
    }
    all.finish()?;
    let sets = known.map_or(targets.unwrap_or_default(), |known| known.sets);
    Ok(Axis { name, values, sets, unaffected, at: Place::of(table) })
}

fn targets(item: &Item<'_>) -> Result<Vec<Target>, Problem> {
    Problems::each(item.one_or_more()?.iter().map(Item::parse))
}

fn values(axis: &str, item: &Item<'_>) -> Result<Vec<AxisValue>, Problem> {
    let (mut all, mut values) = (Problems::default(), Vec::<AxisValue>::new());
    for element in item.one_or_more()? {
        let value = if element.is_table() {
            element.read(|table| rich_value(axis, table))
        } else {
            element.word().map(AxisValue::plain)
        };
        let Some(value) = all.take(value) else { continue };
        if values.iter().any(|other| other.label == value.label) {
            let message = format!("axis \"{axis}\" has \"{}\" twice", value.label);
            all.take(Err::<(), _>(element.problem(message)));
        }
        values.push(value);
    }
    all.finish()?;
    if values.is_empty() { Err(item.problem(format!("axis \"{axis}\" has no values"))) } else { Ok(values) }
}

/// `{ name = "hinfs", label = "small", buffer = "64MiB" }`, or `{ label = "0.1", value = "512MiB", vars = { nfiles = 10 } }`.
fn rich_value(axis: &str, table: &Table<'_>) -> Result<AxisValue, Problem> {
    let key = if axis == "fs" { "name" } else { "value" };
    let value = table.need(key, "what is set")?.word()?;
    let label = table.get("label").map_or(Ok(value.clone()), |item| item.word())?;
    let vars = table.get("vars").map_or(Ok(BTreeMap::new()), |item| item.read(words))?;
    let options = if axis == "fs" { words(table)? } else { BTreeMap::new() };
    Ok(AxisValue { label, value, options, vars })
}

fn workload(table: &Table<'_>, quick: bool) -> Result<Workload, Problem> {
    let mut all = Problems::default();
    let mut workload = Workload { at: Place::of(table), ..Workload::named("") };
    let name = table.need("name", "SUITE/WORKLOAD as `weir list workloads` prints it, or a file of a suite");
    all.put(&mut workload.name, name.and_then(|item| item.text()).map(Some));
    workload.label = all.take(table.get("label").map(|item| item.text()).transpose()).flatten();
    all.put(&mut workload.vars, table.get("vars").map(|item| item.read(words)).transpose());
    all.put(&mut workload.switches, table.get("switches").map(|item| item.read(switches)).transpose());
    workload.stop = all.take(table.get("stop").map(|item| item.parse()).transpose()).flatten();
    workload.region = all.take(table.get("region").map(|item| item.parse()).transpose()).flatten();
    let smaller = table.get("quick").map(|item| item.read(quick_workload)).transpose();
    let smaller = all.take(smaller).flatten();
    all.take(table.finish());
    all.finish()?;
    if let Some((vars, stop, region)) = smaller.filter(|_| quick) {
        workload.vars.extend(vars);
        workload.stop = stop.or(workload.stop);
        workload.region = region.or(workload.region);
    }
    Ok(workload)
}

type QuickWorkload = (BTreeMap<String, String>, Option<super::Stop>, Option<sim::Bytes>);

fn quick_workload(table: &Table<'_>) -> Result<QuickWorkload, Problem> {
    let mut all = Problems::default();
    let stop = all.take(table.get("stop").map(|item| item.parse()).transpose()).flatten();
    let region = all.take(table.get("region").map(|item| item.parse()).transpose()).flatten();
    let vars = all.take(words(table)).unwrap_or_default();
    all.finish().map(|()| (vars, stop, region))
}

/// Applies `[quick]`; an axis that it names must be one of the plan, of which some may be missing because they are wrong.
fn quicken(table: &Table<'_>, (plan, has_all_axes): (&mut Plan, bool), quick: bool) -> Result<(), Problem> {
    let mut all = Problems::default();
    let mut quickened = plan.clone();
    quickened.quick = true;
    let note = table.get("note").map_or(Ok(QUICK.to_owned()), |item| item.text());
    quickened.note = all.take(note);
    all.put(&mut quickened.stop, table.get("stop").map(|item| item.parse()).transpose());
    all.put(&mut quickened.repeats, table.get("repeats").map(|item| repeats(&item)).transpose());
    all.put(&mut quickened.prices, table.get("prices").map(|item| prices(&item)).transpose());
    let region = all.take(table.get("region").map(|item| item.parse()).transpose()).flatten();
    quickened.region = region.or(quickened.region);
    let options = table.get("fs").map(|item| item.read(words)).transpose();
    quickened.fs.extend(all.take(options).flatten().unwrap_or_default());
    let processor = table.get("processor").map(|item| item.read(words)).transpose();
    quickened.processor.extend(all.take(processor).flatten().unwrap_or_default());
    if let Some(item) = table.get("axis") {
        all.take(item.read(|axes| quicken_axes(axes, (&mut quickened, has_all_axes))));
    }
    all.take(table.finish());
    all.finish()?;
    if quick {
        *plan = quickened;
    }
    Ok(())
}

fn quicken_axes(table: &Table<'_>, (plan, has_all_axes): (&mut Plan, bool)) -> Result<(), Problem> {
    let mut all = Problems::default();
    for (name, item) in table.take_rest() {
        let values = all.take(values(&name, &item));
        match plan.axis.iter_mut().find(|axis| axis.name == name) {
            Some(axis) => axis.values = values.unwrap_or_default(),
            None if has_all_axes => {
                let message = format!("[quick.axis] names \"{name}\", which is no axis of this plan");
                all.take(Err::<(), _>(item.problem(message)));
            }
            None => {}
        }
    }
    all.finish()
}

fn hypotheses(table: &Table<'_>) -> Result<Vec<Hypothesis>, Problem> {
    let read = |(_, item): (String, Item<'_>)| Ok(item.parse::<Hypothesis>()?.placed(Place::at(&item)));
    Problems::each(table.take_rest().into_iter().map(read))
}

fn distinct_axes(plan: &Plan, root: &Table<'_>) -> Result<(), Problem> {
    for (at, axis) in plan.axis.iter().enumerate() {
        if axis.name == "workload" || plan.axis[..at].iter().any(|other| other.name == axis.name) {
            return Err(root.problem(format!("axis \"{}\" is given twice", axis.name)));
        }
    }
    Ok(())
}
