//! DCQCN: congestion control for RoCEv2.
//!
//! Source: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section
//! 3 (algorithm) and table 14 with section 5 (constants). The receiver of a packet marked
//! "congestion experienced" notifies its sender; the sender cuts the queue pair's rate and raises
//! it again by time and by bytes sent.

use rackweave_base::{Duration, Instant};

/// The value 1 in the fixed-point format of alpha.
const ALPHA_ONE: u64 = 1 << 20;

/// Bytes that a queue pair may send ahead of its rate, so that late polling by a driver does not
/// slow it down further. Chosen here: four of the largest packets.
const BURST_BYTES: u64 = 16 * 1024;

/// Parameters of DCQCN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dcqcn {
    /// Bits per second of the NIC's port, at which every queue pair starts.
    pub line_rate: u64,
    /// Lower bound of the rate in bits per second.
    pub rate_min: u64,
    /// Minimum time between two notifications of one queue pair: N.
    pub notify_interval: Duration,
    /// Alpha changes by the reciprocal of this power of two: g = 1/256.
    pub gain_shift: u32,
    /// Alpha decays once per this interval without a notification: K.
    pub alpha_interval: Duration,
    /// The rate is raised once per this interval: T.
    pub raise_interval: Duration,
    /// The rate is also raised once per this many bytes sent: B.
    pub raise_bytes: u64,
    /// Number of raises that only halve the distance to the rate before the cut: F.
    pub fast_recovery_raises: u32,
    /// Bits per second added by one additive increase: R_AI.
    pub additive_step: u64,
    /// Bits per second added by one hyper increase. The paper does not specify it; ten times R_AI
    /// is the ratio of the defaults of ConnectX NICs (`rpg_ai_rate` 5, `rpg_hai_rate` 50).
    pub hyper_step: u64,
}

impl Dcqcn {
    /// The paper's parameters for a port of `line_rate` bits per second.
    pub const fn new(line_rate: u64) -> Self {
        Self {
            line_rate,
            rate_min: 10_000_000,
            notify_interval: Duration::from_micros(50),
            gain_shift: 8,
            alpha_interval: Duration::from_micros(55),
            raise_interval: Duration::from_micros(55),
            raise_bytes: 10_000_000,
            fast_recovery_raises: 5,
            additive_step: 40_000_000,
            hyper_step: 400_000_000,
        }
    }
}

/// The rate of one queue pair.
#[derive(Clone, Debug)]
pub(crate) struct RateControl {
    /// False until the first notification, and again once the line rate is reached: then nothing is
    /// paced and no timer runs.
    limited: bool,
    current: u64,
    target: u64,
    alpha: u64,
    raises_by_time: u32,
    raises_by_bytes: u32,
    bytes: u64,
    next_send_ns: u64,
}

impl RateControl {
    pub(crate) fn new() -> Self {
        Self {
            limited: false,
            current: 0,
            target: 0,
            alpha: ALPHA_ONE,
            raises_by_time: 0,
            raises_by_bytes: 0,
            bytes: 0,
            next_send_ns: 0,
        }
    }

    /// Whether the rate is below the line rate.
    pub(crate) fn is_limited(&self) -> bool {
        self.limited
    }

