//! Columns registered for a connection.

use super::super::ServedColumn;
use rackweave_verbs::{Access, PdId, Region, RegisterError, Verbs};
use std::sync::Arc;

/// Columns that are registered for a connection, the most recently used last.
#[derive(Debug, Default)]
pub(super) struct Lendings(Vec<Lent>);

#[derive(Debug)]
struct Lent {
    column: Arc<ServedColumn>,
    region: Region,
}

impl Lendings {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether a caller waits for a column to be no longer sent.
    pub fn are_wanted(&self) -> bool {
        self.0.iter().any(|lent| lent.column.is_removed())
    }

    /// The region through which queue pairs of a domain access a column, and whether it is new.
    pub fn lend(
        &mut self,
        column: Arc<ServedColumn>,
        verbs: &mut dyn Verbs,
        pd: PdId,
    ) -> Result<(Region, bool), RegisterError> {
        let same = |lent: &Lent| Arc::ptr_eq(&lent.column, &column);
        let at = self.0.iter().position(same);
        let lent = match at {
            Some(at) => self.0.remove(at),
            None => {
                let region = verbs.register(pd, column.block().clone(), Access::empty())?;
                Lent { column, region }
            }
        };
        let region = lent.region.clone();
        self.0.push(lent);
        Ok((region, at.is_none()))
    }

    /// Deregisters those for which `which` returns true; it is called from the least recently used
    /// on.
    pub fn take_back(
        &mut self,
        verbs: &mut dyn Verbs,
        mut which: impl FnMut(&ServedColumn) -> bool,
    ) {
        self.0.retain(|lent| {
            let goes = which(&lent.column);
            if goes {
                // A region that the NIC no longer knows counts as deregistered.
                verbs.deregister(&lent.region);
            }
            !goes
        });
    }
}
