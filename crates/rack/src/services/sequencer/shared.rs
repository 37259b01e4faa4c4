//! A sequencer that other processes find by name.

use super::{Made, NumberSource, Result, SequencerService, SequencerServiceError};
use crate::Rack;
use crate::services::{SequencerOptions, SequencerPlacement};
use rackweave_controller::ask::{FindName, ShareName};
use rackweave_controller::{NameError, Named, SequencerSetUpError};
use std::sync::Arc;

impl SequencerService {
    /// Gives a sequencer in the switch a name, by which other processes of the rack find it
    /// ([`SequencerService::find`]) while it exists.
    ///
    /// # Errors
    /// If something else has the name, or the sequencer is of another kind.
    pub fn share(&self, name: &str) -> Result<()> {
        let NumberSource::Switch(id) = self.0.source else {
            return Err(SequencerServiceError::NotShared);
        };
        let (name, what) = (name.to_owned(), Named::Sequencer(id));
        let shared = self.rack().ask(ShareName { name, what });
        Ok(shared.map_err(SequencerSetUpError::from)?)
    }

    /// The sequencer to which another process, or this one, has given a name.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(rack: &Rack, name: &str) -> Result<Self> {
        let found = rack.ask(FindName {
            name: name.to_owned(),
        });
        let Some(Named::Sequencer(id)) = found else {
            let unknown = NameError::Unknown {
                kind: "sequencer",
                name: name.to_owned(),
            };
            return Err(SequencerSetUpError::from(unknown).into());
        };
        Ok(Self(Arc::new(Made {
            rack: rack.clone(),
            options: SequencerOptions::new(SequencerPlacement::Switch),
            source: NumberSource::Switch(id),
            is_own: false,
            number: rack.random_number(),
        })))
    }
}
