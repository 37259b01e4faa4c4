//! The thread of an exchange.

use super::broadcast::{Inlet, Joining, Outlet};
use super::connection::{Channels, End, Leaving};
use super::link::Link;
use super::{Shared, held};
use crate::messaging::Listener;
use core::sync::atomic::Ordering;
use core::task::Waker;
use rackweave_base::{Duration, Instant};
use rackweave_endpoint::messaging::CloseReason;
use rackweave_verbs::Progress as _;
use std::sync::Arc;

/// How often the listener's socket is looked at: the system has to be asked. Also the longest
/// sleep, as a connection that is made wakes nobody.
const LISTEN_EVERY: Duration = Duration::from_millis(5);

/// The same while nodes are connecting.
const LISTEN_SOON: Duration = Duration::from_micros(200);

/// Rounds without news that the thread stays awake: another thread may be about to send.
const ROUNDS_AWAKE: u32 = 4;

/// Moves frames until the exchange is closed.
pub(super) fn run(shared: &Arc<Shared>, listener: Listener) {
    let mut pump = Pump {
        shared,
        listener,
        listened: Instant::ZERO,
        channels: Vec::new(),
        leaving: Vec::new(),
        outlet: Outlet::default(),
    };
    shared.node.set_driven(true);
    let mut idle_rounds = 0u32;
    while !shared.is_stopping.load(Ordering::SeqCst) {
        if pump.advance() | shared.node.drive() {
            idle_rounds = 0;
            continue;
        }
        // A program that adds a frame after this wakes the thread; one that did before is seen.
        shared.is_asleep.store(true, Ordering::SeqCst);
        if pump.has_news() {
            shared.is_asleep.store(false, Ordering::SeqCst);
            continue;
        }
        match idle_rounds < ROUNDS_AWAKE {
            true => std::thread::yield_now(),
            false => shared.node.sleep(pump.listen_every().into()),
        }
        shared.is_asleep.store(false, Ordering::SeqCst);
        idle_rounds = idle_rounds.saturating_add(1);
    }
    pump.stop();
    shared.node.set_driven(false);
}

struct Pump<'a> {
    shared: &'a Arc<Shared>,
    listener: Listener,
    listened: Instant,
    channels: Vec<Channels>,
    leaving: Vec<Leaving>,
    outlet: Outlet,
}

impl Pump<'_> {
    fn advance(&mut self) -> bool {
        let mut happened = self.listen();
        happened |= self.outlet.advance(self.shared);
        let mut links = held(&self.shared.links);
        let connected = core::mem::take(&mut links.connected);
        let joined = core::mem::take(&mut links.joined);
        drop(links);
        for (link, connection) in connected {
            let connection = connection.into_machines();
            let name = self.shared.node.name();
            self.channels.push(Channels::dialed(connection, link, name));
            happened = true;
        }
        for joining in joined {
            self.join(joining);
            happened = true;
        }
        let mut at = 0;
        while at < self.channels.len() {
            match self.channels[at].advance(self.shared) {
                Ok(any) => {
                    happened |= any;
                    at += 1;
                }
                Err(end) => {
                    let channels = self.channels.swap_remove(at);
                    self.end(channels, &end);
                    happened = true;
                }
            }
        }
        let leaving = core::mem::take(&mut self.leaving);
        let left = leaving
            .into_iter()
            .filter_map(|leaving| leaving.advance(self.shared));
        self.leaving = left.collect();
        happened
    }

    fn join(&mut self, joining: Joining) {
        let Joining {
            link,
            number,
            consumer,
        } = joining;
        let inlet = consumer.map(|consumer| Inlet::new(number, consumer));
        let is_of = |channels: &&mut Channels| {
            let its = channels.link.as_ref();
            its.is_some_and(|its| Arc::ptr_eq(its, &link))
        };
        match (self.channels.iter_mut().find(is_of), inlet) {
            (Some(channels), inlet) => channels.join_broadcasts(&link, inlet),
            // The connection has ended meanwhile.
            (None, Some(inlet)) => inlet.leave(),
            (None, None) => {}
        }
    }

    fn listen_every(&self) -> Duration {
        match self.listener.pending() > 0 {
            true => LISTEN_SOON,
            false => LISTEN_EVERY,
        }
    }

    fn listen(&mut self) -> bool {
        let now = self.shared.node.now();
        if now < self.listened + self.listen_every() {
            return false;
        }
        self.listened = now;
        let happened = self.listener.poll();
        while let Some(connection) = self.listener.try_accept() {
            let connection = connection.into_machines();
            self.channels.push(Channels::accepted(connection));
        }
        happened
    }

    fn end(&mut self, channels: Channels, end: &End) {
        let (why, reason) = match end {
            End::Closed(why) => (why.clone(), CloseReason::Normal),
            End::Misbehaviour(what) => (
                format!("it broke the protocol: {what}"),
                CloseReason::BadMessage,
            ),
        };
        if let Some(link) = &channels.link {
            self.forget(link, &why);
        }
        self.leaving.push(channels.close(self.shared, reason));
    }

    fn forget(&self, link: &Arc<Link>, why: &str) {
        link.end(why);
        self.shared.leave_broadcasts(link);
        let mut links = held(&self.shared.links);
        links.all.retain(|other| !Arc::ptr_eq(other, link));
        links.dialed.retain(|_, other| !Arc::ptr_eq(other, link));
    }

    /// Whether a program has left something to do.
    fn has_news(&self) -> bool {
        let stops = self.shared.is_stopping.load(Ordering::SeqCst);
        let has_arrived = || {
            let links = held(&self.shared.links);
            !links.connected.is_empty() || !links.joined.is_empty()
        };
        let broadcasts = || !self.outlet.is_full && self.shared.broadcasts.has_news();
        stops || self.channels.iter().any(Channels::has_news) || has_arrived() || broadcasts()
    }

    /// Ends all streams and connections.
    fn stop(mut self) {
        let flows = self.shared.close_broadcasts();
        // It may wait for the controller, and the controller for this node.
        while flows.as_ref().is_some_and(|flows| !flows.is_finished()) {
            if !self.shared.node.drive() {
                self.shared.node.sleep(LISTEN_SOON.into());
            }
        }
        for channels in core::mem::take(&mut self.channels) {
            if let Some(link) = &channels.link {
                self.forget(link, "the exchange here has been closed");
            }
            self.leaving
                .push(channels.close(self.shared, CloseReason::NodeStops));
        }
        // Those that are being connected; what arrives now is dropped, and so closed.
        let links = core::mem::take(&mut *held(&self.shared.links));
        for link in &links.all {
            link.end("the exchange here has been closed");
        }
        drop(links.connected);
        let mut arrivals = held(&self.shared.arrivals);
        arrivals.is_closed = true;
        let waiting = core::mem::take(&mut arrivals.waiting);
        let wakers = core::mem::take(&mut arrivals.wakers);
        drop(arrivals);
        drop(waiting);
        wakers.into_iter().for_each(Waker::wake);
        while !self.leaving.is_empty() {
            let leaving = core::mem::take(&mut self.leaving);
            let left = leaving
                .into_iter()
                .filter_map(|leaving| leaving.advance(self.shared));
            self.leaving = left.collect();
            if !self.shared.node.drive() {
                self.shared.node.sleep(LISTEN_SOON.into());
            }
        }
    }
}
