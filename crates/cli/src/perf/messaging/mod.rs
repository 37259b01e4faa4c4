//! The test `messaging`: messages between a storage node and a compute node, each result beside a
//! yardstick of the same run.
//!
//! - the *consuming test*: the storage node streams messages, the compute node reads every byte: in
//!   place, sent by copying or out of a registered region, or copied out first; and the same
//!   through the paper's single buffer with as much memory. Compared with memcpy;
//! - messages of 64 bytes one way, as many as possible;
//! - ping-pong of 64 bytes: the round trip, and half of it, which perftest calls the latency; by
//!   ends that poll all the time, and by ends that rest when nothing progresses;
//! - a sweep of message sizes, which shows whether the bandwidth dips anywhere.
//!
//! Two threads, one per node, drive the rack while they wait, in addition to the rack's driver
//! threads. Received data is compared with what was sent: sums of all words of bulk data, small
//! messages byte by byte.

pub mod bulk;
pub mod rig;
mod single;
pub mod small;
pub mod source;
mod sweep;

use super::peer::Peer;
use super::test_run::TestRun;
use crate::measure::latency;
use crate::measure::memcpy_bandwidth;
use crate::measure::{rate, ratio};
use crate::outcome::CliError;
use crate::report::joined;
use bulk::{Bulk, Moved, Send, Take};
use hdrhistogram::Histogram;
use rackweave_endpoint::messaging::MessagingConfig;
use rig::Rig;
use serde_json::{Value, json};
use single::SinglePair;
use small::{Patience, SMALL_BYTES};
use source::{Messages, SOURCE_BYTES};
use std::time::Duration;

/// Default number of seconds of the whole test, without memcpy.
const SECONDS: f64 = 12.0;

/// Rounds of the consuming test and the small messages, in turn; the best round counts.
const ROUNDS: u32 = 3;

/// Measurements in each of these rounds: the consuming test in its forms, and small messages.
const KINDS: usize = 5;

/// The forms of the consuming test.
const CONSUMING: [&str; KINDS - 1] = ["in_place", "in_place_region", "copied_out", "single_buffer"];

/// Default bytes of a message of the consuming test.
const MESSAGE_BYTES: u32 = 1 << 20;

/// Bytes that memcpy copies, in total and at a time: far more than the caches hold, as for flows.
const MEMCPY: (usize, usize) = (SOURCE_BYTES, 1 << 20);

/// Runs the test.
///
/// # Errors
/// If messages are longer than their source, the rack cannot be built, or a connection ends.
pub fn measure(test: &mut TestRun<'_>) -> Result<Value, CliError> {
    let size = test.args.size.unwrap_or(MESSAGE_BYTES) as usize;
    if size > SOURCE_BYTES {
        return Err(CliError::usage(format!(
            "messaging sends messages of at most {SOURCE_BYTES} bytes; -s says {size}"
        )));
    }
    let messaging = MessagingConfig::default();
    let rack = test.real_rack()?;
    let mut rig = Rig::new(&rack, test.ends(), &messaging, &test.globals.interrupt)?;
    let mut single = SinglePair::new(&rig, &messaging)?;
    let span = test.part(SECONDS, 1);
    let (memcpy, moved) = rounds(test, &mut rig, &mut single, (size, span))?;
    test.progress.set(|| 5.0 / 12.0);
    let ping_pong = |test: &mut TestRun<'_>, rig: &mut Rig<'_>, patience| {
        let (round_trips, sound) = small::ping_pong(rig, patience, span / 24)?;
        test.verified &= sound;
        Ok::<_, CliError>(times(&round_trips))
    };
    let polling = ping_pong(test, &mut rig, Patience::Polls)?;
    let resting = ping_pong(test, &mut rig, Patience::Rests)?;
    test.progress.set(|| 6.0 / 12.0);
    let done = |share: f64| test.progress.set(|| 0.5 + share / 2.0);
    let (sweep, sound) = sweep::run(&mut rig, span / 2, done)?;
    test.verified &= sound;
    let all = messaging.receive_bytes_all();
    let mut found = json!({
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
            "gigabytes_per_s": memcpy,
        },
    });
    for (form, moved) in CONSUMING.into_iter().zip(&moved) {
        let gigabytes_per_s = moved.gigabytes_per_s();
        let beside = json!({
            "gigabytes_per_s": gigabytes_per_s,
            "ratio_to_memcpy": ratio(gigabytes_per_s, memcpy),
        });
        found[form] = moved_at(size, moved, beside);
    }
    let small = &moved[KINDS - 1];
    let packages = json!({"messages_per_package": small.per_package()});
    found["small"] = moved_at(SMALL_BYTES, small, packages);
    found["ping_pong"] = polling;
    found["ping_pong_resting"] = resting;
    if test.is_hosted() {
        let [polling, resting] = between_processes(test, &rig, span / 24)?;
        found["ping_pong_between_processes"] = polling;
        found["ping_pong_between_processes_resting"] = resting;
    }
    found["sweep"] = sweep;
    Ok(found)
}

