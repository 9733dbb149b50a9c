//! placeholder
/// x
pub struct Personality;
/// y
pub const PERSONALITIES: &[Personality] = &[];
