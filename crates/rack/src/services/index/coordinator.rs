//! The coordinator that moves keys between the endpoints of an index.

use super::{IndexService, IndexServiceError};
use crate::services::wait_within;
use crate::{Attached, Node};
use core::time::Duration;
use rackweave_endpoint::index::{
    BeginMoveError, Coordinator, CoordinatorEvent, EndpointId, PartitionMap, Step,
};

/// Moves ranges of keys between neighbouring endpoints, on request or automatically, while clients
/// read and write. An index has at most one at a time.
///
/// With [`CoordinatorConfig::rebalance`] it periodically asks the endpoints how busy they are, and
/// moves keys from busier ones to less busy ones; for that the caller has to [`poll`](Self::poll)
/// it.
///
/// [`CoordinatorConfig::rebalance`]: rackweave_endpoint::index::CoordinatorConfig
#[derive(Debug)]
pub struct IndexCoordinator {
    /// `Some` until it is dropped.
    coordinator: Option<Attached<Coordinator>>,
    service: IndexService,
    node: Node,
}

const THERE: &str = "it has its machine until it is dropped";

impl IndexCoordinator {
    pub(super) fn new(
        service: IndexService,
        node: Node,
        coordinator: Attached<Coordinator>,
    ) -> Self {
        Self {
            coordinator: Some(coordinator),
            node,
            service,
        }
    }

    /// Advances pending moves and returns the next event. Never waits.
    pub fn poll(&mut self) -> Option<CoordinatorEvent> {
        self.service.serve();
        let (node, now) = (&self.node, self.node.now());
        let coordinator = self.coordinator.as_mut().expect(THERE);
        node.with(|nic| coordinator.poll(now, nic))
    }

    /// Moves keys in chunks and waits until they have moved, while clients continue. Returns the
    /// number of entries moved. Other events in the meantime are lost.
    ///
    /// # Errors
    /// If the range cannot move there, an endpoint does not answer, or the time limit expires.
    pub fn move_keys(&mut self, step: Step, limit: Duration) -> Result<u64, IndexServiceError> {
        let node = self.node.clone();
        let (mut begun, mut entries) = (false, 0);
        let ended = wait_within(&node, limit, || {
            if !begun {
                // Drains earlier events and begins to ask all endpoints for their current state.
                while self.poll().is_some() {}
                match self.coordinator.as_mut().expect(THERE).begin_move(step) {
                    Ok(()) => begun = true,
                    Err(BeginMoveError::Busy) => {}
                    Err(error) => return Some(Err(error.into())),
                }
            }
            match self.poll()? {
                CoordinatorEvent::Moved(moved) if begun => entries += moved.entries,
                CoordinatorEvent::Ended(result) if begun => {
                    return Some(result.map_err(IndexServiceError::from));
                }
                _ => {}
            }
            None
        });
        match ended {
            Some(result) => result.map(|()| entries),
            None => Err(IndexServiceError::TimedOut { after: limit }),
        }
    }

    /// The newest map known to it.
    pub fn map(&self) -> &PartitionMap {
        self.coordinator.as_ref().expect(THERE).map()
    }

    /// Reconnects to an endpoint that was restarted.
    ///
    /// # Errors
    /// If the endpoint is dead, or there is no capacity.
    pub fn reconnect(&mut self, endpoint: EndpointId) -> Result<(), IndexServiceError> {
        let coordinator = self.coordinator.as_mut().expect(THERE);
        Ok(self.service.attach(coordinator, endpoint)?)
    }
}

impl Drop for IndexCoordinator {
    fn drop(&mut self) {
        if let Some(coordinator) = self.coordinator.take() {
            self.service.release(coordinator);
        }
    }
}
