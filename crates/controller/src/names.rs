//! Names by which the processes of a rack find what one of them has made.
//!
//! A name is free again when what it names is gone, so that nobody has to withdraw it.

use crate::{Controller, FlowId, FlowState, SequencerId};
use rackweave_base::NodeId;
use serde::{Deserialize, Serialize};

/// Maximum number of names of a rack.
const NAMES_MAX: usize = 4096;

/// Maximum bytes of a name.
const NAME_MAX: usize = 128;

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Named {
    /// A flow.
    Flow(FlowId),
    /// A sequencer in the switch.
    Sequencer(SequencerId),
    /// A service in the process of this node, which answers requests.
    Service(NodeId),
}

/// Why a name could not be given, or found.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum NameError {
    /// Something else that still exists has the name.
    #[error("the name {0:?} is taken")]
    Taken(String),
    /// It is empty or too long.
    #[error("{0:?} is no name: 1 to {NAME_MAX} bytes are")]
    Invalid(String),
    /// The rack has too many names.
    #[error("the rack has {NAMES_MAX} names already")]
    TooMany,
    /// Nothing of this kind has the name.
    #[error("the rack has no {kind} named {name:?}")]
    Unknown {
        /// The requested kind.
        #[serde(with = "rackweave_base::text")]
        kind: rackweave_base::text::Text,
        /// The requested name.
        name: String,
    },
}

impl Controller {
    /// Gives a name to something that exists.
    ///
    /// # Errors
    /// If something else has the name, or it is too long.
    pub fn share_name(&mut self, name: String, what: Named) -> Result<(), NameError> {
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(NameError::Invalid(name));
        }
        match self.named(&name) {
            Some(other) if other != what => return Err(NameError::Taken(name)),
            _ => {}
        }
        let mut names = std::mem::take(&mut self.names);
        names.retain(|_, named| self.exists(*named));
        self.names = names;
        if self.names.len() >= NAMES_MAX {
            return Err(NameError::TooMany);
        }
        self.names.insert(name, what);
        Ok(())
    }

    /// What has a name.
    pub fn named(&self, name: &str) -> Option<Named> {
        let found = self.names.get(name).copied();
        found.filter(|named| self.exists(*named))
    }

    /// Takes a name from a service of a node.
    pub fn forget_service(&mut self, name: &str, node: NodeId) {
        if self.names.get(name) == Some(&Named::Service(node)) {
            self.names.remove(name);
        }
    }

    /// Takes the names from all services of a node, which has died.
    pub(crate) fn forget_services(&mut self, node: NodeId) {
        self.names.retain(|_, named| *named != Named::Service(node));
    }

    fn exists(&self, named: Named) -> bool {
        match named {
            Named::Flow(flow) => self.flow_state(flow) == Some(FlowState::Running),
            Named::Sequencer(id) => self.sequencer_reserved(id).is_some(),
            // Its name is taken away with its node.
            Named::Service(_) => true,
        }
    }
}
