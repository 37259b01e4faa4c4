//! Blocking and asynchronous calls with a time limit.

use crate::Node;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use rackweave_base::Instant;
use rackweave_verbs::NodeAccess;
use std::sync::Arc;

/// Rounds for which a task drives the rack before it yields to other tasks.
const ROUNDS: u32 = 8;

/// A call that waits for something at a node, within a time limit.
///
/// [`Call::wait`] blocks the thread and drives the rack meanwhile. As a future it needs no runtime
/// of its own: each poll drives the rack a little, and the task is woken when something has moved,
/// by the rack's driver threads if it has any, else at once.
///
/// `ask` is called repeatedly until it returns a result. Its argument is `true` once the time limit
/// has passed; it has to return one then.
#[must_use = "it does nothing before it is waited for"]
pub(super) struct Call<F> {
    node: Arc<dyn NodeAccess>,
    limit: Duration,
    deadline: Option<Instant>,
    ask: F,
}

impl<T, F: FnMut(bool) -> Option<T>> Call<F> {
    /// The time limit counts from the first wait or poll.
    pub fn new(node: Arc<dyn NodeAccess>, limit: Duration, ask: F) -> Self {
        let deadline = None;
        Self {
            node,
            limit,
            deadline,
            ask,
        }
    }

    /// Blocks until there is a result.
    pub fn wait(mut self) -> T {
        let mut idle_rounds = 0u32;
        loop {
            if let Some(answer) = self.step() {
                return answer;
            }
            if self.node.drive() {
                idle_rounds = 0;
            } else {
                self.node.relax(idle_rounds);
                idle_rounds = idle_rounds.saturating_add(1);
            }
        }
    }

    fn step(&mut self) -> Option<T> {
        if let Some(answer) = (self.ask)(false) {
            return Some(answer);
        }
        let now = self.node.now();
        let deadline = *self.deadline.get_or_insert(now + self.limit.into());
        (now >= deadline).then(|| (self.ask)(true)).flatten()
    }
}

/// [`wait_within`](super::wait_within) for a task that awaits it: the result of `ready`, or `None`
/// if `limit` expires first. It needs no runtime of its own. Each poll drives the rack a little,
/// and the task is woken when something has moved: by the rack's driver threads if it has any, else
/// at once.
///
/// ```
/// use rackweave_rack::Rack;
/// use rackweave_rack::services::{TIME_LIMIT, ready_within};
///
/// # async fn wait() -> Result<(), Box<dyn std::error::Error>> {
/// let rack = Rack::builder().build()?;
/// let flow = rack.flow(["storage0"], ["compute0"]).item_bytes(64).build()?;
/// let (node, mut consumer) = (rack.node("compute0")?, flow.take_consumer(0)?);
/// let mut item = [0; 64];
/// let came = ready_within(&node, TIME_LIMIT, || consumer.pop(&mut item).ready()).await;
/// # Ok(())
/// # }
/// ```
pub fn ready_within<T>(
    node: &Node,
    limit: Duration,
    mut ready: impl FnMut() -> Option<T> + Unpin,
) -> impl Future<Output = Option<T>> + Unpin {
    Call::new(node.access().clone(), limit, move |is_late| match ready() {
        Some(value) => Some(Some(value)),
        None => is_late.then_some(None),
    })
}

impl<T, F: FnMut(bool) -> Option<T> + Unpin> Future for Call<F> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        for _ in 0..ROUNDS {
            if let Some(answer) = self.step() {
                return Poll::Ready(answer);
            }
            if !self.node.drive() {
                break;
            }
        }
        self.node.wake_later(context.waker());
        // What moved before the waker was registered has woken no task.
        self.step().map_or(Poll::Pending, Poll::Ready)
    }
}
