//! An index that other processes find by name.

use super::{IndexService, IndexServiceError, Served};
use crate::index::{EndpointReply, EndpointRequest};
use crate::{IndexSpec, ProcessError, Rack};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::{Arc, Weak};

/// What a process asks the one that has the endpoints.
#[derive(Serialize, Deserialize)]
enum IndexRequest {
    Describe,
    Endpoint(EndpointRequest),
}

/// The name of an index, taken from it when this is dropped.
#[derive(Debug)]
pub(super) struct SharedName {
    rack: Rack,
    name: String,
}

impl Drop for SharedName {
    fn drop(&mut self) {
        self.rack.backend().withdraw(&self.name);
    }
}

impl IndexService {
    /// Gives the index a name, by which other processes of the rack find it
    /// ([`IndexService::find`]). A thread of this process has to call [`IndexService::serve`], as
    /// for its own connections.
    ///
    /// # Errors
    /// If something else has the name, or the rack has no other processes.
    pub fn share(&self, name: &str) -> Result<(), IndexServiceError> {
        let served: Weak<Served> = Arc::downgrade(&self.0);
        let service = move |body: Value| {
            let index = served.upgrade().ok_or("the index has been removed")?;
            IndexService(index).answer_process(body)
        };
        let rack = self.rack();
        rack.backend().provide(name, Arc::new(service))?;
        let shared = SharedName {
            rack: rack.clone(),
            name: name.to_owned(),
        };
        let mut names = self.0.shared.lock().expect("no holder panics");
        names.push(shared);
        Ok(())
    }

    fn answer_process(&self, body: Value) -> Result<Value, String> {
        let request = serde_json::from_value(body).map_err(|error| error.to_string())?;
        let reply = match request {
            IndexRequest::Describe => serde_json::to_value(self.index().spec()),
            IndexRequest::Endpoint(request) => serde_json::to_value(self.answer(request)),
        };
        reply.map_err(|error| error.to_string())
    }

    /// The index to which a process of the rack has given a name.
    ///
    /// # Errors
    /// If there is none, or its process does not answer.
    pub fn find(rack: &Rack, name: &str) -> Result<Self, IndexServiceError> {
        let spec: IndexSpec = call(rack, name, &IndexRequest::Describe)?;
        let (of, name) = (rack.clone(), name.to_owned());
        let way = move |request: EndpointRequest| {
            let reply: Result<EndpointReply, ProcessError> =
                call(&of, &name, &IndexRequest::Endpoint(request));
            reply.unwrap_or_else(|error| Err(error.to_string()))
        };
        Ok(Self::elsewhere(rack, spec, Arc::new(way)))
    }
}

fn call<R: for<'a> Deserialize<'a>>(
    rack: &Rack,
    name: &str,
    request: &IndexRequest,
) -> Result<R, ProcessError> {
    let wrong = |error: serde_json::Error| ProcessError::Refused(error.to_string());
    let body = serde_json::to_value(request).map_err(wrong)?;
    let reply = rack.backend().call(name, body)?;
    serde_json::from_value(reply).map_err(wrong)
}
