//! Seeded errors: memories that are wrong in one way, each of which a test must find (`tests/it/memory.rs`).

macro_rules! mutants {
    ($($variant:ident $name:literal $what:literal;)*) => {
        /// One way in which a memory is wrong. No preset has one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant {
            $(#[doc = $what] $variant),*
        }

        impl Mutant {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),*
                }
            }
        }
    };
}

mutants! {
    SharesExchanged "shares-exchanged" "Reads are taken for writes, and the other way round.";
    BinaryUnits "binary-units" "A GB/s of a preset has 2^30 bytes.";
    CountedTwice "counted-twice" "Each byte is in the traffic twice.";
    NeverForgets "never-forgets" "An average that has risen does not fall.";
    GainOfOne "gain-of-one" "The average is the last bin.";
    ReadsAsStores "reads-as-stores" "A copy from an object moves the lines of one to it.";
    FenceUnaccepted "fence-unaccepted" "A fence does not wait until a posted line is accepted.";
    DirectionsExchanged "directions-exchanged" "Lines that are read take the direction of those that are written.";
    ExtraTwice "extra-twice" "The latency that a card adds to a load is added twice.";
    ChannelOfTask "channel-of-task" "Each task has a channel of its own.";
    ConstantLatency "constant-latency" "A load takes the idle latency at every traffic.";
    ShareIgnored "share-ignored" "All traffic is taken for reads.";
    CopiesUncounted "copies-uncounted" "Copies of the processor are in no traffic.";
    Summed "summed" "A copy takes the sum of what its memories take.";
    PostedUnbounded "posted-unbounded" "A task never waits for the lines that it has posted.";
    TailMovesMean "tail-moves-mean" "Loads with a tail are longer in the mean.";
}
