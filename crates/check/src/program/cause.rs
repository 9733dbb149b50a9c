//! Why a state is broken: the fewest operations that must be lost for it, and the pair of calls that nothing orders.

use std::fmt::Write as _;

use super::Bits;
use super::checker::Verdict;
use super::closure::Closure;
use super::folder::FolderError;
use super::judge::{Judge, Violation, bucket};
use super::model::{Model, Null};
use super::operations::{Change, Operations};
use super::points::{Point, point_at};
use super::states::{State, Torn};
use super::story::Story;
use super::tree::Trees;

/// Judgements that the search for the fewest operations may take.
const TRIES: usize = 150;

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// A state that the program never had, whatever it has told.
    Atomicity,
    /// Something that it has told is gone.
    Durability,
}

impl Promise {
    /// The word for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Atomicity => "atomicity",
            Self::Durability => "durability",
        }
    }
}

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
    /// Whether a cause that another model has shown is one of this model too: its state is legal here.
    pub fn has(&self, cause: &Cause) -> bool {
        let point = point_at(self.operations, self.model, cause.at_ns);
        let mut begun = point.covered.clone();
        point.free.iter().for_each(|number| begun.add(*number));
        let set = &cause.state.set;
        let has_all = point.covered.numbers().all(|number| set.has(number));
        cause.state.torn.is_none()
            && self.model.null == Null::No
            && has_all
            && set.numbers().all(|number| begun.has(number))
            && Closure::new(self.operations, self.model, &point.loose, &point.free).is_legal(set)
    }

    fn is_alike(&mut self, state: &State, acks: usize, wanted: &str) -> Result<Option<String>, FolderError> {
        Ok(match self.judge.ask(&mut self.trees, state, acks)? {
            Verdict::Broken(message) if bucket(&message) == wanted => Some(message),
            _ => None,
        })
    }

    /// Finds the cause of a violation. None: a second judgement of the same tree differs, which is the judge's fault.
    pub fn cause(&mut self, violation: &Violation) -> Result<Option<Cause>, FolderError> {
        let wanted = bucket(&violation.message);
        let again = self.judge.anew(&mut self.trees, &violation.state, violation.acks)?;
        if again != Verdict::Broken(violation.message.clone()) {
            return Ok(None);
        }
        let point = &self.points[violation.point];
        let (mut state, mut message) = (violation.state.clone(), violation.message.clone());
        // Without any acknowledgement: then it is none of what was told.
        let untold = self.is_alike(&state, 0, &wanted)?.is_some()
            || matches!(self.judge.ask(&mut self.trees, &state, 0)?, Verdict::Broken(_));
        let (promise, mut acks) =
            if untold { (Promise::Atomicity, 0) } else { (Promise::Durability, violation.acks) };
        let wanted = match self.judge.ask(&mut self.trees, &state, acks)? {
            Verdict::Broken(text) => {
                message.clone_from(&text);
                bucket(&text)
            }
            _ => wanted,
        };
        if self.model.null != Null::No {
            return Ok(Some(self.told(point, promise, state, (acks, message))));
        }
        self.fewer_lost(point, &mut state, acks, (&wanted, &mut message))?;
        // The fewest acknowledgements: the crash came no earlier than the last of them.
        while acks > 1
            && let Some(text) = self.is_alike(&state, acks - 1, &wanted)?
        {
            (acks, message) = (acks - 1, text);
        }
        self.fewer_kept(point, &mut state, acks, (&wanted, &mut message))?;
        Ok(Some(self.told(point, promise, state, (acks, message))))
    }

    /// Puts lost operations back, many at once and then fewer, the latest first.
    fn fewer_lost(
        &mut self,
        point: &Point,
        state: &mut State,
        acks: usize,
        (wanted, message): (&str, &mut String),
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

    /// Moves the crash earlier: what came last goes, as long as it is the same.
    fn fewer_kept(
        &mut self,
        point: &Point,
        state: &mut State,
        acks: usize,
        (wanted, message): (&str, &mut String),
    ) -> Result<(), FolderError> {
        let told = acks.checked_sub(1).map_or(0, |last| self.operations.acks[last].at_ns);
        let kept: Vec<u32> = point.free.iter().copied().filter(|number| state.set.has(*number)).collect();
        // The crash came after the last telling, and so after what had ended before that.
        let is_old = |number: &u32| self.operations.all[*number as usize].end_ns < told;
        let (mut low, mut high) = (kept.iter().rposition(is_old).map_or(0, |at| at + 1), kept.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            let mut tried = state.clone();
            kept[middle..high].iter().for_each(|number| tried.set.remove(*number));
            match self.is_alike(&tried, acks, wanted)? {
                Some(text) => (*state, *message, high) = (tried, text, middle),
                None => low = middle + 1,
            }
        }
        Ok(())
    }

    fn told(&self, point: &Point, promise: Promise, state: State, (acks, message): (usize, String)) -> Cause {
        let all = &self.operations.all;
        let is_kept =
            |number: &u32| state.set.has(*number) || state.torn.is_some_and(|torn| torn.number == *number);
        // What began after all that was kept and told had not begun at the earliest moment of this state.
        let last_kept =
            point.free.iter().filter(|number| is_kept(number)).map(|number| all[*number as usize].begin_ns);
        let last_told = acks.checked_sub(1).map_or(0, |last| self.operations.acks[last].at_ns);
        let at_ns = last_kept.max().unwrap_or(0).max(last_told) + 1;
        let covered = (0..all.len() as u32).filter(|number| point.covered.has(*number));
        let at_ns = covered.map(|number| all[number as usize].begin_ns + 1).max().unwrap_or(0).max(at_ns);
        let lost: Vec<u32> = lost_of(point, &state);
        let lost: Vec<u32> =
            lost.into_iter().filter(|number| all[*number as usize].begin_ns < at_ns).collect();
        let kept = self.kept(&lost, &state, (promise, acks));
        let key = self.key(promise, &lost, kept, state.torn);
        Cause { promise, message, state, at_ns, acks, lost, kept, key }
    }

    fn kept(&self, lost: &[u32], state: &State, (promise, acks): (Promise, usize)) -> Kept {
        let Some(first) = lost.first().copied() else { return Kept::Nothing };
        let end_ns = self.operations.all[first as usize].end_ns;
        if promise == Promise::Durability {
            let after = self.operations.acks[..acks].iter().position(|ack| ack.at_ns > end_ns);
            return after.map_or(Kept::Nothing, Kept::Ack);
        }
        let call = self.operations.all[first as usize].call;
        let later =
            || (first + 1..self.operations.all.len() as u32).filter(move |number| state.set.has(*number));
        let other = |number: &u32| self.operations.all[*number as usize].call != call;
        let is_name =
            |number: &u32| matches!(self.operations.all[*number as usize].change, Change::Names { .. });
        let kept =
            later().filter(other).find(is_name).or_else(|| later().find(other)).or_else(|| later().next());
        kept.map_or(Kept::Nothing, Kept::Operation)
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

/// What a state lost of the micro-operations that could go either way.
fn lost_of(point: &Point, state: &State) -> Vec<u32> {
    point.free.iter().copied().filter(|number| !state.set.has(*number)).collect()
}

/// A kind of call, its paths without numbers, and its stack, where that is known: calls that are alike.
pub fn site(story: &Story, operations: &Operations, number: u32) -> String {
    let micro = &operations.all[number as usize];
    let call = &story.calls[micro.call as usize];
    let part = match micro.change {
        Change::Cut { .. } if call.name == "open" => " (truncated)",
        _ => "",
    };
    let mut text = call.name.to_owned();
    for path in call.paths.iter().flatten() {
        let _ = write!(text, " {}", bucket(path));
    }
    text + part + &story.mark(&call.stack)
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
