//! An index that other processes find by name.

use super::{IndexService, IndexServiceError};
use crate::index::agent::IndexAgent;
use crate::services::name::SharedName;
use crate::{Index, IndexSpec, Rack};
use serde::{Deserialize, Serialize};

/// What another process has to know of an index.
#[derive(Serialize, Deserialize)]
struct IndexDescription {
    index: u64,
    spec: IndexSpec,
}

impl IndexService {
    /// Gives the index a name, by which other processes of the rack find it
    /// ([`IndexService::find`]). If it has endpoints in this process, a thread here has to call
    /// [`IndexService::serve`], as for the connections of this process.
    ///
    /// # Errors
    /// If something else has the name, or the rack has no other processes.
    pub fn share(&self, name: &str) -> Result<(), IndexServiceError> {
        let description = {
            let index = self.index();
            IndexDescription {
                index: index.number(),
                spec: index.spec().clone(),
            }
        };
        // Users elsewhere ask the endpoints.
        self.rack().offer_agent::<IndexAgent>()?;
        let shared = SharedName::new(self.rack(), name, &description)?;
        let mut names = self.0.shared.lock().expect("no holder panics");
        names.push(shared);
        Ok(())
    }

    /// The index to which a process of the rack has given a name.
    ///
    /// # Errors
    /// If there is none, or its process does not answer.
    pub fn find(rack: &Rack, name: &str) -> Result<Self, IndexServiceError> {
        let IndexDescription { index, spec } = SharedName::find(rack, name)?;
        Ok(Self::of(
            rack,
            Index::new(rack, index, spec, false),
            false,
            None,
        ))
    }
}
