//! Parts that a mount can leave out, to measure what each is worth (`weir run crest-ablations`).

/// A part that is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Without {
    /// All parts are there.
    #[default]
    Nothing,
    /// Bytes behind the end of a file are stored in place: without, the last block is copied to a new one.
    Appends,
    /// A record certifies itself: without, the end of the log is durable too before a call returns, by a second fence.
    Seal,
    /// A small overwrite is a record with its bytes: without, its block is copied to a new one.
    Inline,
    /// Blocks that are read often are in cached frames: without, all reads are the medium's but of what is dirty.
    Reads,
    /// The design resolves paths: without, the caches above it do.
    Paths,
    /// An unmount saves the indexes: without, the next mount reads the logs.
    Saved,
    /// The log is cleaned in steps: without, all of it at once by the call that finds no zone.
    Steps,
}

impl Without {
    /// The words of the option, in the order of the parts.
    pub(crate) const WORDS: &'static [&'static str] =
        &["nothing", "appends", "inline", "seal", "paths", "image", "reads", "steps"];

    /// The part of a word.
    pub(crate) fn of(word: &str) -> Self {
        match word {
            "appends" => Self::Appends,
            "inline" => Self::Inline,
            "seal" => Self::Seal,
            "paths" => Self::Paths,
            "image" => Self::Saved,
            "reads" => Self::Reads,
            "steps" => Self::Steps,
            _ => Self::Nothing,
        }
    }
}
