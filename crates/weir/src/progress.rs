//! Progress of a plan, or of things that are counted: drawn on a terminal; elsewhere a line for each run of a plan that has ended,
//! and now and then what still runs.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab::{Plan, Progress};
use report::units::Unit;
use results::Sample;

use crate::output::{Output, several};

/// More plans than these are counted, not named.
const MOST_NAMED: usize = 20;

/// So often it is said what is running, where there is no terminal.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// Progress of the runs of a plan: a bar on a terminal, lines elsewhere.
pub(crate) struct Bar {
    drawn: ProgressBar,
    state: Arc<Mutex<State>>,
    /// Whether lines are told.
    lines: bool,
    /// Ends the thread that tells lines.
    ended: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    running: Vec<(String, Instant)>,
    finished: usize,
    all: usize,
}

impl Bar {
    /// A bar if `shown`, lines if `told`.
    pub(crate) fn new(shown: bool, told: bool) -> Self {
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        // Nothing is known of the time left until the first run has ended.
        let style = ProgressStyle::with_template("{prefix} {bar:24} {pos}/{len} {elapsed} {wide_msg}");
        bar.set_style(style.expect("the template is constant"));
        let state = Arc::<Mutex<State>>::default();
        let ended = Arc::new(AtomicBool::new(false));
        if told {
            let (state, ended) = (Arc::clone(&state), Arc::clone(&ended));
            std::thread::spawn(move || heartbeat(&state, &ended));
        }
        Self { drawn: bar, state, lines: told, ended }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        let names: Vec<&str> = state.running.iter().map(|(name, _)| name.as_str()).collect();
        self.drawn.set_message(names.join(" · "));
    }
}

/// Says now and then what still runs.
fn heartbeat(state: &Mutex<State>, ended: &AtomicBool) {
    let mut last = Instant::now();
    while !ended.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(200));
        if last.elapsed() < HEARTBEAT {
            continue;
        }
        last = Instant::now();
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let running =
            state.running.iter().map(|(name, since)| format!("{name} ({} s)", since.elapsed().as_secs()));
        let running = running.collect::<Vec<_>>().join(", ");
        if !running.is_empty() {
            anstream::eprintln!("  {}/{} done; running: {running}", state.finished, state.all);
        }
    }
}

impl Progress for Bar {
    fn begins(&self, plans: &[&Plan], runs: usize) {
        self.drawn.reset();
        self.drawn.set_length(runs as u64);
        // Under each reading of a paper its plans come again.
        let mut names: Vec<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
        let mut seen = BTreeSet::new();
        names.retain(|name| seen.insert(*name));
        let title = if names.len() > MOST_NAMED { several(names.len(), "plan") } else { names.join(" ") };
        self.drawn.set_prefix(title.clone());
        self.drawn.enable_steady_tick(Duration::from_millis(500));
        self.change(|state| (state.finished, state.all) = (0, runs));
        if self.lines {
            anstream::eprintln!("{title}: {}", several(runs, "run"));
        }
    }

    fn started(&self, title: &str) {
        self.change(|state| state.running.push((title.to_owned(), Instant::now())));
    }

    fn finished(&self, title: &str, sample: &Sample) {
        let (mut finished, mut all) = (0, 0);
        self.change(|state| {
            if let Some(at) = state.running.iter().position(|(other, _)| other == title) {
                state.running.remove(at);
            }
            state.finished += 1;
            // A run that is made again for a busy host comes on top.
            state.all = state.all.max(state.finished);
            (finished, all) = (state.finished, state.all);
        });
        let came = match &sample.failure {
            Some(failure) => format!("failed: {}", failure.what),
            None => Unit::OpsPerSecond.human(sample.throughput_ops_per_s),
        };
        let busy = sample.host.as_ref().filter(|host| !host.noise.is_empty());
        let busy = busy.map_or_else(String::new, |host| format!("   (busy host: {})", host.noise.join(", ")));
        let short = if sample.partial { "   (cut short)" } else { "" };
        self.drawn.println(format!("  {title}   {came}{short}{busy}"));
        if self.lines {
            anstream::eprintln!("  {finished}/{all} {title}   {came}{short}{busy}");
        }
        if finished == 1 {
            let style = ProgressStyle::with_template("{prefix} {bar:24} {pos}/{len} left {eta} {wide_msg}");
            self.drawn.set_style(style.expect("the template is constant"));
        }
        self.drawn.inc(1);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
        self.drawn.finish_and_clear();
    }
}

/// Progress of things that are counted: a bar on a terminal, now and then a line elsewhere.
pub(crate) struct Counter {
    drawn: ProgressBar,
    name: String,
    /// When a line was told last; none where none is told.
    told: Option<Mutex<Instant>>,
}

impl Counter {
    /// Progress to `count`.
    pub(crate) fn new(output: &Output, name: &str, count: u64) -> Self {
        let target =
            if output.shows_progress() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let drawn = ProgressBar::with_draw_target(Some(count), target);
        let style = ProgressStyle::with_template("{prefix} {bar:24} {pos}/{len} left {eta}");
        drawn.set_style(style.expect("the template is constant"));
        drawn.set_prefix(name.to_owned());
        let told = output.tells_progress().then(|| Mutex::new(Instant::now()));
        Self { drawn, name: name.to_owned(), told }
    }

    /// So many of so many are done.
    pub(crate) fn reach(&self, done: u64, all: u64) {
        self.drawn.set_length(all.max(done));
        self.drawn.set_position(done);
        self.tell();
    }

    /// One is done.
    pub(crate) fn one_more(&self) {
        self.drawn.inc(1);
        self.tell();
    }

    fn tell(&self) {
        let (done, all) = (self.drawn.position(), self.drawn.length().unwrap_or_default());
        // A look at the clock for each of millions would cost as much as they do.
        let Some(told) = self.told.as_ref().filter(|_| done % (all / 1000).max(1) == 0) else { return };
        let mut last = told.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() >= HEARTBEAT {
            *last = Instant::now();
            anstream::eprintln!("  {done}/{all} {}", self.name);
        }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.drawn.finish_and_clear();
    }
}
