//! One pass of one packet, or of one recirculated task, through the pipeline.

use crate::counters::DropReason;
use crate::fabric::{Direction, Fabric};
use rackweave_base::{Duration, Instant, Packet, PortId};

/// The progress of a pass. Debug builds use it to enforce the order of stages.
#[derive(Debug)]
pub struct Cursor {
    #[cfg(debug_assertions)]
    pass: u64,
    #[cfg(debug_assertions)]
    stage: u8,
}

impl Cursor {
    /// The start of pass number `pass`; no two passes may share a number.
    #[cfg_attr(not(debug_assertions), expect(unused_variables))]
    pub fn new(pass: u64) -> Self {
        Self {
            #[cfg(debug_assertions)]
            pass,
            #[cfg(debug_assertions)]
            stage: 0,
        }
    }

    #[cfg(debug_assertions)]
    pub(crate) fn pass(&self) -> u64 {
        self.pass
    }

    #[cfg(debug_assertions)]
    pub(crate) fn enter(&mut self, stage: u8, name: &str) {
        assert!(
            stage >= self.stage,
            "{name} in stage {stage} is accessed after stage {}",
            self.stage
        );
        self.stage = stage;
    }
}

/// What a program may do in one pass.
///
/// At most one packet or task continues (`forward`, `multicast` or `recirculate`), and at most one
/// header-only copy is mirrored into a task. Debug builds enforce it.
pub struct Pass<'a, T, D> {
    /// The time.
    pub now: Instant,
    /// Checks register accesses.
    pub cursor: Cursor,
    fabric: &'a mut Fabric<T, D>,
    #[cfg(debug_assertions)]
    continued: bool,
    #[cfg(debug_assertions)]
    mirrored: bool,
}

impl<'a, T, D> Pass<'a, T, D> {
    pub(crate) fn new(now: Instant, fabric: &'a mut Fabric<T, D>) -> Self {
        fabric.counters.passes += 1;
        Self {
            now,
            cursor: Cursor::new(fabric.counters.passes),
            fabric,
            #[cfg(debug_assertions)]
            continued: false,
            #[cfg(debug_assertions)]
            mirrored: false,
        }
    }

    fn continue_once(&mut self) {
        #[cfg(debug_assertions)]
        assert!(
            !core::mem::replace(&mut self.continued, true),
            "a pass has one way out"
        );
    }

    /// Sends the packet out of `port`.
    #[inline]
    pub fn forward(&mut self, port: PortId, packet: Packet) {
        self.continue_once();
        self.fabric.egress(self.now, port, packet);
    }

    /// Sends the copies of `group`. As egress stages do, `egress` gets the number of each copy and
    /// may change the copy.
    pub fn multicast(
        &mut self,
        group: u16,
        packet: Packet,
        mut egress: impl FnMut(u16, &mut Packet),
    ) {
        self.continue_once();
        let copies = self.fabric.groups.get_mut(usize::from(group));
        let Some(copies) = copies.map(core::mem::take) else {
            self.fabric.drop(
                self.now,
                PortId(0),
                Direction::Ingress,
                DropReason::NoPort,
                &packet,
            );
            return;
        };
        for &(port, number) in &copies {
            let mut replica = packet.clone();
            egress(number, &mut replica);
            self.fabric.egress(self.now, port, replica);
        }
        self.fabric.groups[usize::from(group)] = copies;
    }

    /// Schedules another pass for `task`.
    #[inline]
    pub fn recirculate(&mut self, task: impl Into<T>) {
        self.continue_once();
        self.fabric.recirculate(self.now, task.into());
    }

    /// Schedules a pass for a header-only copy of the packet, as a task.
    #[inline]
    pub fn mirror(&mut self, task: impl Into<T>) {
        #[cfg(debug_assertions)]
        assert!(
            !core::mem::replace(&mut self.mirrored, true),
            "a pass mirrors once"
        );
        self.fabric.recirculate(self.now, task.into());
    }

    /// Drops the packet that arrived on `port`.
    #[cold]
    pub fn drop(&mut self, port: PortId, reason: DropReason, packet: &Packet) {
        self.fabric
            .drop(self.now, port, Direction::Ingress, reason, packet);
    }

    /// Lets the packet generator send one packet for `key` after `delay`, replacing one set before.
    #[inline]
    pub fn arm(&mut self, key: u32, delay: Duration) {
        self.fabric.timers.set(key, self.now + delay);
    }

    /// As `arm`, but keeps an earlier time that is already set.
    #[inline]
    pub fn hasten(&mut self, key: u32, delay: Duration) {
        let due = self.now + delay;
        let timers = &mut self.fabric.timers;
        if timers.deadline(key).is_none_or(|set| due < set) {
            timers.set(key, due);
        }
    }

    /// Cancels what `arm` set.
    #[inline]
    pub fn disarm(&mut self, key: u32) {
        self.fabric.timers.cancel(key);
    }

    /// Sends a digest to the controller; it is never lost.
    pub fn digest(&mut self, digest: impl Into<D>)
    where
        D: PartialEq,
    {
        self.fabric.digest(digest.into());
    }

    /// Sends a digest to the controller, or drops it if many are queued. Only for a digest that is
    /// raised again as long as its cause lasts.
    pub fn hint(&mut self, digest: impl Into<D>) {
        self.fabric.hint(digest.into());
    }
}
