//! Memory for I/O that grows to the largest I/O of its thread.

/// Direct I/O on a real kernel wants buffers on a page boundary.
const ALIGNMENT: usize = 4096;

/// A buffer on a page boundary.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    memory: Vec<u8>,
}

impl Buffer {
    /// `len` bytes; what they hold is left over from before.
    pub(crate) fn get(&mut self, len: usize) -> &mut [u8] {
        if self.memory.len() < len + ALIGNMENT {
            self.memory = vec![0; len + ALIGNMENT];
        }
        let start = self.memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        &mut self.memory[start..start + len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_starts_on_a_page_whatever_its_length() {
        let mut buffer = Buffer::default();
        for len in [1, 4096, 100_000, 5] {
            let memory = buffer.get(len);
            assert_eq!((memory.len(), memory.as_ptr() as usize % ALIGNMENT), (len, 0));
        }
    }
}
