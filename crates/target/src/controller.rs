//! Controllers: one per association with a host, created by Connect on an admin queue.

use rackweave_base::{Duration, Instant};
use rackweave_wire::nvme::property::{
    Capabilities, Configuration, ControllerStatus, Property, VERSION_2_0,
};

/// Maximum event requests that a controller holds.
pub(crate) const EVENT_REQUESTS_MAX: usize = 4;

/// A controller of the dynamic model (Fabrics 4.1): it lives as long as its admin queue.
pub(crate) struct Controller {
    pub(crate) host_id: [u8; 16],
    pub(crate) host: String,
    pub(crate) configuration: Configuration,
    pub(crate) status: ControllerStatus,
    /// Without a command in this time the association ends; none if the host requested none.
    pub(crate) keep_alive: Option<Duration>,
    /// When the last command arrived on any queue, as far as known.
    pub(crate) heard: Option<Instant>,
    /// Whether a command has arrived since `heard` was set.
    pub(crate) traffic: bool,
}

/// The effect of setting a property on the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    None,
    /// The controller was disabled or shut down: its I/O queues end and held commands are dropped.
    Reset,
}

impl Controller {
    pub(crate) fn new(host_id: [u8; 16], host: String, keep_alive_ms: u32) -> Self {
        let mut controller = Self {
            host_id,
            host,
            configuration: Configuration::default(),
            status: ControllerStatus::default(),
            keep_alive: None,
            heard: None,
            traffic: true,
        };
        controller.set_keep_alive(keep_alive_ms);
        controller
    }

    pub(crate) fn set_keep_alive(&mut self, ms: u32) {
        self.keep_alive = (ms > 0).then(|| Duration::from_millis(ms.into()));
        self.traffic = true;
    }

    /// When the association ends without traffic.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        Some(self.heard? + self.keep_alive?)
    }

    /// Records traffic. Returns true if the keep-alive timeout has expired.
    pub(crate) fn expired(&mut self, now: Instant) -> bool {
        if core::mem::take(&mut self.traffic) || self.heard.is_none() {
            self.heard = Some(now);
        }
        self.deadline().is_some_and(|deadline| now >= deadline)
    }

    /// Whether admin and I/O commands are accepted.
    pub(crate) fn is_ready(&self) -> bool {
        self.configuration.enable && self.status.ready && self.status.shutdown == 0
    }

    pub(crate) fn property(&self, property: Property, queue_entries: u16) -> u64 {
        match property {
            Property::Capabilities => Capabilities {
                queue_size_max: queue_entries - 1,
                contiguous: true,
                // Enabling takes no time; one unit is the minimum that can be reported.
                ready_timeout: 1,
                nvm_commands: true,
            }
            .emit(),
            Property::Version => VERSION_2_0.into(),
            Property::Configuration => self.configuration.emit().into(),
            Property::Status => self.status.emit().into(),
        }
    }

    /// Sets CC, the only property that a host may set.
    pub(crate) fn configure(&mut self, value: u32) -> Effect {
        let (before, after) = (self.configuration, Configuration::parse(value));
        self.configuration = after;
        let mut effect = Effect::None;
        if after.enable && !before.enable {
            let sound = Configuration {
                shutdown: 0,
                ..after
            } == Configuration::ENABLE;
            self.status = ControllerStatus {
                ready: sound,
                // An unsupported page size, entry size or command set is fatal (Base 3.1.3.5).
                fatal: !sound,
                shutdown: 0,
            };
        }
        if !after.enable && before.enable {
            self.status = ControllerStatus::default();
            effect = Effect::Reset;
        }
        if after.shutdown != 0 && before.shutdown == 0 {
            // Nothing is cached here, so there is nothing to wait for.
            self.status.shutdown = 2;
            effect = Effect::Reset;
        }
        effect
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controller() -> Controller {
        Controller::new([0; 16], "nqn.host".to_owned(), 0)
    }

    #[test]
    fn a_controller_is_enabled_reset_and_shut_down() {
        let mut controller = controller();
        let enable = Configuration::ENABLE.emit();
        assert!(!controller.is_ready());
        assert_eq!(controller.configure(enable), Effect::None);
        assert!(controller.is_ready());
        assert_eq!(controller.property(Property::Status, 32), 1);
        assert_eq!(controller.configure(enable & !1), Effect::Reset);
        assert_eq!(controller.property(Property::Status, 32), 0);
        controller.configure(enable);
        assert_eq!(controller.configure(enable | 1 << 14), Effect::Reset);
        assert_eq!(controller.property(Property::Status, 32), 0b1001);
        assert!(!controller.is_ready());
    }

    #[test]
    fn what_is_not_supported_is_fatal() {
        let mut controller = controller();
        controller.configure(Configuration::ENABLE.emit() | 1 << 7);
        assert_eq!(controller.property(Property::Status, 32), 0b10);
        assert!(!controller.is_ready());
    }

    #[test]
    fn silence_ends_an_association_with_keep_alive() {
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        let mut controller = controller();
        assert!(!controller.expired(at(0)));
        assert!(!controller.expired(at(1_000_000)), "none was asked for");
        controller.set_keep_alive(100);
        assert!(!controller.expired(at(1_000_000)));
        assert_eq!(controller.deadline(), Some(at(1_000_100)));
        assert!(!controller.expired(at(1_000_099)));
        controller.traffic = true;
        assert!(!controller.expired(at(1_000_100)));
        assert!(controller.expired(at(1_000_200)));
    }
}
