//! The order of an explored run: who goes on at each point ([`crate::schedule`]).
//!
//! The set of ready tasks is the same as in any run, with the same keys; here it is only asked who is in it. All of this is
//! reached through the branch for unusual runs, so an ordinary one does not pay for it.

use std::cell::RefCell;

use rand::RngExt;

use super::{Mode, NO_TASK, Scheduler};
use crate::context::{Context, TaskId};
use crate::rng::{Rng, Seed};
use crate::schedule::{EARLY_TIMEOUT, Interleaving, Schedule, Switch};

/// A run that passes so many points does not end.
const POINTS_MAX: u64 = 10_000_000;

/// The priority that a task starts with is at least this; what it falls to is below.
const FIRST_PRIORITY: u64 = 1 << 32;

/// Chooses, and remembers what was chosen.
pub(super) struct Explorer(RefCell<State>);

struct State {
    policy: Policy,
    rng: Rng,
    so_far: Interleaving,
    /// Tasks that can go on and do not wait for a time, by number.
    able: Vec<TaskId>,
    /// Those that wait for a time, with it.
    timed: Vec<(u64, TaskId)>,
}

enum Policy {
    Random,
    Pct(Pct),
    /// The switches that are left, the next one last.
    Directed(Vec<Switch>),
}

struct Pct {
    /// By task; 0: none yet.
    priorities: Vec<u64>,
    /// Decisions at which a task falls, the next one last.
    falls: Vec<u64>,
}

impl Explorer {
    pub(super) fn new(schedule: &Schedule, seed: Seed) -> Self {
        let mut rng = seed.derive("schedule", 0).rng();
        let policy = match schedule {
            Schedule::Random => Policy::Random,
            Schedule::Pct { depth, length } => {
                let mut falls: Vec<u64> =
                    (1..*depth).map(|_| rng.random_range(1..=(*length).max(1))).collect();
                falls.sort_unstable_by(|one, other| other.cmp(one));
                Policy::Pct(Pct { priorities: Vec::new(), falls })
            }
            Schedule::Directed(switches) => Policy::Directed(switches.iter().rev().copied().collect()),
        };
        let so_far = Interleaving::default();
        Self(RefCell::new(State { policy, rng, so_far, able: Vec::new(), timed: Vec::new() }))
    }

    pub(super) fn into_interleaving(self) -> Interleaving {
        self.0.into_inner().so_far
    }

    pub(super) fn points(&self) -> u64 {
        self.0.borrow().so_far.points
    }
}

impl Scheduler {
    /// A point of an explored run: the current task goes on, or another does first.
    pub(super) fn point(&self, cx: &Context) {
        let next = self.choose(Some(cx));
        let points = self.explorer.as_ref().map_or(0, |explorer| explorer.points());
        assert!(
            points < POINTS_MAX,
            "no end after {points} points of a schedule: task \"{}\" goes on",
            cx.name
        );
        if next == cx.id {
            return;
        }
        self.ready.remove(next);
        self.ready.insert(cx.id, cx.time.get());
        Self::suspend(cx, next);
        if self.is_ending() {
            Self::unwind_once(cx);
        }
    }

    /// Takes a ready task out, because the one that ran cannot go on; [`NO_TASK`] when there is none.
    pub(super) fn take_chosen(&self) -> TaskId {
        let chosen = self.choose(None);
        if chosen != NO_TASK {
            self.ready.remove(chosen);
        }
        chosen
    }

    fn choose(&self, current: Option<&Context>) -> TaskId {
        let explorer = self.explorer.as_ref().expect("an explored run has its explorer");
        let state = &mut *explorer.0.borrow_mut();
        state.able.clear();
        state.timed.clear();
        for id in 0..self.numbers.get() {
            let runs = current.is_some_and(|cx| cx.id == id);
            if !runs && !self.ready.contains(id) {
                continue;
            }
            let cx = self.context_of(id);
            if cx.parking.waits.get().is_some() || cx.parking.dozes.get() {
                let until = cx.parking.waits.get().and_then(|waiting| waiting.deadline);
                state.timed.push((until.unwrap_or(cx.time.get()), id));
            } else {
                state.able.push(id);
            }
        }
        state.so_far.points += 1;
        state.choose(current.map(|cx| cx.id))
    }

