//! A bank: its open rows, which of their lines are dirty, and what an access costs in time and energy.
//!
//! | access | `conflict = at_request` | `conflict = at_evict` |
//! |---|---|---|
//! | open row | `row_hit` | `row_hit` |
//! | read of another row | `read_conflict` | `read_conflict`, and `write_conflict` more if the row that closes is dirty |
//! | write of another row | `write_conflict` | as a read |
//!
//! The second is the row buffer of Lee et al. (ISCA 2009), which writes the array when a row closes. A bank holds `row_buffers`
//! rows open and closes the least recently used one: with small rows that is the buffer of a DIMM in front of its medium (Lee et
//! al.'s narrow row buffers; the 256-byte blocks of Optane's, Yang et al., FAST 2020).
//!
//! Energy is the same under both: each access pays the row buffer; opening a row reads the array, and a line that becomes
//! dirty in the open row is written to the array once. `energy_bits` says whether the array moves a line or a row.

use super::Cause;
use crate::machine::{LINE, Machine, Ps};

/// Times and energies in the units of the simulation.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    row_hit: Ps,
    read_conflict: Ps,
    write_conflict: Ps,
    at_evict: bool,
    /// Hundredths of a picojoule for a whole access: buffer read, buffer write, array read, array write.
    energy: [u64; 4],
    row_energy: bool,
    row_buffers: usize,
}

/// Where a line lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The bank.
    pub bank: usize,
    /// Its row.
    pub row: u64,
    /// The line in the row.
    pub column: u32,
}

/// A row that is open.
#[derive(Clone, Copy, Debug)]
struct Open {
    row: u64,
    /// A bit for each line that differs from the array.
    dirty: u128,
}

/// A bank: its open rows, the most recently used last.
#[derive(Clone, Debug, Default)]
pub struct Bank {
    open: Vec<Open>,
}

impl Timing {
    /// Of a machine.
    pub fn new(machine: &Machine) -> Self {
        let ps = |nanos: u64| nanos * 1000;
        let row = machine.energy_bits == 1;
        let array = if row { machine.row * 8 } else { LINE * 8 };
        Self {
            row_hit: ps(machine.row_hit),
            read_conflict: ps(machine.read_conflict),
            write_conflict: ps(machine.write_conflict),
            at_evict: machine.conflict == 1,
            energy: [
                machine.energy_buffer_read * LINE * 8,
                machine.energy_buffer_write * LINE * 8,
                machine.energy_array_read * array,
                machine.energy_array_write * array,
            ],
            row_energy: row,
            row_buffers: machine.row_buffers as usize,
        }
    }
}

impl Place {
    /// Of a line. `map = row`: column bits lowest, then bank bits XOR the low bits of the row, then the row. `map = line`: bank
    /// bits lowest, XOR the low bits of the row.
    pub fn of(line: u64, machine: &Machine) -> Self {
        let columns = machine.row / LINE;
        let (column, bank, row) = if machine.map == 0 {
            (line % columns, line / columns, line / columns / machine.banks)
        } else {
            (line / machine.banks % columns, line, line / columns / machine.banks)
        };
        let bank = (bank ^ row) & (machine.banks - 1);
        Self { bank: bank as usize, row, column: column as u32 }
    }
}

impl Bank {
    /// Whether `place` lies in an open row.
    #[inline]
    pub(crate) fn is_hit(&self, place: Place) -> bool {
        self.open.iter().any(|open| open.row == place.row)
    }

    /// Carries an access out: its time, and its energy in hundredths of a picojoule.
    pub fn access(&mut self, place: Place, cause: Cause, timing: &Timing) -> (Ps, u64) {
        let write = cause != Cause::Fetch;
        let mut energy = timing.energy[usize::from(write)];
        let mut time = timing.row_hit;
        let here = self.open.iter().position(|open| open.row == place.row);
        let mut open = if let Some(at) = here {
            self.open.remove(at)
        } else {
            let closes = self.open.len() == timing.row_buffers;
            let dirty = closes && self.open.remove(0).dirty != 0;
            energy += timing.energy[2];
            time = match (timing.at_evict, write) {
                (false, false) => timing.read_conflict,
                (false, true) => timing.write_conflict,
                (true, _) => timing.read_conflict + if dirty { timing.write_conflict } else { 0 },
            };
            Open { row: place.row, dirty: 0 }
        };
        if write {
            let bit = 1 << place.column;
            let paid = if timing.row_energy { open.dirty != 0 } else { open.dirty & bit != 0 };
            energy += if paid { 0 } else { timing.energy[3] };
            open.dirty |= bit;
        }
        self.open.push(open);
        (time, energy)
    }
}
