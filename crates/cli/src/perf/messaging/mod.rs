//! The test `messaging`: messages between a storage unit and a compute unit, each number beside a
//! yardstick of the same run.
//!
//! - the *consuming test*: the storage unit streams messages, the compute unit reads every byte:
//!   where it lies, sent by copying or out of a registered region, or copied out first; and the
//!   same through the paper's single buffer with as much memory. Beside memcpy;
//! - messages of 64 bytes one way, as many as go;
//! - ping-pong of 64 bytes: the round trip, and half of it, which perftest calls the latency; by
//!   ends that poll all the time, and by ends that rest when nothing moves;
//! - a sweep of message sizes, which shows whether the bandwidth dips anywhere.
//!
//! Two threads, one per unit, drive the rack as they wait; driver threads of the rack come on top.
//! What arrives is compared with what was sent: sums of all words of bulk data, small messages byte
//! by byte.

pub mod bulk;
pub mod rig;
mod single;
pub mod small;
pub mod source;
mod sweep;

use super::report::{self, Latency, per_second, ratio};
use crate::globals::Globals;
use crate::interrupt::Interrupt;
use crate::memcpy;
use crate::mode::EMBEDDED;
use crate::outcome::{CliError, Verdict};
use crate::perf::args::PerfArgs;
use crate::progress::Progress;
use bulk::{Bulk, Moved, Send, Take};
use rackweave_base::NodeId;
use rackweave_endpoint::messaging::MessagingConfig;
use rackweave_rack::EmbeddedRack;
use rig::Rig;
use serde_json::{Value, json};
use single::SinglePair;
use small::{Patience, SMALL_BYTES, Small};
use source::{Places, SOURCE_BYTES, Source};
use std::time::Duration;
use sweep::Sweep;

/// Seconds of the whole test if the user does not say, memcpy not counted.
const SECONDS: f64 = 12.0;

/// How often the consuming test and the small messages are measured, in turn; the best counts.
const ROUNDS: u32 = 3;

/// Things measured in each of these rounds.
const KINDS: u32 = 5;

/// Bytes of a message of the consuming test if the user does not say.
const MESSAGE_BYTES: u32 = 1 << 20;

/// What memcpy copies, and how much of it at a time: far more than the caches hold, as flows are
/// compared with.
const MEMCPY: (usize, usize) = (SOURCE_BYTES, 1 << 20);

/// Runs the test.
///
/// # Errors
/// If messages are longer than what they are taken from, the rack cannot be built, or a connection
/// ends.
pub fn run(args: &PerfArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let config = globals.rack_config(&args.rack)?;
    let size = args.size.unwrap_or(MESSAGE_BYTES) as usize;
    if size > SOURCE_BYTES {
        return Err(CliError::usage(format!(
            "messaging sends messages of at most {SOURCE_BYTES} bytes; -s says {size}"
        )));
    }
    let seconds = args.duration.unwrap_or(SECONDS);
    let progress = Progress::new(globals, args.test.name);
    let messaging = MessagingConfig::default();
    let rack = EmbeddedRack::new(&config)?;
    globals.live.watch(rack.observer());
    let places = [NodeId(0), NodeId(config.node.len() as u16 - 1)];
    let mut rig = Rig::new(&rack, places, &messaging)?;
    let source = rig.source(config.seed)?;
    let single = SinglePair::new(&rig, &messaging)?;
    let mut task = Task {
        rig,
        source,
        single,
        size,
        span: Duration::from_secs_f64(seconds),
        interrupt: &globals.interrupt,
        progress,
        sound: true,
    };
    let rounds = task.rounds()?;
    task.progress.set(|| 5.0 / 12.0);
    let ping_pong = task.ping_pong(Patience::Polls)?;
    let ping_pong_resting = task.ping_pong(Patience::Rests)?;
    task.progress.set(|| 6.0 / 12.0);
    let sweep = task.sweep()?;
    let beside = |moved: &Moved| consuming(moved, size, rounds.memcpy);
    let all = messaging.receive_bytes_all();
    let small = &rounds.small;
    let found = json!({
        "buffers": {
            "receive_buffers": messaging.receive_buffers,
            "receive_bytes": messaging.receive_bytes,
            "send_bytes": match messaging.send_bytes {
                0 => all,
                bytes => bytes,
            },
            "single_half_bytes": all,
        },
        "memcpy": {
            "buffer_bytes": MEMCPY.0,
            "chunk_bytes": MEMCPY.1,
            "gigabytes_per_s": rounds.memcpy,
        },
        "in_place": beside(&rounds.in_place),
        "in_place_region": beside(&rounds.in_place_region),
        "copied_out": beside(&rounds.copied_out),
        "single_buffer": beside(&rounds.single_buffer),
        "small": {
            "message_bytes": SMALL_BYTES,
            "messages": small.messages,
            "elapsed_s": small.nanos as f64 / 1e9,
            "messages_per_s": small.per_second(),
            "messages_per_package": small.per_package(),
        },
        "ping_pong": ping_pong,
        "ping_pong_resting": ping_pong_resting,
        "sweep": sweep,
    });
    let sound = task.sound;
    drop(task);
    report::finish(globals, args.test, (EMBEDDED, &config), sound, &found)
}

