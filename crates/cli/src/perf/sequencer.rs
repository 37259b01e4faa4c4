//! The test `sequencer`: ranges of numbers per second from a sequencer of each kind: a register of
//! the switch, a word in another node's memory, a counter in a server.
//!
//! One client, one thread that drives the rack and, for the server, the server: many calls in
//! flight, combined in few requests; the same calls with a request for each; one call at a time,
//! for its latency. Every range must begin where the preceding one ends.

use super::test_run::TestRun;
use crate::globals::Globals;
use crate::measure::{histogram, latency, per_second, rate, ratio};
use crate::outcome::CliError;
use crate::programs::{self, End, Port, Program, RealRack, Turn, Wish};
use core::ops::Range;
use hdrhistogram::Histogram;
use rackweave_base::NodeId;
use rackweave_endpoint::sequencer::{Sequencer, SequencerConfig};
use rackweave_rack::services::{
    AttachedSequencer, CounterServerSpec, SequencerOptions, SequencerPlacement, SequencerService,
};
use serde_json::{Value, json};
use std::time::Duration;

/// Requests in flight if calls are not combined: the maximum number of atomics of a queue pair.
const REQUESTS_MAX: u32 = 16;

/// Polls between two readings of the clock.
const ROUNDS_PER_LOOK: u32 = 64;

/// Measurements: three of each of three kinds.
const MEASUREMENTS: u32 = 3 * 3;

/// A client that draws numbers, as a program.
struct Drawer {
    client: AttachedSequencer,
    /// Calls in flight.
    calls: u32,
    left: u32,
    /// Nanoseconds for which it draws.
    span: u64,
    is_over: bool,
    rounds: u32,
    /// The drawn ranges; consecutive ranges are merged.
    drawn: Vec<Range<u64>>,
    /// When the call began, and the latencies of calls, if there is one at a time.
    begun: u64,
    histogram: Histogram<u64>,
    /// When it ended, in nanoseconds since the start.
    ended: u64,
}

impl Program for Drawer {
    fn turn(&mut self, port: &mut Port<'_, '_>) -> Result<Turn, CliError> {
        let (node, clock, is_timed) = (port.node()?, port.clock(), self.calls == 1);
        if self.rounds.is_multiple_of(ROUNDS_PER_LOOK) {
            self.is_over |= clock.now() >= self.span;
        }
        self.rounds = self.rounds.wrapping_add(1);
        if is_timed && self.left > 0 {
            self.begun = clock.now();
        }
        while self.left > 0 && !self.is_over {
            self.client.begin(1)?;
            self.left -= 1;
        }
        let before = self.left;
        let (client, drawn, left) = (&mut self.client, &mut self.drawn, &mut self.left);
        node.with(|nic| {
            // Time stands still, so that nothing times out.
            while let Some(done) = client.poll(rackweave_base::Instant::ZERO, nic) {
                *left += 1;
                let range = done.result?;
                match drawn.last_mut() {
                    Some(last) if last.end == range.start => last.end = range.end,
                    _ => drawn.push(range),
                }
            }
            Ok::<_, CliError>(())
        })?;
        let moved = self.left > before;
        if is_timed && moved {
            self.histogram.saturating_record(clock.now() - self.begun);
        }
        // The last calls are waited for.
        if self.is_over && self.left == self.calls {
            self.ended = clock.now();
            return Ok(Turn::Ended);
        }
        Ok(Turn::Waits { moved })
    }

    fn finish(&mut self) {
        self.is_over = true;
    }
}

/// The server, if there is one.
struct Serving(SequencerService);

impl Program for Serving {
    fn turn(&mut self, _: &mut Port<'_, '_>) -> Result<Turn, CliError> {
        let moved = self.0.serve();
        Ok(Turn::Waits { moved })
    }

    fn is_server(&self) -> bool {
        true
    }
}

/// What clients drew.
pub struct Drawn {
    /// How many numbers; or the first that is missing or duplicated, in words.
    pub numbers: Result<u64, String>,
    /// Until the last client ended.
    pub nanos: u64,
    /// Latencies of calls, if there is one at a time.
    histogram: Histogram<u64>,
}

impl Drawn {
    /// Numbers per second.
    pub fn rate(&self) -> f64 {
        per_second(self.count(), self.nanos)
    }

    /// The number of numbers, zero if they are wrong.
    pub fn count(&self) -> u64 {
        self.numbers.as_ref().copied().unwrap_or(0)
    }
}

