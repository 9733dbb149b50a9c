//! Progress of a plan, or of things that are counted, drawn on a terminal only.

use std::sync::Mutex;
use std::sync::PoisonError;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab::{Plan, Progress};
use report::units::Unit;
use results::Sample;

/// A bar for the runs of a plan.
pub(crate) struct Bar {
    bar: ProgressBar,
    running: Mutex<Vec<String>>,
}

impl Bar {
    /// A bar, hidden unless `shown`.
    pub(crate) fn new(shown: bool) -> Self {
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template("{prefix} {bar:24} {pos}/{len} left {eta} {wide_msg}");
        bar.set_style(style.expect("the template is constant"));
        Self { bar, running: Mutex::default() }
    }

    fn running(&self, change: impl FnOnce(&mut Vec<String>)) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut running);
        self.bar.set_message(running.join(" · "));
    }
}

impl Progress for Bar {
    fn begins(&self, plans: &[&Plan], runs: usize) {
        self.bar.reset();
        self.bar.set_length(runs as u64);
        let names: Vec<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
        self.bar.set_prefix(names.join(" "));
        self.bar.enable_steady_tick(std::time::Duration::from_millis(500));
    }

    fn started(&self, title: &str) {
        self.running(|running| running.push(title.to_owned()));
    }

    fn finished(&self, title: &str, sample: &Sample) {
        self.running(|running| {
            if let Some(at) = running.iter().position(|other| other == title) {
                running.remove(at);
            }
        });
        self.bar.println(format!("  {title}   {}", Unit::OpsPerSecond.human(sample.throughput_ops_per_s)));
        self.bar.inc(1);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A bar for things that are done one after the other.
pub(crate) struct Counter(ProgressBar);

impl Counter {
    /// A bar to `count`, hidden unless `shown`.
    pub(crate) fn new(shown: bool, name: &str, count: u64) -> Self {
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(count), target);
        let style = ProgressStyle::with_template("{prefix} {bar:24} {pos}/{len} left {eta}");
        bar.set_style(style.expect("the template is constant"));
        bar.set_prefix(name.to_owned());
        Self(bar)
    }

    /// One is done.
    pub(crate) fn one_more(&self) {
        self.0.inc(1);
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
