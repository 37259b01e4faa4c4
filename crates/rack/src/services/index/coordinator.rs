//! Who moves keys between the endpoints of an index.

use super::{IndexService, IndexServiceError};
use crate::services::wait_within;
use crate::{Attached, Node};
use core::time::Duration;
use rackweave_endpoint::index::{
    BeginMoveError, Coordinator, CoordinatorEvent, EndpointId, PartitionMap, Step,
};

/// Moves ranges of keys between neighbouring endpoints, when told to or by itself, while clients
/// read and write. An index has one at most at a time.
///
/// With [`CoordinatorConfig::rebalance`] it asks the endpoints now and then how busy they are, and
/// moves keys from those with less time left to those with more; that takes somebody who
/// [`poll`](Self::poll)s it.
///
/// [`CoordinatorConfig::rebalance`]: rackweave_endpoint::index::CoordinatorConfig
#[derive(Debug)]
pub struct IndexCoordinator {
    /// Always there, until it is dropped.
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

    /// Advances the moves under way and gives the next event. Never waits.
    pub fn poll(&mut self) -> Option<CoordinatorEvent> {
        self.service.serve();
        let (node, now) = (&self.node, self.node.now());
        let coordinator = self.coordinator.as_mut().expect(THERE);
        node.with(|nic| coordinator.poll(now, nic))
    }

    /// Moves keys and waits until they have moved, in chunks, while clients go on. Returns how many
    /// entries there were. What it has to say beside that is lost.
    ///
    /// # Errors
    /// If the range cannot go there, an endpoint does not answer, or it is not done in time.
    pub fn move_keys(&mut self, step: Step, limit: Duration) -> Result<u64, IndexServiceError> {
        let node = self.node.clone();
        let (mut begun, mut entries) = (false, 0);
        let ended = wait_within(&node, limit, || {
            if !begun {
                // What is left of before; and it asks everybody where it stands at first.
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

    /// The newest map that it knows.
    pub fn map(&self) -> &PartitionMap {
        self.coordinator.as_ref().expect(THERE).map()
    }

    /// Connects anew to an endpoint that was restarted.
    ///
    /// # Errors
    /// If the endpoint is dead, or there is no room.
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
