//! What the test says, as text and as JSON (docs/JSON.md).

use super::bulk::Moved;
use super::small::SMALL_BYTES;
use super::sweep::{Curve, Dip, Point, Sweep};
use crate::perf::report::{Latency, Setting, per_second, ratio, scaled, verdict};
use hdrhistogram::Histogram;
use rackweave_endpoint::messaging::MessagingConfig;
use serde::Serialize;
use std::fmt;

/// The buffers of each unit.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Buffers {
    pub receive_buffers: u8,
    pub receive_bytes: u32,
    pub send_bytes: u64,
    /// Bytes of a half of the single buffer's region.
    pub single_half_bytes: u64,
}

/// The yardstick: one thread copies from memory to memory.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Memcpy {
    pub buffer_bytes: usize,
    pub chunk_bytes: usize,
    pub gigabytes_per_s: f64,
}

/// A consuming test.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Consuming {
    pub message_bytes: usize,
    pub messages: u64,
    pub elapsed_s: f64,
    pub messages_per_s: f64,
    pub gigabytes_per_s: f64,
    pub ratio_to_memcpy: f64,
}

/// Small messages one way.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Small {
    pub message_bytes: usize,
    pub messages: u64,
    pub elapsed_s: f64,
    pub messages_per_s: f64,
    pub messages_per_package: f64,
    #[serde(skip)]
    pub sound: bool,
}

/// Half of a round trip, as perftest has it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct OneWay {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
}

/// Small messages there and back.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PingPong {
    pub message_bytes: usize,
    pub round_trip_ns: Latency,
    pub one_way_ns: OneWay,
}

/// Everything.
#[derive(Clone, Debug, Serialize)]
pub struct MessagingReport {
    #[serde(flatten)]
    pub setting: Setting,
    pub verified: bool,
    pub interrupted: bool,
    pub buffers: Buffers,
    pub memcpy: Memcpy,
    pub in_place: Consuming,
    pub in_place_region: Consuming,
    pub copied_out: Consuming,
    pub single_buffer: Consuming,
    pub small: Small,
    pub ping_pong: PingPong,
    pub ping_pong_resting: PingPong,
    pub sweep: Option<Sweep>,
}

impl Buffers {
    /// Those that follow from a configuration that both units have.
    pub fn of(messaging: &MessagingConfig) -> Self {
        let all = messaging.receive_bytes_all();
        Self {
            receive_buffers: messaging.receive_buffers,
            receive_bytes: messaging.receive_bytes,
            send_bytes: match messaging.send_bytes {
                0 => all,
                bytes => bytes,
            },
            single_half_bytes: all,
        }
    }
}

impl Consuming {
    /// Messages of `size` bytes beside memcpy, in gigabytes per second.
    pub fn new(moved: &Moved, size: usize, memcpy: f64) -> Self {
        Self {
            message_bytes: size,
            messages: moved.messages,
            elapsed_s: moved.nanos as f64 / 1e9,
            messages_per_s: per_second(moved.messages, moved.nanos),
            gigabytes_per_s: moved.gigabytes_per_s(),
            ratio_to_memcpy: ratio(moved.gigabytes_per_s(), memcpy),
        }
    }
}

impl Small {
    /// What so many messages in so many packages come to, if all was `sound`.
    pub fn new(messages: u64, nanos: u64, packages: u64, sound: bool) -> Self {
        Self {
            message_bytes: SMALL_BYTES,
            messages,
            elapsed_s: nanos as f64 / 1e9,
            messages_per_s: per_second(messages, nanos),
            messages_per_package: ratio(messages as f64, packages as f64),
            sound,
        }
    }

    /// The faster of both.
    pub fn or(self, other: Self) -> Self {
        if self.messages_per_s < other.messages_per_s {
            other
        } else {
            self
        }
    }
}

impl PingPong {
    /// What these round trips come to.
    pub fn new(round_trips: &Histogram<u64>) -> Self {
        let round_trip_ns = Latency::of(round_trips);
        let half = |nanos: u64| nanos as f64 / 2.0;
        Self {
            message_bytes: SMALL_BYTES,
            round_trip_ns,
            one_way_ns: OneWay {
                p50: half(round_trip_ns.p50),
                p90: half(round_trip_ns.p90),
                p99: half(round_trip_ns.p99),
            },
        }
    }
}

