//! `weir plan`: a new plan to fill in, and everything that is wrong with one.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use lab::Plan;

use super::run;
use crate::failure::Failure;
use crate::output::Output;

/// Write an example plan, or check plans without running them.
#[derive(Args, Debug)]
#[command(after_help = "Example: weir plan new mine.toml && weir plan check mine.toml && weir run mine.toml")]
pub(crate) struct PlanCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Write a small plan that can be run, with a comment on each table
    New {
        /// The file to write, which must not exist and whose name must end in .toml
        file: PathBuf,
    },
    /// Print the errors of plans, or how many cells they have
    Check {
        /// Files, or names of plans (`weir list plans`)
        #[arg(required = true, value_name = "PLAN")]
        plans: Vec<String>,
        /// Check the scaled-down variants
        #[arg(long)]
        quick: bool,
    },
}

/// A plan that runs, with what each part is for.
const TEMPLATE: &str = include_str!("../plan_template.toml");

impl PlanCommand {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        match self.action {
            Action::New { file } => {
                if file.extension().is_none_or(|ending| ending != "toml") {
                    let message = format!("{}: the name of a plan's file must end in .toml", file.display());
                    return Err(Failure::usage(message));
                }
                if file.exists() {
                    let message = format!("{} exists: name a file that does not", file.display());
                    return Err(Failure::usage(message));
                }
                results::file::write_atomic(&file, TEMPLATE)?;
                output.note(&format!("plan  {}", file.display()));
                if output.is_json() {
                    let file = file.display().to_string();
                    output.document(&serde_json::json!({ "schema": "weir.written/1", "file": file }));
                }
                Ok(())
            }
            Action::Check { plans, quick } => check_all(&plans, quick, output),
        }
    }
}

/// Checks each plan, also those after one that is wrong.
fn check_all(names: &[String], quick: bool, output: &Output) -> Result<(), Failure> {
    let (mut right, mut wrong) = (Vec::new(), Vec::new());
    for name in names {
        match run::load_and_check(name, quick) {
            Ok((plan, cells)) => right.push((name, plan, cells)),
            Err(error) => wrong.push(error),
        }
    }
    if !output.is_json() {
        for (name, plan, cells) in &right {
            output.data(&format!("{name}: {}\n", run::size(cells.len(), plan)));
        }
    }
    if let Some(error) = lab::Error::together(wrong) {
        return Err(error.into());
    }
    if output.is_json() {
        let documents: Vec<_> = right.iter().map(|(_, plan, cells)| document(plan, cells)).collect();
        match &documents[..] {
            [only] => output.document(only),
            several => output.document(&serde_json::json!({ "schema": "weir.plans/1", "plans": several })),
        }
    }
    Ok(())
}

fn document(plan: &Plan, cells: &[lab::CellSpec]) -> serde_json::Value {
    let titles: Vec<_> = cells.iter().map(lab::CellSpec::title).collect();
    serde_json::json!({
        "schema": "weir.plan/1", "name": plan.name, "repeats": plan.repeats, "cells": titles
    })
}
