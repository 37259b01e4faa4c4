//! The resources that a program uses and those that a switch has.
//!
//! The Tofino models have, per stage, 80 SRAM blocks of 16 KiB, 24 TCAM blocks of 512 × 44 bits, 4
//! register units, 16 tables; 12 stages in the first generation, 20 in the second. A register unit
//! keeps a copy of its array's SRAM for the hardware's bookkeeping; that is not counted here.

use crate::Register;
use crate::table::{Direct, Exact, Range, Row, Ternary};
use core::fmt;

/// Bytes of one SRAM block.
pub const SRAM_BLOCK: usize = 16 * 1024;
/// Entries of one TCAM block.
pub const TCAM_ENTRIES: usize = 512;
/// Key bits of one TCAM block.
pub const TCAM_BITS: usize = 44;

/// The resources of one stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stage {
    /// SRAM blocks of 16 KiB.
    pub sram: usize,
    /// TCAM blocks of 512 entries of 44 bits.
    pub tcam: usize,
    /// Register units: arrays that packets may change.
    pub registers: usize,
    /// Tables.
    pub tables: usize,
}

/// The resources of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Budget {
    /// Intel Tofino, 12 stages.
    Tofino1,
    /// Intel Tofino 2, 20 stages.
    Tofino2,
    /// A switch in software: up to 255 stages, only memory.
    Software {
        /// Bytes of tables and registers.
        bytes: usize,
    },
}

/// The resources that a program uses, stage by stage.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ledger {
    stages: Vec<Stage>,
    bytes_registers: usize,
    bytes_tables: usize,
}

/// Why a program does not fit.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BudgetError {
    /// The program needs more stages than the switch has.
    #[error("the program needs {needs} stages; {budget} has {has}")]
    Stages {
        /// Stages needed.
        needs: usize,
        /// Stages available.
        has: usize,
        /// The budget.
        budget: Budget,
    },
    /// The program exceeds the resources of a stage.
    #[error(
        "stage {stage} needs {needs} {what}; {budget} has {has}: lower the capacities under [switch]"
    )]
    Stage {
        /// The stage.
        stage: usize,
        /// The resource that is exceeded.
        what: &'static str,
        /// Amount needed.
        needs: usize,
        /// Amount available.
        has: usize,
        /// The budget.
        budget: Budget,
    },
    /// The program needs more bytes than a software switch has.
    #[error("the program needs {needs} bytes of tables and registers; {budget} has {has}")]
    Bytes {
        /// Bytes needed.
        needs: usize,
        /// Bytes available.
        has: usize,
        /// The budget.
        budget: Budget,
    },
}

impl Budget {
    /// Number of stages.
    pub const fn stages(self) -> usize {
        match self {
            Budget::Tofino1 => 12,
            Budget::Tofino2 => 20,
            Budget::Software { .. } => 255,
        }
    }

    /// The resources of one stage, if they are bounded.
    pub const fn stage(self) -> Option<Stage> {
        match self {
            Budget::Tofino1 | Budget::Tofino2 => Some(Stage {
                sram: 80,
                tcam: 24,
                registers: 4,
                tables: 16,
            }),
            Budget::Software { .. } => None,
        }
    }