    /// Whether this run is explored, and not ending.
    #[inline]
    pub(crate) fn is_explored(&self) -> bool {
        self.mode.get() == Mode::Explored
    }

    /// A point of explored runs that is none of ordinary ones.
    #[inline]
    pub(crate) fn turn(&self, cx: &Context) {
        if self.is_explored() {
            self.give_way(cx, cx.time.get());
        }
    }

    /// The current task sleeps until its time, which is that of its waking already; `since` is when it fell asleep.
    pub(crate) fn sleep(&self, cx: &Context, since: u64) {
        let until = cx.time.replace(since);
        self.leave_core(cx);
        cx.time.set(until);
        self.doze(cx);
        self.enter_core(cx);
    }

    /// An interaction of a task that waits for its own time to come.
    pub(crate) fn doze(&self, cx: &Context) {
        cx.parking.dozes.set(true);
        self.interact(cx);
        cx.parking.dozes.set(false);
    }
}

impl State {
    fn choose(&mut self, current: Option<TaskId>) -> TaskId {
        let usual = current
            .filter(|id| self.able.contains(id))
            .or_else(|| self.able.first().copied())
            .or_else(|| self.timed.iter().min().map(|(_, id)| *id));
        let Some(usual) = usual else { return NO_TASK };
        let decides = self.able.len() > 1;
        self.so_far.decisions += u64::from(decides);
        let next = match &mut self.policy {
            Policy::Random => self.draw(usual),
            Policy::Pct(pct) if decides => pct.choose(&self.able, self.so_far.decisions, &mut self.rng),
            Policy::Pct(_) => usual,
            Policy::Directed(left) => {
                let switch = left.pop_if(|switch| switch.point <= self.so_far.points);
                let wanted = switch.filter(|switch| switch.point == self.so_far.points);
                let can =
                    |id: &TaskId| self.able.contains(id) || self.timed.iter().any(|(_, timed)| timed == id);
                wanted.map(|switch| switch.to).filter(can).unwrap_or(usual)
            }
        };
        if next != usual {
            self.so_far.switches.push(Switch::new(self.so_far.points, next));
        }
        if decides || next != usual {
            let mixed = self.so_far.fingerprint ^ Seed(u64::from(next)).derive("turn", 0).0;
            self.so_far.fingerprint = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        next
    }

    fn draw(&mut self, usual: TaskId) -> TaskId {
        let early = !self.timed.is_empty() && self.rng.random_range(0..EARLY_TIMEOUT) == 0;
        match (self.able.len(), early) {
            (1.., true) => self.timed[self.rng.random_range(0..self.timed.len())].1,
            (2.., _) => self.able[self.rng.random_range(0..self.able.len())],
            _ => usual,
        }
    }
}

impl Pct {
    fn choose(&mut self, able: &[TaskId], decision: u64, rng: &mut Rng) -> TaskId {
        for &id in able {
            let id = id as usize;
            if self.priorities.len() <= id {
                self.priorities.resize(id + 1, 0);
            }
            if self.priorities[id] == 0 {
                self.priorities[id] = rng.random_range(FIRST_PRIORITY..u64::MAX);
            }
        }
        let highest = |priorities: &[u64]| {
            *able.iter().max_by_key(|id| priorities[**id as usize]).expect("a decision has tasks")
        };
        while self.falls.pop_if(|fall| *fall <= decision).is_some() {
            // Below all that have fallen before.
            let falls = highest(&self.priorities);
            self.priorities[falls as usize] = 1 + self.falls.len() as u64;
        }
        highest(&self.priorities)
    }
}