    /// The rate in bits per second, or `None` at line rate.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.limited.then_some(self.current)
    }

    /// Cuts the rate after a notification.
    pub(crate) fn cut(&mut self, dcqcn: &Dcqcn) {
        if !self.limited {
            self.limited = true;
            self.current = dcqcn.line_rate;
            self.alpha = ALPHA_ONE;
        }
        self.target = self.current;
        let cut =
            (u128::from(self.current) * u128::from(self.alpha) / u128::from(2 * ALPHA_ONE)) as u64;
        let rate_min = dcqcn.rate_min.clamp(1, dcqcn.line_rate.max(1));
        self.current = (self.current - cut).max(rate_min);
        self.alpha += (ALPHA_ONE - self.alpha) >> dcqcn.gain_shift;
        self.raises_by_time = 0;
        self.raises_by_bytes = 0;
        self.bytes = 0;
    }

    /// Decays alpha after `alpha_interval` without a notification.
    pub(crate) fn decay(&mut self, dcqcn: &Dcqcn) {
        self.alpha -= self.alpha >> dcqcn.gain_shift;
    }

    /// Raises the rate after `raise_interval`.
    pub(crate) fn raise_by_time(&mut self, dcqcn: &Dcqcn) {
        self.raises_by_time = self.raises_by_time.saturating_add(1);
        self.raise(dcqcn);
    }

    /// Accounts for a packet of `bytes` bytes that was sent.
    #[inline]
    pub(crate) fn sent(&mut self, dcqcn: &Dcqcn, bytes: usize, now: Instant) {
        if !self.limited {
            return;
        }
        let time_ns = |bytes: u64| bytes.saturating_mul(8_000_000_000) / self.current.max(1);
        let earliest = now.as_nanos().saturating_sub(time_ns(BURST_BYTES));
        self.next_send_ns = self.next_send_ns.max(earliest) + time_ns(bytes as u64);
        self.bytes += bytes as u64;
        if self.bytes >= dcqcn.raise_bytes {
            self.bytes = 0;
            self.raises_by_bytes = self.raises_by_bytes.saturating_add(1);
            self.raise(dcqcn);
        }
    }

    /// The time when the next packet may be sent, if it may not be sent now.
    #[inline]
    pub(crate) fn wait_until(&self, now: Instant) -> Option<Instant> {
        (self.limited && self.next_send_ns > now.as_nanos())
            .then(|| Instant::from_nanos(self.next_send_ns))
    }

    fn raise(&mut self, dcqcn: &Dcqcn) {
        let (by_time, by_bytes) = (self.raises_by_time, self.raises_by_bytes);
        let recovery = dcqcn.fast_recovery_raises;
        if by_time.max(by_bytes) >= recovery {
            let hyper = by_time.min(by_bytes).saturating_sub(recovery);
            let step = match hyper {
                0 => dcqcn.additive_step,
                rounds => dcqcn.hyper_step.saturating_mul(u64::from(rounds)),
            };
            self.target = self.target.saturating_add(step).min(dcqcn.line_rate);
        }
        self.current = self.current.midpoint(self.target);
        // Halving never reaches the line rate, so within a thousandth of it counts as reached.
        if self.current >= dcqcn.line_rate - dcqcn.line_rate / 1000 {
            self.limited = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: u64 = 40_000_000_000;

    #[test]
    fn the_first_cut_halves_and_fast_recovery_returns_half_of_the_way() {
        let dcqcn = Dcqcn::new(LINE);
        let mut rate = RateControl::new();
        assert_eq!(rate.rate(), None);
        rate.cut(&dcqcn);
        assert_eq!(rate.rate(), Some(LINE / 2), "alpha starts at 1");
        rate.raise_by_time(&dcqcn);
        assert_eq!(rate.rate(), Some(LINE / 4 * 3));
        rate.raise_by_time(&dcqcn);
        assert_eq!(rate.rate(), Some(LINE / 8 * 7));
    }

    #[test]
    fn cuts_are_gentle_after_a_quiet_time_and_never_reach_zero() {
        let dcqcn = Dcqcn::new(LINE);
        let mut rate = RateControl::new();
        rate.cut(&dcqcn);
        for _ in 0..2000 {
            rate.decay(&dcqcn);
        }
        let before = rate.rate().unwrap();
        rate.cut(&dcqcn);
        assert!(rate.rate().unwrap() > before - before / 100);
        for _ in 0..10_000 {
            rate.cut(&dcqcn);
        }
        assert_eq!(rate.rate(), Some(dcqcn.rate_min));
    }

    #[test]
    fn additive_increase_follows_fast_recovery_and_ends_at_line_rate() {
        let dcqcn = Dcqcn::new(LINE);
        let mut rate = RateControl::new();
        rate.cut(&dcqcn);
        rate.cut(&dcqcn);
        let target = rate.target;
        for _ in 0..4 {
            rate.raise_by_time(&dcqcn);
            assert_eq!(rate.target, target);
        }
        rate.raise_by_time(&dcqcn);
        assert_eq!(rate.target, target + dcqcn.additive_step);
        let mut raises = 0;
        while rate.is_limited() {
            rate.raise_by_time(&dcqcn);
            raises += 1;
        }
        assert!(
            (400..600).contains(&raises),
            "20 Gb/s in steps of 40 Mb/s: {raises}"
        );
    }

    #[test]
    fn pacing_keeps_the_rate_beyond_the_burst() {
        let dcqcn = Dcqcn {
            rate_min: 8_000_000_000,
            ..Dcqcn::new(8_000_000_000)
        };
        let mut rate = RateControl::new();
        let start = Instant::from_nanos(1_000_000);
        rate.sent(&dcqcn, 1000, start);
        assert_eq!(
            rate.wait_until(start),
            None,
            "at line rate nothing is paced"
        );
        rate.cut(&dcqcn);
        let mut sent = 0;
        while rate.wait_until(start).is_none() {
            rate.sent(&dcqcn, 1000, start);
            sent += 1000;
        }
        // One byte per nanosecond.
        assert_eq!(sent, 17_000);
        assert_eq!(
            rate.wait_until(start),
            Some(start + Duration::from_nanos(616))
        );
    }
}
