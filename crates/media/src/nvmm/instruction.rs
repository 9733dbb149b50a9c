//! Cache-line instructions: `clwb` (or `clflushopt`), `sfence`, non-temporal stores, 16-byte stores.
//!
//! Only a region over real persistent memory executes them. An emulated region charges their modelled cost
//! instead: on DRAM the real ones are posted and take a nanosecond a line, which says nothing about
//! persistent memory.

#[cfg(target_arch = "x86_64")]
#[allow(clippy::cast_ptr_alignment)] // the callers promise alignment
mod x86 {
    use core::arch::asm;
    use core::arch::x86_64::{_mm_set_epi64x, _mm_sfence, _mm_store_si128, _mm_stream_si64};

    /// The instructions that this processor has.
    #[derive(Clone, Copy, Debug)]
    pub(in crate::nvmm) struct Instructions {
        clwb: bool,
    }

    impl Instructions {
        /// None when the processor lacks `clflushopt` or AVX.
        pub(in crate::nvmm) fn detect() -> Option<Self> {
            let extended = core::arch::x86_64::__cpuid_count(7, 0).ebx;
            let (clflushopt, clwb) = (extended >> 23 & 1 == 1, extended >> 24 & 1 == 1);
            (clflushopt && std::is_x86_feature_detected!("avx")).then_some(Self { clwb })
        }

        /// Starts the write-back of the line that holds `at`.
        ///
        /// # Safety
        ///
        /// `at` must be mapped.
        #[inline]
        pub(in crate::nvmm) unsafe fn write_back(self, at: *mut u8) {
            if self.clwb {
                // SAFETY: `clwb` writes no memory that the program can see; the line is mapped, and `detect`
                // found it.
                unsafe { asm!("clwb [{}]", in(reg) at, options(nostack, preserves_flags)) }
            } else {
                // SAFETY: as above, for `clflushopt`.
                unsafe { asm!("clflushopt [{}]", in(reg) at, options(nostack, preserves_flags)) }
            }
        }

        /// Waits until earlier write-backs and non-temporal stores are in the persistence domain.
        #[inline]
        #[allow(clippy::unused_self)] // having the value proves that the processor was asked
        pub(in crate::nvmm) fn fence(self) {
            // SAFETY: every x86-64 processor has `sfence`.
            unsafe { _mm_sfence() }
        }

        /// Copies whole words past the cache.
        ///
        /// # Safety
        ///
        /// `to` must be aligned to 8 bytes, mapped and writable for `from.len()` bytes, a multiple of 8.
        #[allow(clippy::unused_self)]
        pub(in crate::nvmm) unsafe fn stream(self, to: *mut u8, from: &[u8]) {
            for (index, word) in from.as_chunks::<8>().0.iter().enumerate() {
                // SAFETY: the caller owns `from.len()` bytes at `to`, aligned; `index` is a whole word inside
                // them.
                unsafe { _mm_stream_si64(to.cast::<i64>().add(index), i64::from_le_bytes(*word)) }
            }
        }

        /// Stores two words at once.
        ///
        /// # Safety
        ///
        /// `to` must be aligned to 16 bytes, mapped and writable, and accessed by other threads only atomically.
        #[allow(clippy::unused_self)]
        pub(in crate::nvmm) unsafe fn store_pair(self, to: *mut u8, pair: [u64; 2]) {
            // SAFETY: the caller owns 16 aligned bytes at `to`. `detect` found AVX, whose vendors promise
            // that an aligned 16-byte store is atomic (Intel SDM volume 3, 10.1.1; AMD APM volume 2, 7.3.2).
            unsafe {
                _mm_store_si128(to.cast(), _mm_set_epi64x(pair[1].cast_signed(), pair[0].cast_signed()));
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod other {
    /// No persistent memory on this processor yet: a value of this type cannot exist.
    #[derive(Clone, Copy, Debug)]
    pub(in crate::nvmm) enum Instructions {}

    impl Instructions {
        pub(in crate::nvmm) fn detect() -> Option<Self> {
            None
        }

        pub(in crate::nvmm) unsafe fn write_back(self, _: *mut u8) {
            match self {}
        }

        pub(in crate::nvmm) fn fence(self) {
            match self {}
        }

        pub(in crate::nvmm) unsafe fn stream(self, _: *mut u8, _: &[u8]) {
            match self {}
        }

        pub(in crate::nvmm) unsafe fn store_pair(self, _: *mut u8, _: [u64; 2]) {
            match self {}
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) use other::Instructions;
#[cfg(target_arch = "x86_64")]
pub(super) use x86::Instructions;
