//! A bank: the open row, which of its lines are dirty, and what an access costs in time and energy.
//!
//! | access | `conflict = at_request` | `conflict = at_evict` |
//! |---|---|---|
//! | open row | `row_hit` | `row_hit` |
//! | read of another row | `read_conflict` | `read_conflict`, and `write_conflict` more if the row that closes is dirty |
//! | write of another row | `write_conflict` | as a read |
//!
//! The second is the row buffer of Lee et al. (ISCA 2009), which writes the array when a row closes.
//!
//! Energy is the same under both: each access pays the row buffer; opening a row reads the array, and a line that becomes
//! dirty in the open row is written to the array once. `energy_bits` says whether the array moves a line or a row.

use super::Cause;
use crate::machine::{LINE, Machine, Ps};

/// No row is open.
const CLOSED: u64 = u64::MAX;

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

/// A bank.
#[derive(Clone, Copy, Debug)]
pub struct Bank {
    row: u64,
    dirty: u128,
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
        }
    }
}

impl Place {
    /// Of a line: column bits lowest, then bank bits XOR the low bits of the row, then the row.
    pub fn of(line: u64, machine: &Machine) -> Self {
        let columns = machine.row / LINE;
        let rest = line / columns;
        let row = rest / machine.banks;
        let bank = (rest ^ row) & (machine.banks - 1);
        Self { bank: bank as usize, row, column: (line % columns) as u32 }
    }
}

impl Bank {
    /// With no row open.
    pub const CLOSED: Self = Self { row: CLOSED, dirty: 0 };

    /// Whether `place` lies in the open row.
    pub fn is_hit(&self, place: Place) -> bool {
        self.row == place.row
    }

    /// Carries an access out: its time, and its energy in hundredths of a picojoule.
    pub fn access(&mut self, place: Place, cause: Cause, timing: &Timing) -> (Ps, u64) {
        let write = cause != Cause::Fetch;
        let mut energy = timing.energy[usize::from(write)];
        let mut time = timing.row_hit;
        if !self.is_hit(place) {
            energy += timing.energy[2];
            time = match (timing.at_evict, write) {
                (false, false) => timing.read_conflict,
                (false, true) => timing.write_conflict,
                (true, _) => timing.read_conflict + if self.dirty == 0 { 0 } else { timing.write_conflict },
            };
            (self.row, self.dirty) = (place.row, 0);
        }
        if write {
            let bit = 1 << place.column;
            let paid = if timing.row_energy { self.dirty != 0 } else { self.dirty & bit != 0 };
            energy += if paid { 0 } else { timing.energy[3] };
            self.dirty |= bit;
        }
        (time, energy)
    }
}
