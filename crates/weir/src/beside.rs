//! `--robust`: the settings beside those of a run, and whether the same designs are ahead in them.

use clap::{Args, ValueEnum};
use lab::neighbours::{self, Neighbour};
use lab::{Plan, Runner, Settings};
use results::{Clock, NeighbourRecord, ResultFile};

use crate::experiment::How;
use crate::output::Output;
use crate::progress::Bar;

/// Whether neighbouring settings are tried.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct Beside {
    /// Also try other prices, seeds, lengths, machines and media, half as long and at three times the cost at most: yes or no
    /// [default: yes where an HTML page of several designs is written]
    #[arg(
        long,
        value_enum,
        value_name = "YES|NO",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "yes",
        hide_short_help = true,
        hide_possible_values = true
    )]
    robust: Option<YesNo>,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum YesNo {
    Yes,
    No,
}

impl Beside {
    /// Notes in the results what the settings beside theirs show. What goes wrong there is told, and loses nothing.
    pub(crate) fn note(self, how: &How, results: &mut [ResultFile], output: &Output) {
        let page =
            how.outputs.iter().any(|path| path.extension().is_some_and(|extension| extension == "html"));
        for result in results.iter_mut().filter(|result| !result.partial) {
            let usual = page && result.clock == Clock::Virtual;
            let wanted = self.robust.map_or(usual, |choice| choice == YesNo::Yes);
            if !wanted {
                continue;
            }
            if report::prices::unranked(result).is_some() {
                output.note("the designs are not priced alike, so no settings beside these are tried");
                continue;
            }
            if result.axis_values("fs").len() < 2 {
                if self.robust == Some(YesNo::Yes) {
                    output.note("--robust: no designs are compared, so no settings beside these are tried");
                }
                continue;
            }
            let found = Plan::from_json(&result.plan).and_then(|plan| try_all(how, &plan, result, output));
            match found {
                Ok(records) => result.neighbours = records,
                Err(error) => output.note(&format!("the settings beside these were not tried: {error}")),
            }
        }
    }
}

fn try_all(
    how: &How,
    plan: &Plan,
    result: &ResultFile,
    output: &Output,
) -> Result<Vec<NeighbourRecord>, lab::Error> {
    let neighbours::Neighbours { run: all, left_out } = neighbours::of(plan);
    output.note(&format!("{} settings beside these run, too; --robust=no leaves them out", all.len()));
    let plans: Vec<Plan> = all.iter().map(|neighbour| neighbour.plan.clone()).collect();
    let bar = Bar::new(output.shows_progress(), false);
    let settings = Settings { check: false, save_image: None, ..how.settings() };
    let beside = match Runner::new(settings, &bar).run_all(&plans) {
        // Every cell of every setting failed: that is what they show.
        Err(error @ (lab::Error::Cell { .. } | lab::Error::Corrupt { .. })) => {
            output.note(&format!("no setting beside these gave numbers: {error}"));
            let failed = |neighbour: &Neighbour| NeighbourRecord {
                what: neighbour.what.clone(),
                ..NeighbourRecord::default()
            };
            return Ok(all.iter().map(failed).collect());
        }
        beside => beside?,
    };
    // A run that was interrupted leaves out the plans of which nothing ran.
    let of = |neighbour: &Neighbour| {
        let found = beside.iter().find(|file| file.name == neighbour.plan.name)?;
        Some(report::robust::judge(result, &neighbour.what, found))
    };
    let skipped = |what| NeighbourRecord { what, left_out: true, ..NeighbourRecord::default() };
    Ok(all.iter().filter_map(of).chain(left_out.into_iter().map(skipped)).collect())
}
