//! Transcendental functions that give the same bits on every host.
//!
//! The C library picks another algorithm where the processor multiplies and adds in one step, and its results differ in the last
//! bit; a result of the virtual clock must not depend on the host. These come from the crate `libm`, which is compiled with the
//! program. `clippy.toml` refuses the methods of `f64` that call the C library. `sqrt` is exact by IEEE 754, and `powi` is a
//! sequence of multiplications: both stay methods.

/// The natural logarithm.
pub fn ln(x: f64) -> f64 {
    libm::log(x)
}

/// The logarithm to base 10.
pub fn log10(x: f64) -> f64 {
    libm::log10(x)
}

/// e to the power of `x`.
pub fn exp(x: f64) -> f64 {
    libm::exp(x)
}

/// `x` to the power of `y`.
pub fn powf(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FNV-1a over the bits of results, as the first host computed it: another value is another library.
    #[test]
    fn a_thousand_values_have_the_bits_that_they_had_on_the_first_host() {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for step in 1..=1000 {
            let x = f64::from(step) * 0.37;
            for value in [ln(x), log10(x), exp(-x / 40.0), powf(x, 0.73)] {
                for byte in value.to_bits().to_le_bytes() {
                    hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
                }
            }
        }
        assert_eq!(hash, 0x36b7_7215_71b5_16e9, "{hash:#x}");
    }
}