/// Messages of `size` bytes beside memcpy, in gigabytes per second.
fn consuming(moved: &Moved, size: usize, memcpy: f64) -> Value {
    json!({
        "message_bytes": size,
        "messages": moved.messages,
        "elapsed_s": moved.nanos as f64 / 1e9,
        "messages_per_s": per_second(moved.messages, moved.nanos),
        "gigabytes_per_s": moved.gigabytes_per_s(),
        "ratio_to_memcpy": ratio(moved.gigabytes_per_s(), memcpy),
    })
}

/// What all measurements share.
struct Task<'a> {
    rig: Rig<'a>,
    source: Source,
    single: SinglePair,
    /// Bytes of a message of the consuming test.
    size: usize,
    /// The time of the whole test.
    span: Duration,
    interrupt: &'a Interrupt,
    progress: Progress,
    /// Whether everything arrived as it was sent.
    sound: bool,
}

/// The best of all rounds.
struct Rounds {
    /// Gigabytes per second.
    memcpy: f64,
    in_place: Moved,
    in_place_region: Moved,
    copied_out: Moved,
    single_buffer: Moved,
    small: Small,
}

impl Task<'_> {
    /// Everything whose best round counts, each in turn, so that a disturbance meets all alike.
    fn rounds(&mut self) -> Result<Rounds, CliError> {
        let mut best: Option<Rounds> = None;
        for round in 0..ROUNDS {
            let memcpy = memcpy::bandwidth(MEMCPY.0, MEMCPY.1) / 1e9;
            let found = Rounds {
                memcpy,
                in_place: self.bulk(Send::Copied, Take::InPlace)?,
                in_place_region: self.bulk(Send::Region, Take::InPlace)?,
                copied_out: self.bulk(Send::Copied, Take::CopiedOut)?,
                single_buffer: self.single_buffer()?,
                small: self.small()?,
            };
            best = Some(match best {
                None => found,
                Some(best) => best.with(found),
            });
            self.progress
                .set(|| f64::from(round + 1) / f64::from(ROUNDS) * 5.0 / 12.0);
            if self.interrupt.is_set() {
                break;
            }
        }
        Ok(best.expect("there is a round at least"))
    }

    /// The time of one measurement of one round.
    fn part(&self) -> Duration {
        self.span.mul_f64(5.0 / 12.0) / (ROUNDS * KINDS)
    }

    fn bulk(&mut self, send: Send, take: Take) -> Result<Moved, CliError> {
        let bulk = Bulk {
            places: Places::new(&self.source, self.size),
            send,
            take,
            alone: false,
            span: self.part(),
        };
        let moved = bulk.run(&mut self.rig, &self.source, self.interrupt)?;
        self.sound &= moved.sound;
        Ok(moved)
    }

    fn single_buffer(&mut self) -> Result<Moved, CliError> {
        let (places, span) = (Places::new(&self.source, self.size), self.part());
        let moved = self
            .single
            .run(&self.source, &places, span, self.interrupt)?;
        self.sound &= moved.sound;
        Ok(moved)
    }

    fn small(&mut self) -> Result<Small, CliError> {
        let span = self.part();
        let small = small::rate(&mut self.rig, &self.source, span, self.interrupt)?;
        self.sound &= small.sound;
        Ok(small)
    }

    /// Round trips, and half of them, which perftest calls the latency.
    fn ping_pong(&mut self, patience: Patience) -> Result<Value, CliError> {
        let limits = (self.span / 24, self.interrupt);
        let found = small::ping_pong(&mut self.rig, &self.source, patience, limits);
        let (round_trips, sound) = found?;
        self.sound &= sound;
        let round_trip_ns = Latency::of(&round_trips);
        let half = |nanos: u64| nanos as f64 / 2.0;
        Ok(json!({
            "message_bytes": SMALL_BYTES,
            "round_trip_ns": round_trip_ns,
            "one_way_ns": {
                "p50": half(round_trip_ns.p50),
                "p90": half(round_trip_ns.p90),
                "p99": half(round_trip_ns.p99),
            },
        }))
    }

    fn sweep(&mut self) -> Result<Option<Sweep>, CliError> {
        let span = self.span / 2;
        let Self {
            rig,
            source,
            progress,
            ..
        } = self;
        let mut done = |share: f64| progress.set(|| 0.5 + share / 2.0);
        let (sweep, sound) = sweep::run(rig, source, span, self.interrupt, &mut done)?;
        self.sound &= sound;
        Ok(sweep)
    }
}

impl Rounds {
    /// The better of both, each for itself.
    fn with(self, other: Self) -> Self {
        Self {
            memcpy: self.memcpy.max(other.memcpy),
            in_place: self.in_place.or(other.in_place),
            in_place_region: self.in_place_region.or(other.in_place_region),
            copied_out: self.copied_out.or(other.copied_out),
            single_buffer: self.single_buffer.or(other.single_buffer),
            small: self.small.or(other.small),
        }
    }
}