/// Lets a client on each of these nodes keep `calls` calls to a sequencer in flight for `span`,
/// each in its own thread, and checks all numbers. A server has the last node of the rack. `demo`
/// uses it, too.
///
/// # Errors
/// If switch or nodes have no capacity, or a connection fails.
pub fn draw(
    (rack, globals): (&RealRack, &Globals),
    clients: &[NodeId],
    placement: SequencerPlacement,
    (calls, shape): (u32, SequencerConfig),
    span: Duration,
) -> Result<Drawn, CliError> {
    let service = SequencerService::with(rack, &SequencerOptions::new(placement))?;
    let mut groups = Vec::new();
    for &node in clients {
        let drawer = Drawer {
            client: service.client(node, shape)?,
            calls,
            left: calls,
            span: span.as_nanos() as u64,
            is_over: false,
            rounds: 0,
            drawn: Vec::new(),
            begun: 0,
            histogram: histogram(),
            ended: 0,
        };
        groups.push(vec![(node, End::Sink(drawer))]);
    }
    if let (Some(group), Some(&far)) = (groups.first_mut(), rack.nodes().last()) {
        group.push((far, End::Source(Serving(service.clone()))));
    }
    let (mut drawn, mut nanos, mut histogram) = (Vec::new(), 0, histogram());
    let (ends, ran) = programs::drive(rack, groups, Wish::Finish, globals);
    for end in ends {
        if let End::Sink(drawer) = end {
            service.release(drawer.client);
            drawn.extend(drawer.drawn);
            nanos = nanos.max(drawer.ended);
            histogram.add(&drawer.histogram)?;
        }
    }
    ran?;
    Ok(Drawn {
        numbers: each_once(drawn),
        nanos,
        histogram,
    })
}

/// Checks that all numbers from zero on were drawn, each once. Returns their number.
///
/// # Errors
/// The first number that is missing or duplicated, in words.
fn each_once(drawn: impl IntoIterator<Item = Range<u64>>) -> Result<u64, String> {
    let mut all: Vec<_> = drawn.into_iter().collect();
    all.sort_unstable_by_key(|range| range.start);
    let mut next = 0;
    for range in all {
        if range.start < next {
            return Err(format!("number {} was drawn twice", range.start));
        }
        if range.start > next {
            return Err(format!("nobody drew number {next}"));
        }
        next = range.end;
    }
    Ok(next)
}

/// Runs the test.
///
/// # Errors
/// If the rack cannot be built or a connection fails.
pub fn measure(test: &mut TestRun<'_>) -> Result<Value, CliError> {
    test.steps = MEASUREMENTS;
    if !test.is_hosted() {
        // On a hardware switch only the engine fits beside them.
        let switch = &mut test.config.switch;
        switch.consumer_rings = 0;
        switch.producer_rings = 0;
        switch.page_entries = 0;
        switch.sequencers = switch.sequencers.max(1);
        test.config.check()?;
    }
    let calls = test.args.tx_depth.unwrap_or(64).clamp(1, 4096);
    let alone = SequencerConfig {
        combine_max: 1,
        requests_max: REQUESTS_MAX,
        ..SequencerConfig::default()
    };
    let [near, far] = test.ends();
    let span = test.part(4.5, MEASUREMENTS);
    let ranges = |drawn: &Drawn| rate("ranges", drawn.count(), drawn.nanos);
    let mut kinds = Vec::new();
    for (kind, placement) in [
        ("switch", SequencerPlacement::Switch),
        ("one-sided", SequencerPlacement::Memory(far)),
        (
            "rpc",
            SequencerPlacement::Server(CounterServerSpec::new(far)),
        ),
    ] {
        let mut draw = |calls, shape| {
            let on = (&test.real_rack()?, test.globals);
            let drawn = draw(on, &[near], placement, (calls, shape), span)?;
            test.step(drawn.count() > 0);
            Ok::<_, CliError>(drawn)
        };
        let combined = draw(calls, SequencerConfig::default())?;
        let single = draw(REQUESTS_MAX, alone)?;
        let one = draw(1, alone)?;
        kinds.push(json!({
            "kind": kind,
            "combined": ranges(&combined),
            "single": ranges(&single),
            "combined_to_single": ratio(combined.rate(), single.rate()),
            "latency_ns": latency(&one.histogram),
        }));
    }
    Ok(json!({"calls": calls, "kinds": kinds}))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks what clients drew, each several ranges given by their ends.
    fn judged(drawn: &[&[(u64, u64)]]) -> Result<u64, String> {
        let ranges = drawn.iter().copied().flatten();
        each_once(ranges.map(|&(first, end)| first..end))
    }

    #[test]
    fn numbers_that_are_missing_or_come_twice_are_noticed() {
        assert_eq!(judged(&[&[(0, 5), (9, 12)], &[(5, 9)]]), Ok(12));
        assert_eq!(judged(&[]), Ok(0));
        let missing = judged(&[&[(0, 5)], &[(6, 9)]]).expect_err("5 is missing");
        assert!(missing.contains("nobody drew number 5"), "{missing}");
        let twice = judged(&[&[(0, 5)], &[(4, 9)]]).expect_err("4 came twice");
        assert!(twice.contains("number 4 was drawn twice"), "{twice}");
    }
}
