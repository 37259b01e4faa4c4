//! The newest term of a controller that a node has obeyed.

use crate::hosted::HostedError;
use crate::hosted::elector::TermId;
use rackweave_base::canary::{Canary, planted};
use std::sync::Mutex;

#[derive(Default)]
pub(super) struct ObeyedTerm(Mutex<Option<TermId>>);

impl ObeyedTerm {
    /// Obeys a controller of this term from now on.
    ///
    /// # Errors
    /// If the node has obeyed a controller of a later term: this one may not know yet that its term
    /// has ended. Or another one whose term has the same number.
    pub fn obey(&self, term: TermId) -> Result<(), HostedError> {
        let mut obeyed = self.0.lock().expect("no holder of this lock panics");
        if let Some(newest) = *obeyed
            && !term.is_since(&newest)
            && !planted(Canary::HostedOldEpoch)
        {
            let (epoch, newest) = (term.epoch, newest.epoch);
            return Err(HostedError::OldTerm { epoch, newest });
        }
        *obeyed = Some(term);
        Ok(())
    }

    /// Forgets it: the node has kept nothing of any controller.
    pub fn forget(&self) {
        *self.0.lock().expect("no holder of this lock panics") = None;
    }
}
