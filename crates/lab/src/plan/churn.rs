//! The key `churn` of a plan, and the option of `weir bench` (`cell/churn.rs`).

/// More than this is a mistake: each takes as long as the one before, and changes nothing that the first have not.
const MOST: u32 = 100;

/// Reads the multiple of the region's size that a churn stores.
///
/// # Errors
/// A sentence with what the text should have been.
pub fn times(text: &str) -> Result<u32, String> {
    let times = text.parse().ok().filter(|times| (1..=MOST).contains(times));
    times.ok_or_else(|| {
        format!("\"{text}\": expected how many times the size of the region a churn stores, from 1 to {MOST}")
    })
}
