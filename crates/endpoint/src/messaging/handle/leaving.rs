//! How an end leaves after its handle was dropped or closed: it sends the reason to the peer and
//! destroys its resources.

use super::with;
use crate::flow::wait_until;
use crate::messaging::receiver::Receiver;
use crate::messaging::sender::Sender;
use rackweave_base::{Duration, Instant};
use rackweave_verbs::{NodeAccess, Verbs};
use rackweave_wire::fabric::message::CloseReason;

/// Maximum time for which an end that is dropped waits until the peer's NIC has acknowledged what
/// it was sent: that messages were taken, or why the connection is closed. Without that the peer
/// would see a broken connection. It is longer than NICs repeat a packet with the default
/// attributes of connections: 67 ms, twice and four times that, and five times 536 ms.
pub const FAREWELL: Duration = Duration::from_secs(4);

/// The operations of both ends when they are dropped.
pub(super) trait Leaving {
    fn close(&mut self, now: Instant, verbs: &mut dyn Verbs, reason: CloseReason);
    fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs);
    fn is_settled(&self) -> bool;
    fn destroy(self, verbs: &mut dyn Verbs);
}

macro_rules! leaving {
    ($end:ty) => {
        impl Leaving for $end {
            fn close(&mut self, now: Instant, verbs: &mut dyn Verbs, reason: CloseReason) {
                <$end>::close(self, now, verbs, reason);
            }

            fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) {
                // It is known to be closed.
                let _ = <$end>::poll(self, now, verbs);
            }

            fn is_settled(&self) -> bool {
                <$end>::is_settled(self)
            }

            fn destroy(self, verbs: &mut dyn Verbs) {
                <$end>::destroy(self, verbs);
            }
        }
    };
}

leaving!(Sender);
leaving!(Receiver);

/// Drops an end: sends the reason to the peer if there is one, waits until everything sent has
/// arrived, at most [`FAREWELL`], and releases its resources.
pub(super) fn go<E: Leaving>(node: &dyn NodeAccess, mut end: E, reason: Option<CloseReason>) {
    if let Some(reason) = reason {
        with(node, |now, verbs| end.close(now, verbs, reason));
    }
    let until = node.now() + FAREWELL;
    wait_until(node, || {
        with(node, |now, verbs| end.poll(now, verbs));
        (end.is_settled() || node.now() >= until).then_some(())
    });
    with(node, |_, verbs| end.destroy(verbs));
}
