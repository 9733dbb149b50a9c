//! Streams of lines that a core moves: copies, posted stores, fences.

use std::sync::Arc;

use super::{LINE, Memory, Mutant, PS, Turn, now_ps, pass_until};
use crate::clock;
use crate::context::Context;
use crate::ledger::{Activity, COPIED_BYTES};
use crate::units::Nanos;

/// The object's side of a copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stream<'m> {
    /// The memory that holds the object; none: the machine's.
    pub memory: Option<&'m Memory>,
    /// The copy goes on from an earlier page.
    pub goes_on: bool,
}

/// What a copy does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// From an object to the task's buffer.
    Load,
    /// From the buffer to an object, through the caches.
    Store,
    /// From memory to memory.
    Both,
}

/// Lines that a copy moves in one memory.
#[derive(Clone, Copy, Default)]
struct Lines {
    reads: u64,
    writes: u64,
}

/// Copies smaller than this take no turn.
const TURN_BYTES: u64 = 1_024;

/// The memory of the socket of the current task, on a machine that has a model of it. None under the real clock.
pub fn local() -> Option<Arc<Memory>> {
    clock::virtual_task().and_then(|cx| cx.run.memory_of(cx.core.get()).map(Arc::clone))
}

/// What a core takes that copies `bytes` in an idle memory.
pub fn copy_cost(memory: &Memory, bytes: u64) -> Nanos {
    let lines = 3 * bytes.div_ceil(LINE);
    let core = &memory.model.core;
    Nanos((memory.idle_ps * lines.max(core.depth) / core.depth + lines * core.issue_ps) / PS)
}

/// A copy of `bytes` that misses every cache, on a machine whose memory has a model, or of an object whose memory has one. False
/// where neither has: nothing is charged then.
pub(crate) fn copy_lines(
    cx: &Context,
    bytes: u64,
    moved: Moved,
    has_buffer: bool,
    stream: Stream<'_>,
) -> bool {
    let local = cx.run.memory_of(cx.core.get()).map(|memory| &**memory);
    let Some(object) = stream.memory.or(local) else { return false };
    let lines = bytes.div_ceil(LINE);
    let model = &object.model;
    let waits = moved != Moved::Store || !has_buffer;
    let begins = waits && !stream.goes_on && (moved == Moved::Load || bytes >= TURN_BYTES);
    let moved = if moved == Moved::Load && model.is(Mutant::ReadsAsStores) { Moved::Store } else { moved };
    // The write-back of a store comes with its flush where the object is on a medium.
    let later = if stream.memory.is_some() { 0 } else { lines };
    let of_object = match moved {
        Moved::Load => Lines { reads: lines, writes: 0 },
        Moved::Store => Lines { reads: lines, writes: later },
        Moved::Both => Lines { reads: 2 * lines, writes: lines },
    };
    let of_buffer = match moved {
        _ if has_buffer || local.is_none() => Lines::default(),
        Moved::Load => Lines { reads: lines, writes: lines },
        Moved::Store => Lines { reads: lines, writes: 0 },
        Moved::Both => Lines::default(),
    };
    cx.ledger.add_units(cx.op.get(), COPIED_BYTES, bytes);
    let take = if bytes < TURN_BYTES { small } else { large };
    let turns = [take(cx, object, of_object), take(cx, local.unwrap_or(object), of_buffer)];
    let all = of_object.reads + of_object.writes + of_buffer.reads + of_buffer.writes;
    // A machine without a model prices its side of the copy as it prices every copy.
    let own = if has_buffer || local.is_some() { 0 } else { bytes * cx.run.machine.copy_ps_per_byte / 2 };
    let own = if model.is(Mutant::Summed) { own + copy_cost(object, bytes).0 * PS } else { own };
    pass_copy(cx, object, &Span { lines: all, begins, own_ps: own }, turns, stream.memory.is_some());
    true
}

/// What a copy takes besides turns.
struct Span {
    lines: u64,
    /// It waits for its first line.
    begins: bool,
    /// For a buffer in memory that has no model.
    own_ps: u64,
}

fn small(cx: &Context, memory: &Memory, lines: Lines) -> Turn {
    let Lines { reads, writes } = lines.counted(memory);
    match reads + writes {
        0 => Turn { latency_ps: 0, end_ps: 0 },
        lines => Turn { latency_ps: memory.latency_of(cx, lines), end_ps: 0 },
    }
}

fn large(cx: &Context, memory: &Memory, lines: Lines) -> Turn {
    match lines.counted(memory) {
        Lines { reads: 0, writes: 0 } => Turn { latency_ps: 0, end_ps: 0 },
        Lines { reads, writes } => memory.transfer(cx, reads, writes),
    }
}

