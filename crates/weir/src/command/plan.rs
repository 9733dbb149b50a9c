//! `weir plan`: a new plan to fill in, and everything that is wrong with one.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use lab::Plan;

use crate::experiment;
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
        /// The file to write, which must not exist
        file: PathBuf,
    },
    /// Print all errors of plans, or how many cells they have
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
                if file.exists() {
                    let message = format!("{} exists: name a file that does not", file.display());
                    return Err(Failure::usage(message));
                }
                results::file::write_atomic(&file, TEMPLATE)?;
                output.note(&format!("plan  {}", file.display()));
                Ok(())
            }
            Action::Check { plans, quick } => plans.iter().try_for_each(|name| check(name, quick, output)),
        }
    }
}

fn check(name: &str, quick: bool, output: &Output) -> Result<(), Failure> {
    let plan = Plan::load(name, quick)?;
    experiment::check_figures(&plan)?;
    let cells = plan.cells()?;
    if output.is_json() {
        let titles: Vec<_> = cells.iter().map(lab::CellSpec::title).collect();
        output.document(&serde_json::json!({
            "schema": "weir.plan/1", "name": plan.name, "repeats": plan.repeats, "cells": titles
        }));
    } else {
        output.data(&format!("{name}: {} cells, {} repeats each\n", cells.len(), plan.repeats));
    }
    Ok(())
}