    /// Whether `ledger` fits.
    ///
    /// # Errors
    /// The first resource that is exceeded, with the amount needed and the amount available.
    pub fn check(self, ledger: &Ledger) -> Result<(), BudgetError> {
        let (needs, has) = (ledger.stages.len(), self.stages());
        if needs > has {
            return Err(BudgetError::Stages {
                needs,
                has,
                budget: self,
            });
        }
        if let Budget::Software { bytes } = self {
            let needs = ledger.bytes_registers + ledger.bytes_tables;
            if needs > bytes {
                return Err(BudgetError::Bytes {
                    needs,
                    has: bytes,
                    budget: self,
                });
            }
        }
        let Some(has) = self.stage() else {
            return Ok(());
        };
        for (stage, needs) in ledger.stages.iter().enumerate() {
            for (what, needs, has) in [
                ("SRAM blocks", needs.sram, has.sram),
                ("TCAM blocks", needs.tcam, has.tcam),
                ("register units", needs.registers, has.registers),
                ("tables", needs.tables, has.tables),
            ] {
                if needs > has {
                    return Err(BudgetError::Stage {
                        stage,
                        what,
                        needs,
                        has,
                        budget: self,
                    });
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Budget::Tofino1 => f.write_str("tofino1"),
            Budget::Tofino2 => f.write_str("tofino2"),
            Budget::Software { bytes } => write!(f, "software ({bytes} bytes)"),
        }
    }
}

impl Ledger {
    /// Counts a register array.
    ///
    /// A hardware register unit works on cells of up to 64 bits.
    pub fn register<T: Copy + Default>(&mut self, register: &Register<T>) {
        assert!(
            register.cell_bytes() <= 8,
            "{}: a cell has at most 64 bits",
            register.name()
        );
        self.bytes_registers += register.bytes();
        let stage = self.stage(register.stage());
        stage.registers += 1;
        stage.sram += register.bytes().div_ceil(SRAM_BLOCK);
    }

    /// Counts an exact-match table.
    pub fn exact<V: Copy>(&mut self, table: &Exact<V>) {
        self.sram_table(table.shape());
    }

    /// Counts an exact-match table with a dense key.
    pub fn direct<V: Copy>(&mut self, table: &Direct<V>) {
        self.sram_table(table.shape());
    }

    /// Counts exact-match tables side by side, each one separately.
    pub fn row<V: Copy, const N: usize>(&mut self, tables: &Row<V, N>) {
        for shape in tables.shapes() {
            self.sram_table(shape);
        }
    }

    /// Counts an exact-match table whose entries are part of the program: `entries` of them in
    /// `stage`, over `width` bits, with values of a byte. Software computes the values and has no
    /// table.
    pub fn constant(&mut self, name: &'static str, stage: u8, width: u8, entries: usize) {
        self.sram_table((name, stage, width, entries, 1));
    }

    fn sram_table(&mut self, (_, stage, width, capacity, value): (&str, u8, u8, usize, usize)) {
        let bytes = (usize::from(width).div_ceil(8) + value) * capacity;
        self.bytes_tables += bytes;
        let stage = self.stage(stage);
        stage.tables += 1;
        stage.sram += bytes.div_ceil(SRAM_BLOCK);
    }

    /// Counts a ternary table: keys in TCAM, actions in SRAM.
    pub fn ternary<V: Copy>(&mut self, table: &Ternary<V>) {
        let (_, stage, width, capacity, value) = table.shape();
        self.tcam(stage, width, capacity, value);
    }

    /// Counts a range table. A range of w bits needs up to 2w − 2 ternary entries; the hardware
    /// matches ranges in its TCAM nibble by nibble at twice the key width, which is counted here.
    pub fn range<V: Copy>(&mut self, table: &Range<V>) {
        let (_, stage, width, capacity, value) = table.shape();
        self.tcam(stage, width * 2, capacity, value);
    }

    fn tcam(&mut self, stage: u8, width: u8, capacity: usize, value: usize) {
        let bytes = value * capacity;
        self.bytes_tables += bytes + usize::from(width).div_ceil(4) * capacity;
        let stage = self.stage(stage);
        stage.tables += 1;
        stage.tcam += capacity.div_ceil(TCAM_ENTRIES) * usize::from(width).div_ceil(TCAM_BITS);
        stage.sram += bytes.div_ceil(SRAM_BLOCK);
    }

    fn stage(&mut self, stage: u8) -> &mut Stage {
        let stage = usize::from(stage);
        if self.stages.len() <= stage {
            self.stages.resize(stage + 1, Stage::default());
        }
        &mut self.stages[stage]
    }

    /// The resources used in each stage.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// Bytes of register arrays.
    pub fn bytes_registers(&self) -> usize {
        self.bytes_registers
    }

    /// Bytes of tables.
    pub fn bytes_tables(&self) -> usize {
        self.bytes_tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(stage: u8, arrays: usize, cells: usize) -> Ledger {
        let mut ledger = Ledger::default();
        for _ in 0..arrays {
            ledger.register(&Register::<u32>::new("r", stage, cells));
        }
        ledger
    }

    #[test]
    fn a_refusal_says_what_is_needed_and_what_there_is() {
        let check = |ledger: &Ledger, budget: Budget| budget.check(ledger).unwrap_err().to_string();
        assert_eq!(
            check(&ledger(3, 5, 16), Budget::Tofino1),
            "stage 3 needs 5 register units; tofino1 has 4: lower the capacities under [switch]"
        );
        assert_eq!(
            check(&ledger(12, 1, 16), Budget::Tofino1),
            "the program needs 13 stages; tofino1 has 12"
        );
        assert_eq!(
            check(&ledger(0, 1, 400_000), Budget::Tofino1),
            "stage 0 needs 98 SRAM blocks; tofino1 has 80: lower the capacities under [switch]"
        );
        assert_eq!(
            check(&ledger(0, 1, 1000), Budget::Software { bytes: 100 }),
            "the program needs 4000 bytes of tables and registers; software (100 bytes) has 100"
        );
        assert!(Budget::Tofino2.check(&ledger(12, 4, 16)).is_ok());
    }

    #[test]
    fn tables_are_counted_where_they_live() {
        let mut ledger = Ledger::default();
        ledger.exact(&Exact::<u64>::new("e", 1, 32, 4096));
        ledger.ternary(&Ternary::<u16>::new("t", 2, 48, 600));
        ledger.range(&Range::<u16>::new("r", 2, 16, 512));
        ledger.row(&Row::<u64, 3>::new("row", [3, 3, 4], 8192));
        ledger.constant("constant", 4, 34, 16);
        assert_eq!(
            ledger.stages()[1],
            Stage {
                sram: 3,
                tcam: 0,
                registers: 0,
                tables: 1
            }
        );
        assert_eq!(
            ledger.stages()[2],
            Stage {
                sram: 2,
                tcam: 5,
                registers: 0,
                tables: 2
            }
        );
        let sram = |sram, tables| Stage {
            sram,
            tables,
            ..Stage::default()
        };
        assert_eq!(ledger.stages()[3], sram(10, 2));
        assert_eq!(ledger.stages()[4], sram(6, 2));
    }
}
