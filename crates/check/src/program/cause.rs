//! Why a state is broken: the fewest operations that must be lost for it, and the pair of calls that nothing orders.

use std::fmt::Write as _;

use rustc_hash::FxHashMap;

use super::Bits;
use super::alike::{Promise, bucket, lost_at, lost_of, site};
use super::checker::Verdict;
use super::closure::Closure;
use super::folder::FolderError;
use super::judge::{Judge, Violation};
use super::model::{Model, Null};
use super::operations::Operations;
use super::points::{Point, point_at};
use super::states::{State, Torn};
use super::story::Story;
use super::tree::Trees;

/// Judgements that the search for the fewest operations may take.
const TRIES: usize = 150;

/// A message without numbers, and the promise that is broken.
type Wanted<'a> = (&'a str, Promise);

/// What came after the lost operation and was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// An operation.
    Operation(u32),
    /// An acknowledgement.
    Ack(usize),
    /// Nothing: the crash alone is enough, wherever a sync is.
    Nothing,
}

/// A broken state with the fewest lost operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// What is broken.
    pub promise: Promise,
    /// What the judge says.
    pub message: String,
    /// The state.
    pub state: State,
    /// The time of the crash.
    pub at_ns: u64,
    /// Acknowledgements that had begun.
    pub acks: usize,
    /// Operations that had begun before the crash and are lost.
    pub lost: Vec<u32>,
    /// What was kept or told after the first of them.
    pub kept: Kept,
    /// What is alike in causes that are one: the kinds of both calls and their paths without numbers.
    pub key: String,
}

/// What a search for a cause works on.
pub struct Search<'a, 'b, 'j> {
    /// The program.
    pub story: &'a Story,
    /// Its operations.
    pub operations: &'a Operations,
    /// The model.
    pub model: &'a Model,
    /// Its points.
    pub points: &'a [Point],
    /// The judge.
    pub judge: &'b mut Judge<'j>,
    /// Trees of the model.
    pub trees: Trees<'a>,
}

