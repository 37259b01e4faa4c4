//! A sequencer that other processes find by name.

use super::agent::SequencerAgent;
use super::{NumberSource, Result, SequencerService};
use crate::Rack;
use crate::services::name::SharedName;
use crate::services::{SequencerOptions, SequencerPlacement};
use rackweave_controller::ask::{FindName, ShareName};
use rackweave_controller::{NameError, Named, SequencerSetUpError};
use serde::{Deserialize, Serialize};

/// What another process has to know of a sequencer at a node.
#[derive(Serialize, Deserialize)]
struct SequencerDescription {
    sequencer: u64,
    options: SequencerOptions,
}

impl SequencerService {
    /// Gives the sequencer a name, by which other processes of the rack find it
    /// ([`SequencerService::find`]) while it exists. If it is in a server of this process, a thread
    /// here has to call [`SequencerService::serve`], as for the clients of this process.
    ///
    /// # Errors
    /// If something else has the name, or the rack has no other processes.
    pub fn share(&self, name: &str) -> Result<()> {
        let NumberSource::Switch(id) = self.0.source else {
            let description = SequencerDescription {
                sequencer: self.0.number,
                options: self.0.options,
            };
            // Users elsewhere ask the node of the word or the server.
            self.rack().offer_agent::<SequencerAgent>()?;
            let shared = SharedName::new(self.rack(), name, &description)?;
            let mut names = self.0.shared.lock().expect("no holder panics");
            names.push(shared);
            return Ok(());
        };
        let (name, what) = (name.to_owned(), Named::Sequencer(id));
        let shared = self.rack().ask(ShareName { name, what });
        Ok(shared.map_err(SequencerSetUpError::from)?)
    }

    /// The sequencer to which another process, or this one, has given a name.
    ///
    /// # Errors
    /// If there is none, or its process does not answer.
    pub fn find(rack: &Rack, name: &str) -> Result<Self> {
        let found = rack.ask(FindName {
            name: name.to_owned(),
        });
        let options = SequencerOptions::new(SequencerPlacement::Switch);
        let (options, source, number) = match found {
            Some(Named::Sequencer(id)) => (options, NumberSource::Switch(id), rack.random_number()),
            Some(Named::Service(_)) => {
                let found: SequencerDescription = SharedName::find(rack, name)?;
                let options = found.options;
                let home = options
                    .placement
                    .home()
                    .ok_or(super::SequencerServiceError::Gone)?;
                (options, NumberSource::Node(home), found.sequencer)
            }
            _ => {
                let unknown = NameError::Unknown {
                    kind: "sequencer",
                    name: name.to_owned(),
                };
                return Err(SequencerSetUpError::from(unknown).into());
            }
        };
        Ok(Self::of(rack, &options, source, (false, number)))
    }
}
