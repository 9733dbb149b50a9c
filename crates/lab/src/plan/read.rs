//! From TOML to a plan. Every key that is not asked for here is refused with its place.

use std::collections::BTreeMap;

use sim::Clock;

use super::{Axis, AxisValue, FigureText, Hypothesis, Order, Place, Plan, Target, Workload};
use crate::document::{self, Item, Problem, Problems, Table};
use crate::error::Error;

const CLOCKS: [(&str, Clock); 2] = [("virtual", Clock::Virtual), ("real", Clock::Real)];
const ORDERS: [(&str, Order); 2] = [("interleaved", Order::Interleaved), ("sequential", Order::Sequential)];

/// What is said of a scaled-down run whose plan does not say it better.
const QUICK: &str = "Scaled down (--quick): not the published sizes.";

pub(super) fn plan(origin: &str, text: &str, quick: bool) -> Result<Plan, Problem> {
    document::read(origin, text, |root| {
        let mut all = Problems::default();
        let head = root.need("plan", "name, why and how to run").and_then(|head| head.read(head_of));
        let mut plan = all.take(head).unwrap_or_else(|| Plan::new(""));
        plan.axis = all.take(each(root, "axis", axis)).unwrap_or_default();
        plan.workload = all.take(each(root, "workload", |table| workload(table, quick))).unwrap_or_default();
        let options = root.get("fs").map_or(Ok(BTreeMap::new()), |item| item.read(words));
        plan.fs = all.take(options).unwrap_or_default();
        plan.figure = all.take(figures(root)).unwrap_or_default();
        let expect = root.get("expect").map_or(Ok(Vec::new()), |item| item.read(hypotheses));
        plan.expect = all.take(expect).unwrap_or_default();
        let smaller = root.get("quick");
        all.take(root.finish());
        // What follows speaks of the parts together, which must be right for it; names can be looked up before.
        if !all.is_empty() {
            all.take(names(&plan, root));
        }
        all.finish()?;
        if let Some(item) = smaller {
            item.read(|table| quicken(table, &mut plan, quick))?;
        }
        distinct_axes(&plan, root)?;
        Ok(plan)
    })
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
    all.put(&mut plan.seed, table.get("seed").map(|item| item.number()).transpose());
    all.put(&mut plan.repeats, table.get("repeats").map(|item| repeats(&item)).transpose());
    all.put(&mut plan.clock, table.get("clock").map(|item| item.one_of(&CLOCKS)).transpose());
    all.put(&mut plan.machine, table.get("machine").map(|item| item.text()).transpose());
    all.put(&mut plan.order, table.get("order").map(|item| item.one_of(&ORDERS)).transpose());
    plan.region = all.take(table.get("region").map(|item| item.parse()).transpose()).flatten();
    plan.note = all.take(table.get("note").map(|item| item.text()).transpose()).flatten();
    all.take(table.finish());
    all.finish().map(|()| plan)
}

fn repeats(item: &Item<'_>) -> Result<u32, Problem> {
    match u32::try_from(item.number()?) {
        Ok(number @ 1..=1000) => Ok(number),
        _ => Err(item.problem("\"repeats\" must be between 1 and 1000")),
    }
}