impl Search<'_, '_, '_> {
    /// Whether a cause that another model has shown is one of this model too: its state is legal here, and broken.
    pub fn shows(&mut self, cause: &Cause) -> Result<bool, FolderError> {
        let wanted = (&*bucket(&cause.message), cause.promise);
        Ok(self.has(cause) && self.is_alike(&cause.state, cause.acks, wanted)?.is_some())
    }

    fn has(&self, cause: &Cause) -> bool {
        if self.model.null != Null::No || self.model.volatile {
            return false;
        }
        let point = point_at(self.operations, self.model, cause.at_ns);
        let mut whole = cause.state.set.clone();
        if let Some(torn) = cause.state.torn {
            let micro = &self.operations.all[torn.number as usize];
            if !micro.tears(self.model) || !point.free.contains(&torn.number) {
                return false;
            }
            whole.add(torn.number);
        }
        let mut begun = point.covered.clone();
        point.free.iter().for_each(|number| begun.add(*number));
        whole.numbers().all(|number| begun.has(number)) && self.is_legal(&point, &whole)
    }

    /// Gives what is said of a state, if it is broken in the same way: what was told is at stake in both, or in none.
    fn is_alike(
        &mut self,
        state: &State,
        acks: usize,
        wanted: Wanted<'_>,
    ) -> Result<Option<String>, FolderError> {
        let (said, promise) = wanted;
        let message = match self.judge.ask(&mut self.trees, state, acks)? {
            Verdict::Broken(message) if bucket(&message) == said => message,
            _ => return Ok(None),
        };
        let is_untold = promise == Promise::Durability
            && matches!(self.judge.ask(&mut self.trees, state, 0)?, Verdict::Broken(_));
        Ok(Some(message).filter(|_| !is_untold))
    }

    /// Finds the cause of a violation. None: a second judgement of the same tree differs, which is the judge's fault.
    pub fn cause(&mut self, violation: &Violation) -> Result<Option<Cause>, FolderError> {
        let wanted = bucket(&violation.message);
        let again = self.judge.anew(&mut self.trees, &violation.state, violation.acks)?;
        if again != Verdict::Broken(violation.message.clone()) {
            return Ok(None);
        }
        let (promise, mut acks) = (violation.promise(), violation.acks);
        let (mut state, mut message) = (violation.state.clone(), violation.message.clone());
        let (points, mut at) = (self.points, violation.point);
        if self.model.null != Null::No {
            return Ok(Some(self.told(&points[at], promise, state, (acks, message))));
        }
        let wanted = (&*wanted, promise);
        self.fewer_lost(&points[at], &mut state, acks, (wanted, &mut message))?;
        // The fewest acknowledgements: the crash came no earlier than the last of them.
        while acks > 1
            && let Some(text) = self.is_alike(&state, acks - 1, wanted)?
        {
            (acks, message) = (acks - 1, text);
        }
        let earlier = self.earlier(at, &mut state, acks, (wanted, &mut message))?;
        if earlier < at {
            at = earlier;
            self.fewer_lost(&points[at], &mut state, acks, (wanted, &mut message))?;
        }
        self.fewer_kept(&points[at], &mut state, acks, (wanted, &mut message))?;
        Ok(Some(self.told(&points[at], promise, state, (acks, message))))
    }

    /// Puts lost operations back, many at once and then fewer, the latest first.
    fn fewer_lost(
        &mut self,
        point: &Point,
        state: &mut State,
        acks: usize,
        (wanted, message): (Wanted<'_>, &mut String),
    ) -> Result<(), FolderError> {
        if state.torn.is_some() {
            let whole = State { set: state.set.clone(), torn: None };
            if let Some(text) = self.is_alike(&whole, acks, wanted)? {
                (*state, *message) = (whole, text);
            }
        }
        let mut tries = TRIES;
        let mut size = lost_of(point, state).len().max(1);
        loop {
            let lost = lost_of(point, state);
            let mut put_back = false;
            for part in lost.rchunks(size) {
                tries = tries.saturating_sub(1);
                let mut set = state.set.clone();
                for number in part {
                    set.add(*number);
                }
                let mut closure = Closure::new(self.operations, self.model, &point.loose, &point.free);
                closure.fill(&mut set);
                if state.torn.is_some_and(|torn| set.has(torn.number)) || set == state.set {
                    continue;
                }
                let tried = State { set, torn: state.torn };
                if tries > 0
                    && let Some(text) = self.is_alike(&tried, acks, wanted)?
                {
                    (*state, *message, put_back) = (tried, text, true);
                    break;
                }
            }
            if tries == 0 || !put_back && size == 1 {
                return Ok(());
            }
            if !put_back {
                size = size.div_ceil(2).min(size - 1).max(1);
            }
        }
    }

    /// Moves the crash to an earlier point, where less has begun and less is covered, as long as it is the same. Which point.
    fn earlier(
        &mut self,
        at: usize,
        state: &mut State,
        acks: usize,
        (wanted, message): (Wanted<'_>, &mut String),
    ) -> Result<usize, FolderError> {
        let points = self.points;
        let Some(first) = lost_of(&points[at], state).first().copied() else { return Ok(at) };
        let begun = self.operations.all[first as usize].begin_ns.max(self.last_told(acks));
        let (mut low, mut high) = (points.partition_point(|point| point.at_ns <= begun), at);
        while low < high {
            let middle = usize::midpoint(low, high);
            let found = match self.begun(&points[middle], state) {
                Some(tried) => self.is_alike(&tried, acks, wanted)?.map(|text| (tried, text)),
                None => None,
            };
            match found {
                Some((tried, text)) => (*state, *message, high) = (tried, text, middle),
                None => low = middle + 1,
            }
        }
        Ok(high)
    }

    /// Gives what of a state had begun at a point, if that is legal there.
    fn begun(&self, point: &Point, state: &State) -> Option<State> {
        let is_begun = |number: u32| self.operations.all[number as usize].begin_ns < point.at_ns;
        let mut set = Bits::new(self.operations.all.len());
        state.set.numbers().filter(|number| is_begun(*number)).for_each(|number| set.add(number));
        let torn = state.torn.filter(|torn| is_begun(torn.number));
        let mut whole = set.clone();
        if let Some(torn) = torn {
            whole.add(torn.number);
        }
        self.is_legal(point, &whole).then_some(State { set, torn })
    }

    fn is_legal(&self, point: &Point, set: &Bits) -> bool {
        point.covered.numbers().all(|number| set.has(number))
            && Closure::new(self.operations, self.model, &point.loose, &point.free).is_legal(set)
    }

    fn last_told(&self, acks: usize) -> u64 {
        acks.checked_sub(1).map_or(0, |last| self.operations.acks[last].at_ns)
    }

    /// Moves the crash earlier: what came last goes, as long as it is the same, and no more of what had begun then is lost.
    fn fewer_kept(
        &mut self,
        point: &Point,
        state: &mut State,
        acks: usize,
        (wanted, message): (Wanted<'_>, &mut String),
    ) -> Result<(), FolderError> {
        let told = self.last_told(acks);
        let all = &self.operations.all;
        let begin_ns = |number: &u32| all[*number as usize].begin_ns;
        // The crash came after the last telling, and so after what had ended before that.
        let is_young = |number: &u32| state.set.has(*number) && all[*number as usize].end_ns >= told;
        let kept: Vec<u32> = point.free.iter().copied().filter(is_young).collect();
        let mut times: Vec<u64> = kept.iter().map(begin_ns).collect();
        times.sort_unstable();
        times.dedup();
        let most = lost_at(self.operations, point, state, acks).1.len();
        let (mut low, mut high) = (0, times.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            let mut tried = state.clone();
            let late = kept.iter().filter(|number| begin_ns(number) >= times[middle]);
            late.for_each(|number| tried.set.remove(*number));
            let found = match lost_at(self.operations, point, &tried, acks).1.len() <= most {
                true => self.is_alike(&tried, acks, wanted)?,
                false => None,
            };
            match found {
                Some(text) => (*state, *message, high) = (tried, text, middle),
                None => low = middle + 1,
            }
        }
        Ok(())
    }

    fn told(&self, point: &Point, promise: Promise, state: State, (acks, message): (usize, String)) -> Cause {
        let (at_ns, lost) = lost_at(self.operations, point, &state, acks);
        let kept = self.kept(&lost, &state, (promise, acks));
        let key = self.key(promise, &lost, kept, state.torn);
        Cause { promise, message, state, at_ns, acks, lost, kept, key }
    }

    /// Gives what came after the lost operation. Of what was kept that is the last: the crash came as early as it could, so that
    /// without it nothing would be broken.
    fn kept(&self, lost: &[u32], state: &State, (promise, acks): (Promise, usize)) -> Kept {
        let Some(first) = lost.first().copied() else { return Kept::Nothing };
        let end_ns = self.operations.all[first as usize].end_ns;
        if promise == Promise::Durability {
            let after = self.operations.acks[..acks].iter().position(|ack| ack.at_ns > end_ns);
            return after.map_or(Kept::Nothing, Kept::Ack);
        }
        let call = self.operations.all[first as usize].call;
        let other = |number: &u32| self.operations.all[*number as usize].call != call;
        let later = || state.set.numbers().filter(|number| *number > first);
        later().filter(other).last().or_else(|| later().last()).map_or(Kept::Nothing, Kept::Operation)
    }

    fn key(&self, promise: Promise, lost: &[u32], kept: Kept, torn: Option<Torn>) -> String {
        let one = |number: u32| site(self.story, self.operations, number);
        let mut key = promise.name().to_owned();
        let _ = write!(key, ": {}", lost.first().map_or_else(String::new, |number| one(*number)));
        if torn.is_some() {
            key.push_str(", torn");
        }
        match kept {
            Kept::Operation(number) => drop(write!(key, " before {}", one(number))),
            Kept::Ack(at) => {
                key.push_str(" before the answer");
                key.push_str(&self.story.mark(&self.operations.acks[at].stack));
            }
            Kept::Nothing => {}
        }
        key
    }
}

/// The violations that a cause explains: those in which what it loses is lost, and what it keeps is there.
pub(super) struct Sites {
    of: Vec<u32>,
}

impl Sites {
    /// The sites of all operations, as numbers.
    pub(super) fn of(story: &Story, operations: &Operations) -> Self {
        let mut known: FxHashMap<String, u32> = FxHashMap::default();
        let all = 0..operations.all.len() as u32;
        let of = all.map(|number| {
            let next = known.len() as u32;
            *known.entry(site(story, operations, number)).or_insert(next)
        });
        Self { of: of.collect() }
    }

    /// Whether a cause is one of a violation's, where both break the same promise.
    pub(super) fn explain(&self, search: &Search<'_, '_, '_>, cause: &Cause, violation: &Violation) -> bool {
        let (all, acks) = (&search.operations.all, &search.operations.acks);
        let Violation { point, state, acks: told, .. } = violation;
        let lost = lost_at(search.operations, &search.points[*point], state, *told).1;
        let Some(first) = cause.lost.first() else {
            return lost.is_empty() && cause.promise == violation.promise();
        };
        let is_site = |number: u32, of: u32| self.of[number as usize] == self.of[of as usize];
        let is_torn = match (cause.state.torn, state.torn) {
            (Some(one), Some(own)) => is_site(one.number, own.number),
            (one, _) => one.is_none(),
        };
        let Some(lost) = lost.into_iter().find(|number| is_site(*number, *first)) else { return false };
        is_torn
            && cause.promise == violation.promise()
            && match cause.kept {
                Kept::Operation(kept) => {
                    state.set.numbers().any(|number| number > lost && is_site(number, kept))
                }
                Kept::Ack(at) => acks[..*told].iter().any(|ack| {
                    let mark = |stack: &[u32]| search.story.mark(stack);
                    ack.at_ns > all[lost as usize].end_ns && mark(&ack.stack) == mark(&acks[at].stack)
                }),
                Kept::Nothing => true,
            }
    }
}

/// A call for people: `write settings.tmp 0..6015`.
pub fn shown(story: &Story, call: u32) -> String {
    let call = &story.calls[call as usize];
    let mut text = call.name.to_owned();
    let to = if call.name == "exchange" { " ↔ " } else { " → " };
    for (at, path) in call.paths.iter().flatten().enumerate() {
        let _ = write!(text, "{}{path}", if at == 0 { " " } else { to });
    }
    if let Some((from, to)) = call.range {
        let _ = write!(text, " {from}..{to}");
    }
    text
}

/// The state of a set of lost operations at a moment, to look at again.
pub fn state_of(operations: &Operations, at_ns: u64, lost: &[u32], torn: Option<Torn>) -> State {
    let mut set = Bits::new(operations.all.len());
    for (number, micro) in operations.all.iter().enumerate() {
        let number = number as u32;
        if micro.begin_ns < at_ns && !lost.contains(&number) {
            set.add(number);
        }
    }
    State { set, torn }
}
