//! The coordinator moves ranges. It may be killed at any time, and another takes its place.

use super::plan::{IndexPlan, Keys};
use super::shared::Shared;
use crate::campaign::count;
use core::cell::{Cell, RefCell};
use rackweave_base::{Duration, NodeId, Rng};
use rackweave_endpoint::index::{
    Coordinator, CoordinatorConfig, CoordinatorEvent, EndpointId, MoveError, PartitionMap,
    RebalanceConfig, Step as Range,
};
use rackweave_rack::Attached;
use rackweave_sim::world::{Actor, Context, Step};
use std::collections::VecDeque;
use std::rc::Rc;

/// The minimum time from one step of its actor to the next.
const PERIOD: Duration = Duration::from_nanos(100);

/// The slot of a coordinator. The harness connects it; its actor runs it.
pub(super) struct Chair {
    pub node: NodeId,
    /// `None` once it was killed.
    pub coordinator: RefCell<Option<Attached<Coordinator>>>,
    /// By endpoint: the start of it that the coordinator is connected with; `None` if the endpoint
    /// does not answer.
    starts: RefCell<Vec<Option<u64>>>,
}

/// Orders to coordinators, and what they have done.
#[derive(Default)]
pub(super) struct Orders {
    /// Boundaries to move: the endpoint on the left, and the new boundary in thousandths of the
    /// keys.
    pub waiting: RefCell<VecDeque<(u16, u16)>>,
    pub moved: Cell<u64>,
}

/// Runs a coordinator.
pub(super) struct CoordinatorActor {
    shared: Rc<Shared>,
    orders: Rc<Orders>,
    chair: Rc<Chair>,
}

/// The configuration of the `life`th coordinator. The last one leaves all ranges as they are.
pub(super) fn config(plan: &IndexPlan, life: u32, last: bool) -> CoordinatorConfig {
    let mut rng = Rng::new(plan.seed ^ u64::from(life)).fork("coordinator");
    let rebalance = RebalanceConfig {
        busy_min: 0.05,
        served_min: 5,
        samples: 1,
        share_max: 0.3,
        ..RebalanceConfig::default()
    };
    CoordinatorConfig {
        chunk: *rng.pick(&[2, 10, 1000]),
        chunks_max: 4,
        rebalance: (plan.rebalances && !last).then_some(rebalance),
        sample_every: Duration::from_micros(*rng.pick(&[30, 100])),
        name: 1 + life,
        ..CoordinatorConfig::default()
    }
}

impl Chair {
    pub fn new(node: NodeId, coordinator: Attached<Coordinator>, endpoints: usize) -> Rc<Self> {
        Rc::new(Self {
            node,
            coordinator: RefCell::new(Some(coordinator)),
            starts: RefCell::new(vec![None; endpoints]),
        })
    }

    /// Records that it is connected with this start of an endpoint.
    pub fn attached(&self, endpoint: EndpointId, start: u64) {
        self.starts.borrow_mut()[endpoint.index()] = Some(start);
    }

    /// Whether it has no connection to this start of an endpoint.
    pub fn misses(&self, endpoint: EndpointId, start: u64) -> bool {
        self.starts.borrow()[endpoint.index()] != Some(start)
    }

    /// Whether it knows the state of all ranges and moves none.
    pub fn is_ready(&self) -> bool {
        let coordinator = self.coordinator.borrow();
        coordinator.as_ref().is_some_and(|it| it.is_ready())
    }
}

impl CoordinatorActor {
    pub fn new(shared: Rc<Shared>, orders: Rc<Orders>, chair: Rc<Chair>) -> Self {
        Self {
            shared,
            orders,
            chair,
        }
    }

    fn take_note(&self, event: CoordinatorEvent) {
        match event {
            CoordinatorEvent::Moved(_) => count(&self.orders.moved),
            CoordinatorEvent::Gone(endpoint) => {
                self.chair.starts.borrow_mut()[endpoint.index()] = None;
            }
            CoordinatorEvent::Ended(Err(error @ MoveError::Broken { .. })) => {
                self.shared.wrong.push(format!("a move: {error}"));
            }
            CoordinatorEvent::Ended(_)
            | CoordinatorEvent::Ready
            | CoordinatorEvent::Sampled(_)
            | CoordinatorEvent::Rebalances(_) => {}
        }
    }
}

/// The range on the wrong side of a boundary that is to move.
fn wrong_side(map: &PartitionMap, keys: Keys, left: u16, place: u16) -> Option<Range> {
    // The least key that belongs on the right; `None` if no key does.
    let boundary = match place {
        0 => Some(0),
        1000.. => None,
        place => Some(keys.key(keys.count * u64::from(place) / 1000)),
    };
    let (left, right) = (EndpointId(left), EndpointId(left + 1));
    if let Some(part) = map.part_of(left)
        && let Some(boundary) = boundary
        && part.last >= boundary
    {
        return Some(Range {
            from: left,
            to: right,
            low: part.low.max(boundary),
            last: part.last,
        });
    }
    let part = map.part_of(right)?;
    let last = match boundary {
        None => part.last,
        Some(boundary) => part.last.min(boundary.checked_sub(1)?),
    };
    (part.low <= last).then_some(Range {
        from: right,
        to: left,
        low: part.low,
        last,
    })
}

impl Actor for CoordinatorActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        let chair = self.chair.clone();
        let mut coordinator = chair.coordinator.borrow_mut();
        let Some(coordinator) = coordinator.as_mut() else {
            return Step::Done;
        };
        while let Some(event) = coordinator.poll(now, context.nic()) {
            self.take_note(event);
        }
        if coordinator.is_ready()
            && let Some((left, place)) = self.orders.waiting.borrow_mut().pop_front()
            && let Some(range) = wrong_side(coordinator.map(), self.shared.keys, left, place)
        {
            // Ranges that are not adjacent do not change their owner.
            let _ = coordinator.begin_move(range);
        }
        let due = coordinator.poll_timeout();
        due.map_or(Step::WaitForPacket, |due| {
            Step::WaitUntil(due.max(now + PERIOD))
        })
    }
}