/// Reads each table of an array of tables.
fn each<T>(
    root: &Table<'_>,
    key: &'static str,
    read: impl Fn(&Table<'_>) -> Result<T, Problem>,
) -> Result<Vec<T>, Problem> {
    let items = root.get(key).map_or(Ok(Vec::new()), |item| item.items())?;
    let mut all = Problems::default();
    let read = items.iter().filter_map(|item| all.take(item.read(&read))).collect();
    all.finish().map(|()| read)
}

fn figures(root: &Table<'_>) -> Result<Vec<FigureText>, Problem> {
    let items = root.get("figure").map_or(Ok(Vec::new()), |item| item.items())?;
    items.iter().map(|item| Ok(FigureText { text: item.json()?, at: Place::at(item) })).collect()
}

/// A table of words by free names.
pub(crate) fn words(table: &Table<'_>) -> Result<BTreeMap<String, String>, Problem> {
    table.take_rest().into_iter().map(|(key, item)| Ok((key, item.word()?))).collect()
}

/// Switches of a suite by name.
pub(crate) fn switches(table: &Table<'_>) -> Result<BTreeMap<String, bool>, Problem> {
    table.take_rest().into_iter().map(|(name, item)| Ok((name, item.parse::<bool>()?))).collect()
}

pub(crate) fn axis(table: &Table<'_>) -> Result<Axis, Problem> {
    let sets = table.get("sets").map(|item| targets(&item)).transpose()?;
    let unaffected = table.get("unaffected").map_or(Ok(Vec::new()), |item| item.words())?;
    let mut rest = table.take_rest();
    let Some((name, item)) = rest.pop() else {
        return Err(table.problem("[axis] needs a key that names the axis, such as threads = [1, 2, 4]"));
    };
    if let Some((other, item)) = rest.pop() {
        return Err(
            item.problem(format!("an [[axis]] has one name, and this has \"{name}\" and \"{other}\""))
        );
    }
    let values = values(&name, &item)?;
    let axis = match (Axis::known(&name, values.clone()), sets) {
        (Some(_), Some(_)) => return Err(item.problem(format!("\"{name}\" already says what it sets"))),
        (Some(axis), None) => axis,
        (None, Some(sets)) => Axis { name, values, sets, unaffected: Vec::new(), at: Place::default() },
        (None, None) => {
            let message =
                format!("axis \"{name}\" needs sets = [\"var.NAME\", \"fs.OPTION\" or \"medium.KEY\"]");
            return Err(item.problem(message));
        }
    };
    Ok(Axis { unaffected, at: Place::of(table), ..axis })
}

fn targets(item: &Item<'_>) -> Result<Vec<Target>, Problem> {
    item.one_or_more()?.iter().map(Item::parse).collect()
}

fn values(axis: &str, item: &Item<'_>) -> Result<Vec<AxisValue>, Problem> {
    let mut values: Vec<AxisValue> = Vec::new();
    for element in item.one_or_more()? {
        let value = if element.is_table() {
            element.read(|table| rich_value(axis, table))?
        } else {
            AxisValue::plain(element.word()?)
        };
        if values.iter().any(|other| other.label == value.label) {
            return Err(element.problem(format!("axis \"{axis}\" has \"{}\" twice", value.label)));
        }
        values.push(value);
    }
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
    let mut workload = Workload {
        name: table
            .need("name", "SUITE/WORKLOAD as `weir list workloads` prints it, or a file of a suite")?
            .text()?,
        label: table.get("label").map(|item| item.text()).transpose()?,
        vars: table.get("vars").map_or(Ok(BTreeMap::new()), |item| item.read(words))?,
        switches: table.get("switches").map_or(Ok(BTreeMap::new()), |item| item.read(switches))?,
        stop: table.get("stop").map(|item| item.parse()).transpose()?,
        region: table.get("region").map(|item| item.parse()).transpose()?,
        at: Place::of(table),
    };
    let smaller = table.get("quick").map(|item| item.read(|quick| quick_workload(quick))).transpose()?;
    if let Some((vars, stop, region)) = smaller.filter(|_| quick) {
        workload.vars.extend(vars);
        workload.stop = stop.or(workload.stop);
        workload.region = region.or(workload.region);
    }
    Ok(workload)
}

type QuickWorkload = (BTreeMap<String, String>, Option<super::Stop>, Option<sim::Bytes>);

fn quick_workload(table: &Table<'_>) -> Result<QuickWorkload, Problem> {
    let stop = table.get("stop").map(|item| item.parse()).transpose()?;
    let region = table.get("region").map(|item| item.parse()).transpose()?;
    Ok((words(table)?, stop, region))
}

fn quicken(table: &Table<'_>, plan: &mut Plan, quick: bool) -> Result<(), Problem> {
    let mut quickened = plan.clone();
    quickened.quick = true;
    let note = table.get("note").map_or(Ok(QUICK.to_owned()), |item| item.text())?;
    quickened.note = Some(note);
    if let Some(item) = table.get("stop") {
        quickened.stop = item.parse()?;
    }
    if let Some(item) = table.get("repeats") {
        quickened.repeats = repeats(&item)?;
    }
    if let Some(item) = table.get("region") {
        quickened.region = Some(item.parse()?);
    }
    if let Some(item) = table.get("fs") {
        quickened.fs.extend(item.read(words)?);
    }
    if let Some(item) = table.get("axis") {
        item.read(|axes| quicken_axes(axes, &mut quickened))?;
    }
    if quick {
        *plan = quickened;
    }
    Ok(())
}

fn quicken_axes(table: &Table<'_>, plan: &mut Plan) -> Result<(), Problem> {
    for (name, item) in table.take_rest() {
        let Some(axis) = plan.axis.iter_mut().find(|axis| axis.name == name) else {
            return Err(item.problem(format!("[quick.axis] names \"{name}\", which is no axis of this plan")));
        };
        axis.values = values(&name, &item)?;
    }
    Ok(())
}

fn hypotheses(table: &Table<'_>) -> Result<Vec<Hypothesis>, Problem> {
    let entries = table.take_rest();
    let read = |(_, item): (String, Item<'_>)| Ok(item.parse::<Hypothesis>()?.placed(Place::at(&item)));
    entries.into_iter().map(read).collect()
}

fn distinct_axes(plan: &Plan, root: &Table<'_>) -> Result<(), Problem> {
    for (at, axis) in plan.axis.iter().enumerate() {
        if axis.name == "workload" || plan.axis[..at].iter().any(|other| other.name == axis.name) {
            return Err(root.problem(format!("axis \"{}\" is given twice", axis.name)));
        }
    }
    Ok(())
}
