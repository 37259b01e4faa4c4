//! Register arrays: the state that packets may change.
//!
//! In one pass, a packet may access one cell of each array once, by a read-modify-write. Hardware
//! can do exactly this, and it makes every such change atomic without a lock.

use crate::pass::Cursor;

/// An array of cells in one stage.
#[derive(Debug)]
pub struct Register<T> {
    name: &'static str,
    cells: Box<[T]>,
    stage: u8,
    #[cfg(debug_assertions)]
    last_pass: u64,
}

impl<T: Copy + Default> Register<T> {
    /// `count` cells in `stage`, all zero. `name` is for messages and the budget.
    pub fn new(name: &'static str, stage: u8, count: usize) -> Self {
        Self {
            name,
            cells: vec![T::default(); count].into_boxed_slice(),
            stage,
            #[cfg(debug_assertions)]
            last_pass: 0,
        }
    }

    /// The single access of this pass: `update` reads and changes the cell.
    ///
    /// # Panics
    /// Debug builds panic at a second access in one pass and at an access to a stage before the one
    /// that the pass has reached: such a program could not run on a pipeline.
    #[inline]
    pub fn update<R>(
        &mut self,
        cursor: &mut Cursor,
        index: usize,
        update: impl FnOnce(&mut T) -> R,
    ) -> R {
        #[cfg(debug_assertions)]
        {
            cursor.enter(self.stage, self.name);
            assert!(
                core::mem::replace(&mut self.last_pass, cursor.pass()) != cursor.pass(),
                "register array {} is accessed twice in one pass",
                self.name
            );
        }
        #[cfg(not(debug_assertions))]
        let _ = cursor;
        update(&mut self.cells[index])
    }

    /// The single access of this pass, read-only.
    #[inline]
    pub fn read(&mut self, cursor: &mut Cursor, index: usize) -> T {
        self.update(cursor, index, |cell| *cell)
    }

    /// The single access of this pass: replaces the cell and returns its old value.
    #[inline]
    pub fn write(&mut self, cursor: &mut Cursor, index: usize, value: T) -> T {
        self.update(cursor, index, |cell| core::mem::replace(cell, value))
    }

    /// Mutable access to a cell for the control plane, which is not limited by passes.
    pub fn control(&mut self, index: usize) -> &mut T {
        &mut self.cells[index]
    }

    /// A cell's value for the control plane.
    pub fn peek(&self, index: usize) -> T {
        self.cells[index]
    }

    /// The name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The stage.
    pub fn stage(&self) -> u8 {
        self.stage
    }

    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.cells)
    }

    /// Bytes of one cell.
    pub const fn cell_bytes(&self) -> usize {
        size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_reads_and_changes() {
        let mut counts = Register::<u32>::new("counts", 0, 4);
        let mut cursor = Cursor::new(1);
        assert_eq!(
            counts.update(&mut cursor, 2, |c| core::mem::replace(c, *c + 5)),
            0
        );
        assert_eq!(counts.read(&mut Cursor::new(2), 2), 5);
        assert_eq!(counts.bytes(), 16);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "counts is accessed twice in one pass")]
    fn a_second_access_in_one_pass_is_refused() {
        let mut counts = Register::<u32>::new("counts", 0, 4);
        let mut cursor = Cursor::new(1);
        counts.read(&mut cursor, 0);
        counts.read(&mut cursor, 1);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "early in stage 1 is accessed after stage 2")]
    fn stages_only_go_forward() {
        let mut early = Register::<u32>::new("early", 1, 1);
        let mut late = Register::<u32>::new("late", 2, 1);
        let mut cursor = Cursor::new(1);
        late.read(&mut cursor, 0);
        early.read(&mut cursor, 0);
    }
}