/// The ping-pong with a process at the other end, which polls and then rests.
fn between_processes(
    test: &mut TestRun<'_>,
    rig: &Rig<'_>,
    span: Duration,
) -> Result<[Value; 2], CliError> {
    let (_peer, mut end) = Peer::that_echoes(test, rig.rack)?;
    // Within this time, two nodes that share memory have a direct cable.
    std::thread::sleep(2 * test.config.hosted().heartbeat());
    let messages = Messages::new(&rig.source, SMALL_BYTES);
    let mut found = [Value::Null, Value::Null];
    for (found, patience) in found.iter_mut().zip([Patience::Polls, Patience::Rests]) {
        let asked = small::ask(&mut end, &messages, patience, (span, rig.interrupt))?;
        let (round_trips, sound) = asked;
        test.verified &= sound;
        *found = times(&round_trips);
    }
    Ok(found)
}

/// Results of messages of `size` bytes, with `more` fields.
fn moved_at(size: usize, moved: &Moved, more: Value) -> Value {
    let rate = rate("messages", moved.messages, moved.nanos);
    joined([json!({"message_bytes": size}), rate, more])
}

/// Everything whose best round counts, measured in turn, so that a disturbance affects all alike:
/// gigabytes per second of memcpy, the consuming test of messages of `size` bytes, and small
/// messages. `span` is the time of the whole test.
fn rounds(
    test: &mut TestRun<'_>,
    rig: &mut Rig<'_>,
    single: &mut SinglePair,
    (size, span): (usize, Duration),
) -> Result<(f64, [Moved; KINDS]), CliError> {
    let span = span.mul_f64(5.0 / 12.0) / (ROUNDS * KINDS as u32);
    let bulk = |send, take| Bulk {
        size,
        send,
        take,
        alone: false,
        span,
    };
    let mut best: Option<(f64, [Moved; KINDS])> = None;
    for round in 0..ROUNDS {
        let memcpy = memcpy_bandwidth(MEMCPY.0, MEMCPY.1) / 1e9;
        let found = [
            bulk(Send::Copied, Take::InPlace).run(rig)?,
            bulk(Send::Region, Take::InPlace).run(rig)?,
            bulk(Send::Copied, Take::CopiedOut).run(rig)?,
            single.run(rig, size, span)?,
            small::rate(rig, span)?,
        ];
        test.verified &= found.iter().all(|moved| moved.sound);
        best = Some(match best {
            None => (memcpy, found),
            Some((copied, best)) => (
                copied.max(memcpy),
                std::array::from_fn(|at| best[at].or(found[at])),
            ),
        });
        let done = f64::from(round + 1) / f64::from(ROUNDS);
        test.progress.set(|| done * 5.0 / 12.0);
        if test.is_interrupted() {
            break;
        }
    }
    Ok(best.expect("there is a round at least"))
}

/// Round trip times, and half of them, which perftest calls the latency.
fn times(round_trips: &Histogram<u64>) -> Value {
    let half = |quantile| round_trips.value_at_quantile(quantile) as f64 / 2.0;
    json!({
        "message_bytes": SMALL_BYTES,
        "round_trip_ns": latency(round_trips),
        "one_way_ns": {
            "p50": half(0.5),
            "p90": half(0.9),
            "p99": half(0.99),
        },
    })
}