/// Lets the copy pass: issue and exposed latency, or the later turn.
fn pass_copy(cx: &Context, object: &Memory, span: &Span, turns: [Turn; 2], is_medium: bool) {
    let core = &object.model.core;
    let Span { lines, begins, own_ps } = *span;
    let latency = turns[0].latency_ps.max(turns[1].latency_ps);
    let exposed = |latency: u64| latency * lines.max(if begins { core.depth } else { 0 }) / core.depth;
    let issue = clock::beside_sibling(cx, Nanos(lines.saturating_sub(1) * core.issue_ps + own_ps)).0;
    let start = now_ps(cx);
    let there = start + issue + exposed(latency);
    let end = there.max(turns[0].end_ps).max(turns[1].end_ps);
    let idle = exposed(object.idle_ps.min(latency));
    let copy = cx.software(Activity::COPY);
    let of_idle = if is_medium { cx.activity.get() } else { copy };
    let parts = [
        (Activity::MEMORY_LATENCY, exposed(latency) - idle),
        (Activity::MEMORY_TURN, end - there),
        (of_idle, idle),
    ];
    pass_until(cx, end, parts, copy);
}

/// A part of a loop that moves lines of one memory.
pub(super) fn pass(cx: &Context, memory: &Memory, reads: u64, writes: u64, goes_on: bool) {
    let turn = memory.transfer(cx, reads, writes);
    // The first line is not issued before another.
    let lines = reads + writes + u64::from(goes_on);
    pass_copy(cx, memory, &Span { lines, begins: !goes_on, own_ps: 0 }, [turn, turn], true);
}

/// A store of `bytes` past the caches to an object, from the task's buffer. False where neither memory has a model.
pub(crate) fn post_copied(cx: &Context, bytes: u64, has_buffer: bool, memory: Option<&Memory>) -> bool {
    let local = cx.run.memory_of(cx.core.get()).map(|memory| &**memory);
    let Some(object) = memory.or(local) else { return false };
    cx.ledger.add_units(cx.op.get(), COPIED_BYTES, bytes);
    let lines = bytes.div_ceil(LINE);
    let core = &object.model.core;
    let mut issue = lines * core.issue_ps;
    if let Some(local) = local.filter(|_| !has_buffer) {
        let turn = if bytes < TURN_BYTES {
            small(cx, local, Lines::read(lines))
        } else {
            large(cx, local, Lines::read(lines))
        };
        issue = (2 * issue + turn.latency_ps * lines.max(core.depth) / core.depth)
            .max(turn.end_ps.saturating_sub(now_ps(cx)));
    }
    let issue = clock::beside_sibling(cx, Nanos(issue)).0;
    post(cx, object, lines, issue, cx.software(Activity::COPY));
    true
}

impl Lines {
    fn read(reads: u64) -> Self {
        Self { reads, writes: 0 }
    }

    /// Those that are in the traffic of the memory: all, unless it is wrong on purpose.
    fn counted(self, memory: &Memory) -> Self {
        if memory.model.is(Mutant::CopiesUncounted) { Self::default() } else { self }
    }
}

/// Posts so many lines that the core issues in `issue_ps`, booked on `activity`: a pipe of `credits` lines, each under way for a
/// part of the latency.
pub(super) fn post(cx: &Context, memory: &Memory, lines: u64, issue_ps: u64, activity: Activity) {
    let turn = memory.transfer(cx, 0, lines);
    let core = &memory.model.core;
    let accept = turn.latency_ps * memory.model.accept_per_mille / 1_000;
    let start = now_ps(cx);
    let piped = cx.piped_ps.get().max(start) + lines * accept / core.credits;
    cx.piped_ps.set(piped);
    let last = piped.max(turn.end_ps);
    let least = if memory.model.is(Mutant::FenceUnaccepted) { start } else { start + accept };
    cx.posted_ps.set(cx.posted_ps.get().max(last.max(least)));
    let bound = if memory.model.is(Mutant::PostedUnbounded) { 0 } else { last.saturating_sub(accept) };
    let end = (start + issue_ps).max(bound);
    let turned = turn.end_ps.saturating_sub(piped);
    let parts = [(activity, issue_ps), (Activity::MEMORY_TURN, turned), (Activity::MEDIUM_WAIT, u64::MAX)];
    pass_until(cx, end, parts, activity);
}

/// Waits until the posted lines of the task are accepted, booked on the activity in scope.
pub fn fence() {
    if let Some(cx) = clock::virtual_task() {
        let end = cx.posted_ps.get();
        if end > now_ps(cx) {
            let activity = cx.activity.get();
            pass_until(cx, end, [], activity);
        }
    }
}

/// How much longer a load from the machine's memory takes now than in an idle one, for so many loads.
pub(crate) fn excess_of_misses(cx: &Context, lines: u64) -> Option<Nanos> {
    let memory = cx.run.memory_of(cx.core.get())?;
    let over = memory.latency_of(cx, lines).saturating_sub(memory.idle_ps);
    (over >= PS).then(|| Nanos(over * lines / PS))
}
