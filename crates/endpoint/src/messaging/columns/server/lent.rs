//! Columns as a connection reaches them.

use super::super::ServedColumn;
use rackweave_verbs::{Access, PdId, Region, RegisterError, Verbs};
use std::sync::Arc;

/// Columns that are registered for a connection, those used last at the end.
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

    /// Whether somebody waits for a column not to be sent any more.
    pub fn are_wanted(&self) -> bool {
        self.0.iter().any(|lent| lent.column.is_removed())
    }

    /// The region by which queue pairs of a domain reach a column, and whether it is new.
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

    /// Takes back those that `which` says, asked from the one used longest ago on.
    pub fn take_back(
        &mut self,
        verbs: &mut dyn Verbs,
        mut which: impl FnMut(&ServedColumn) -> bool,
    ) {
        self.0.retain(|lent| {
            let goes = which(&lent.column);
            if goes {
                // One that the NIC does not know any more is as good as deregistered.
                verbs.deregister(&lent.region);
            }
            !goes
        });
    }
}
