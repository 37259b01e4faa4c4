//! Names by which other processes find a service of this one.

use crate::{ProcessError, Rack};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;

/// The name of a service, taken from it when this is dropped.
#[derive(Debug)]
pub(super) struct SharedName {
    rack: Rack,
    name: String,
}

impl SharedName {
    /// Gives a service a name. Who finds it gets its description.
    ///
    /// # Errors
    /// If something else has the name, or the rack has no other processes.
    pub fn new<D: Serialize>(
        rack: &Rack,
        name: &str,
        description: &D,
    ) -> Result<Self, ProcessError> {
        let description = serde_json::to_value(description).map_err(wrong)?;
        let service = move |_: Value| Ok(description.clone());
        rack.backend().provide(name, Arc::new(service))?;
        Ok(Self {
            rack: rack.clone(),
            name: name.to_owned(),
        })
    }

    /// The description of the service that has a name.
    ///
    /// # Errors
    /// If there is none of that kind, or its process does not answer.
    pub fn find<D: DeserializeOwned>(rack: &Rack, name: &str) -> Result<D, ProcessError> {
        let found = rack.backend().call(name, Value::Null)?;
        serde_json::from_value(found).map_err(wrong)
    }
}

impl Drop for SharedName {
    fn drop(&mut self) {
        self.rack.backend().withdraw(&self.name);
    }
}

fn wrong(error: serde_json::Error) -> ProcessError {
    ProcessError::Refused(error.to_string())
}
