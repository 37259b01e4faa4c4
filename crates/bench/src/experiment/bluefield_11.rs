//! Figure 11 of the BlueField paper: one-sided fetch-and-add on a counter in the memory of the host
//! or of the DPU, by client threads.
//!
//! All clients use one port: an atomic is atomic among the queue pairs of one device
//! (`IBV_ATOMIC_HCA`), and each port is one.

#[cfg(test)]
mod tests;

use super::bluefield::{Core, SERVERS, attributes, counted, testbed};
use crate::harness::prelude::*;
use crate::harness::tally::Seen;
use rackweave_endpoint::sequencer::{Sequencer, SequencerConfig};
use rackweave_rack::services::{
    AttachedSequencer, SequencerOptions, SequencerPlacement, SequencerService,
};

const CLIENTS: &[u16] = &[1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16];

/// A thread of the compute node, which issues one fetch-and-add after another.
fn client(mut sequencer: AttachedSequencer, tally: Shared) -> impl Program {
    let mut begun = None;
    // The number that the last fetch-and-add returned.
    let mut last = None::<u64>;
    on_core(Core::of(Server::Compute), move |now, verbs| {
        if begun.is_none() {
            let asked = sequencer.begin(1);
            asked.map_err(|error| format!("a number was not asked for: {error}"))?;
            begun = Some(now);
        }
        while let Some(done) = sequencer.poll(now, verbs) {
            let range = done.result.map_err(|error| error.to_string())?;
            if last.is_some_and(|last| range.start <= last) {
                return Err(format!("{} came after {last:?}", range.start));
            }
            last = Some(range.start);
            let since = begun.take().ok_or("an answer to no question")?;
            tally.borrow_mut().end(since, now + verbs.spent());
        }
        Ok(Some((Duration::ZERO, None)))
    })
}

/// Measures `clients` clients of a counter on `server`.
fn measure(run: &mut Run<'_>, server: Server, clients: u16) -> Result<Seen> {
    let mut rack = testbed(run.seed, 1 << 20)?;
    let options = SequencerOptions {
        attributes: attributes(),
        ..SequencerOptions::new(SequencerPlacement::Memory(server.at_port(0)))
    };
    let counter = SequencerService::with(&rack, &options).or_failed("the counter")?;
    let span = Span::new(Duration::from_micros(50), counted(run.scale));
    let tally = Tally::new(rack.now(), span);
    for _ in 0..clients {
        let node = Server::Compute.at_port(0);
        let config = SequencerConfig {
            calls_max: 1,
            combine_max: 1,
            requests_max: 1,
        };
        let sequencer = counter.client(node, config).or_failed("a client")?;
        rack.spawn(node, client(sequencer, tally.clone()));
    }
    Tally::run(&tally, run, &mut rack)
}

type Curve = grid::Curve<Server, u16, Seen>;

/// The highest throughput of a curve, in operations per second.
fn peak(curve: &Curve) -> f64 {
    curve.most(|seen| seen.per_second)
}

/// The smallest number of clients with which a curve is within 5 % of its peak.
fn saturated_by(curve: &Curve) -> f64 {
    let peak = peak(curve);
    let mut points = curve.points.iter();
    let found = points.find(|(_, seen)| seen.per_second >= 0.95 * peak);
    found.map_or(f64::NAN, |&(clients, _)| f64::from(clients))
}

pub fn run(run: &mut Run<'_>) -> Result<Measured> {
    let curves = Grid::new(&SERVERS, CLIENTS).measure(run, measure)?;
    let mut series = Vec::new();
    for curve in &curves {
        let mut draw = |panel, value: fn(&Seen) -> f64| {
            series.push(curve.series(f64::from, value).in_panel(panel));
        };
        draw("throughput [M/s]", |seen| seen.per_second / 1e6);
        draw("median latency [us]", |seen| seen.median_us);
    }
    let alone = |curve: &Curve| curve.value(1, |seen| seen.median_us);
    let noted = curves.iter().filter_map(|curve| {
        let one = curve.at(1)?;
        let (median_us, millions) = (one.median_us, one.per_second / 1e6);
        Some(values! { name: &curve.name, median_us, millions })
    });
    let (host, dpu) = (&curves[0], &curves[1]);
    let [host_ns, dpu_ns] = [devices::CARD_HOST_READ_LATENCY, devices::DPU_READ_LATENCY]
        .map(|latency| latency.as_nanos());
    let values = values! {
        host_ns, dpu_ns,
        gain: peak(dpu) / peak(host),
        host_saturated: saturated_by(host),
        dpu_saturated: saturated_by(dpu),
        latency: alone(dpu) / alone(host),
        host_most: 1e3 / host_ns as f64,
        dpu_most: 1e3 / dpu_ns as f64,
        curves: noted.collect::<Vec<Values>>(),
    };
    Ok(Measured::new(series, values))
}
