//! Seeded bugs: one for each word that commits.

use design::Mutant;

/// The tail moves before the record is durable.
pub(super) const TAIL_AHEAD_OF_RECORD: Mutant =
    Mutant::new("tail-ahead-of-record", "commit before what it commits");
/// The other half becomes active before its checkpoint is durable.
pub(super) const ACTIVE_AHEAD_OF_CHECKPOINT: Mutant =
    Mutant::new("active-ahead-of-checkpoint", "log switched before its snapshot");
/// A change is applied although its record could not be written.
pub(super) const APPLIED_WITHOUT_RECORD: Mutant =
    Mutant::new("applied-without-record", "failure not undone").when_the_medium_fails();

/// All of them.
pub(super) const ALL: &[Mutant] = &[TAIL_AHEAD_OF_RECORD, ACTIVE_AHEAD_OF_CHECKPOINT, APPLIED_WITHOUT_RECORD];
