//! The servers of an index in the network: the endpoints that the switch answers for.

use super::{IndexNetwork, Server};
use crate::index::agent::{EndpointName, EndpointReply, EndpointRequest};
use crate::{IndexSetUpError, Rack, index};
use rackweave_base::NodeId;
use rackweave_endpoint::btree::OutlineNode;
use rackweave_endpoint::index::EndpointId;

impl IndexNetwork {
    /// Adds an endpoint that serves from now on, under a number that no plan names, with its users.
    pub(crate) fn add_server(
        &mut self,
        rack: &Rack,
        endpoint: EndpointId,
        node: NodeId,
    ) -> Result<(), IndexSetUpError> {
        self.forget_server(endpoint);
        let used = |number: &u16| {
            let live = self.servers.iter().flatten();
            live.map(|server| server.number).any(|used| used == *number)
                || self.named.contains(number)
        };
        let number = (0..u16::MAX).find(|number| !used(number)).unwrap_or(0);
        let index = self.index;
        let at = (EndpointName { index, endpoint }, node);
        match index::ask(rack, at, EndpointRequest::Lead { number })? {
            EndpointReply::Done => {}
            _ => return Err(IndexSetUpError::NoEndpoint(endpoint)),
        }
        let place = endpoint.index();
        if self.servers.len() <= place {
            self.servers.resize_with(place + 1, || None);
        }
        self.servers[place] = Some(Server { number, at });
        Ok(())
    }

    /// Forgets an endpoint that no longer serves. It removes itself from the switches when it
    /// stops, and the controller removes one whose node has died: its clients' queue pairs are
    /// forgotten, and entries of plans for it lead no query.
    pub(crate) fn forget_server(&mut self, endpoint: EndpointId) {
        if let Some(server) = self.servers.get_mut(endpoint.index()) {
            *server = None;
        }
    }
}

impl Server {
    pub fn ask(
        &self,
        rack: &Rack,
        request: EndpointRequest,
    ) -> Result<EndpointReply, IndexSetUpError> {
        index::ask(rack, self.at, request)
    }

    /// The bounds of its tree and at most `most` of the upper tree nodes; `None` if it has no keys
    /// or is gone.
    pub fn outline(&self, rack: &Rack, most: usize) -> Option<((u64, u64), Vec<OutlineNode>)> {
        let (mut again, mut all) = (false, Vec::new());
        let mut bounds = None;
        loop {
            let part = self.ask(rack, EndpointRequest::Outline { most, again });
            let Ok(EndpointReply::Outline(Some(part))) = part else {
                return None;
            };
            bounds = bounds.or(Some(part.bounds));
            all.extend(part.nodes);
            if part.is_last {
                return Some((bounds?, all));
            }
            again = true;
        }
    }
}
