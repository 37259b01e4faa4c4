//! The loops of measurements in real time, in a rack of one process and in nodes of their own.

use super::ends::{Popped, Pushed, Sink, Source};
use super::initiator::{Initiator, Responder};
use crate::outcome::CliError;
use crate::patience::{Patience, Wish};
use rackweave_rack::Node;
use rackweave_rack::hosted::Job;
use rackweave_verbs::Progress;
use rackweave_verbs::Verbs;
use std::time::Instant;

/// Turns between two looks at how far it has come.
const ROUNDS: u32 = 256;

/// Nanoseconds since `start`.
pub fn nanos(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}

/// Every so many turns, not at every one.
#[derive(Default)]
pub struct NowAndThen(u32);

impl NowAndThen {
    /// Whether it is time.
    pub fn is_due(&mut self) -> bool {
        self.0 = self.0.wrapping_add(1);
        self.0.is_multiple_of(ROUNDS)
    }
}

/// Pushes until all sources have finished.
///
/// # Errors
/// If the flow was broken off.
pub fn push_all(
    sources: &mut [Vec<Source>],
    driver: &dyn Progress,
    start: Instant,
    wish: impl Fn() -> Wish,
    mut watch: impl FnMut(u64),
) -> Result<(), CliError> {
    let mut patience = Patience::new(driver);
    let mut watching = NowAndThen::default();
    loop {
        let now = nanos(start);
        let (mut moved, mut finished) = (false, true);
        for source in sources.iter_mut().flatten() {
            let pushed = source.turn(now)?;
            moved |= matches!(pushed, Pushed::Items(_));
            finished &= pushed == Pushed::Finished;
        }
        if finished {
            return Ok(());
        }
        if moved {
            patience.reset();
        } else {
            patience.wait(false);
        }
        if watching.is_due() {
            watch(sources.iter().flatten().map(Source::pushed).sum());
        }
        match wish() {
            Wish::GoOn => {}
            Wish::Finish => sources.iter_mut().flatten().for_each(Source::finish),
            Wish::Stop => return Ok(()),
        }
    }
}

/// Takes until all sinks have come to the end of their streams. `watch` hears how many items were
/// taken, and when.
///
/// # Errors
/// If the flow was broken off.
pub fn take_all(
    sinks: &mut [Sink],
    driver: &dyn Progress,
    start: Instant,
    wish: impl Fn() -> Wish,
    mut watch: impl FnMut(u64, u64),
) -> Result<(), CliError> {
    let mut patience = Patience::new(driver);
    let mut watching = NowAndThen::default();
    loop {
        let now = nanos(start);
        let (mut moved, mut ended) = (false, true);
        for sink in &mut *sinks {
            let popped = sink.turn(now)?;
            moved |= matches!(popped, Popped::Items(_));
            ended &= popped == Popped::Ended;
        }
        if ended || wish() != Wish::GoOn {
            return Ok(());
        }
        // What has come is taken before the rack is driven on: it may be all there is room for.
        if moved {
            patience.reset();
        } else {
            patience.wait(false);
        }
        if watching.is_due() {
            watch(sinks.iter().map(Sink::popped).sum(), now);
        }
    }
}

/// A way to a node's NIC.
pub trait Reach {
    /// Acts on the NIC and sees to it that what was posted gets going.
    ///
    /// # Errors
    /// If the node has none any more.
    fn act<R>(
        &self,
        act: impl FnOnce(&mut dyn Verbs) -> Result<R, CliError>,
    ) -> Result<R, CliError>;
}

impl Reach for Node {
    fn act<R>(
        &self,
        act: impl FnOnce(&mut dyn Verbs) -> Result<R, CliError>,
    ) -> Result<R, CliError> {
        self.with(act)
    }
}

impl Reach for Job {
    fn act<R>(
        &self,
        act: impl FnOnce(&mut dyn Verbs) -> Result<R, CliError>,
    ) -> Result<R, CliError> {
        self.with_nic(|nic| act(nic))
            .unwrap_or_else(|| Err(CliError::run("the node has lost the rack")))
    }
}

/// Posts and polls at those ends of a measurement of messages that are in this process, until the
/// initiator is done or a stop is wished. `watch` hears how far the initiator has come.
///
/// # Errors
/// If a completion says that something went wrong.
pub fn exchange<N: Reach>(
    near: &mut Option<(&N, Initiator)>,
    far: &mut Option<(&N, Responder)>,
    driver: &dyn Progress,
    mut wish: impl FnMut() -> Wish,
    mut watch: impl FnMut(&Initiator, u64),
) -> Result<(), CliError> {
    let start = Instant::now();
    let mut patience = Patience::new(driver);
    let mut watching = NowAndThen::default();
    loop {
        let mut moved = false;
        if let Some((node, initiator)) = near {
            moved |= node.act(|nic| {
                // Now that the NIC is ours: to get it may have taken a while.
                let now = nanos(start);
                let completed = initiator.poll(now, nic)?;
                Ok(initiator.post(now, nic)? + completed > 0)
            })?;
            if initiator.is_done() {
                break;
            }
            if watching.is_due() {
                watch(initiator, nanos(start));
            }
        }
        if let Some((node, responder)) = far {
            moved |= node.act(|nic| responder.run(nic))? > 0;
        }
        patience.wait(moved);
        match (wish(), &mut *near) {
            (Wish::GoOn, _) | (Wish::Finish, None) => {}
            (Wish::Finish, Some((_, initiator))) => initiator.close(),
            (Wish::Stop, _) => break,
        }
    }
    if let Some((node, responder)) = far {
        while node.act(|nic| responder.run(nic))? > 0 {}
    }
    Ok(())
}