/// Bytes in the largest unit that divides them.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes > 0 && bytes.is_multiple_of(1 << 20) => write!(f, "{} MiB", bytes >> 20),
            bytes if bytes > 0 && bytes.is_multiple_of(1 << 10) => write!(f, "{} KiB", bytes >> 10),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

impl fmt::Display for Consuming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>9.3} GB/s, {:.2} of memcpy, {}messages/s",
            self.gigabytes_per_s,
            self.ratio_to_memcpy,
            scaled(self.messages_per_s)
        )
    }
}

impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Point {
            message_bytes,
            gigabytes_per_s,
            median_gigabytes_per_s,
            below_best_before,
            ..
        } in &self.points
        {
            let size = Bytes(*message_bytes as u64).to_string();
            write!(f, "{size:>10} {gigabytes_per_s:>9.3} GB/s")?;
            write!(f, ", middle round {median_gigabytes_per_s:>7.3}")?;
            if *below_best_before > 0.0 {
                write!(
                    f,
                    ", {:.1} % below the best before",
                    100.0 * below_best_before
                )?;
            }
            writeln!(f)?;
        }
        let dip = |dip: &Option<Dip>| match dip {
            Some(Dip {
                message_bytes,
                depth,
            }) => format!("{:.1} % at {}", 100.0 * depth, Bytes(*message_bytes as u64)),
            None => "none".to_owned(),
        };
        writeln!(
            f,
            "deepest dip: below the best before {}; below both neighbours {}",
            dip(&self.deepest_below_best_before),
            dip(&self.deepest_below_neighbours)
        )
    }
}

impl fmt::Display for PingPong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "round trips:")?;
        write!(f, "{}", self.round_trip_ns)?;
        let OneWay { p50, p90, p99 } = self.one_way_ns;
        let [p50, p90, p99] = [p50, p90, p99].map(|nanos| nanos / 1e3);
        writeln!(
            f,
            "half of it, one way: p50 {p50:.3} us, p90 {p90:.3} us, p99 {p99:.3} us"
        )
    }
}

impl fmt::Display for MessagingReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (buffers, memcpy) = (&self.buffers, &self.memcpy);
        write!(f, "{}", self.setting)?;
        writeln!(
            f,
            "each unit: {} receive buffers of {}, a send buffer of {}",
            buffers.receive_buffers,
            Bytes(buffers.receive_bytes.into()),
            Bytes(buffers.send_bytes)
        )?;
        writeln!(
            f,
            "memcpy: {:.3} GB/s, one thread, {} from memory to memory, {} at a time",
            memcpy.gigabytes_per_s,
            Bytes(memcpy.buffer_bytes as u64),
            Bytes(memcpy.chunk_bytes as u64)
        )?;
        let size = Bytes(self.in_place.message_bytes as u64);
        writeln!(f, "messages of {size}, every byte read:")?;
        let half = Bytes(buffers.single_half_bytes);
        for (what, consuming) in [
            ("in place, sent by copying".to_owned(), self.in_place),
            (
                "in place, sent out of a region".to_owned(),
                self.in_place_region,
            ),
            ("copied out".to_owned(), self.copied_out),
            (
                format!("single buffer, halves of {half}"),
                self.single_buffer,
            ),
        ] {
            write!(f, "  {what:<39} {consuming}")?;
        }
        let small = &self.small;
        writeln!(
            f,
            "messages of {} bytes one way: {}messages/s, {:.1} in a package",
            small.message_bytes,
            scaled(small.messages_per_s),
            small.messages_per_package
        )?;
        for (who, ping_pong) in [
            ("ends that poll", &self.ping_pong),
            ("ends that rest", &self.ping_pong_resting),
        ] {
            write!(f, "ping-pong of {SMALL_BYTES} bytes by {who}, {ping_pong}")?;
        }
        if let Some(sweep) = &self.sweep {
            writeln!(
                f,
                "by size, one message behind the other, best of {} rounds:",
                sweep.rounds
            )?;
            write!(f, "{}", sweep.streamed)?;
            writeln!(f, "by size, one message at a time until it is consumed:")?;
            write!(f, "{}", sweep.alone)?;
        }
        verdict(f, self.verified, self.interrupted)
    }
}
