//! Figure 11 of zero-sided RDMA: three flows between two nodes, whose weights change while they
//! run.
//!
//! The paper shows twenty seconds with a change every five; here a second of the paper is a few
//! milliseconds. The ratios are ours: the text gives none.

mod flows;
#[cfg(test)]
mod tests;

use super::{Experiment, ExperimentError, Run, Scale};
use crate::figure::{Axis, Claim, Drawing, Figure, Series};
use flows::{Demand, History, Phase, Script};
use rackweave_base::{Duration, Instant};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "zero-sided-11",
    about: "priorities: three flows whose weights change while they run",
    run,
};

/// Seconds of the paper between two changes.
const SECONDS_OF_PHASE: u64 = 5;

/// The weights of the three flows in each phase.
const WEIGHTS: [[u32; 3]; 4] = [[1, 1, 1], [1, 2, 4], [6, 3, 1], [2, 1, 2]];

/// Far apart, for a note.
const EXTREME: [u32; 3] = [1, 10, 100];

/// Bytes of one transfer at most.
const BATCH_BYTES: u32 = 64 << 10;

/// What counts as kept: so far from its weight may a flow's share be.
const KEPT: f64 = 0.02;

/// Shares are taken over windows of this length: long enough for many batches of each flow.
const WINDOW: Duration = Duration::from_millis(1);

/// Time after a change within which shares shall be right.
const SETTLED: Duration = Duration::from_millis(10);

fn phase(weights: [u32; 3], length: Duration) -> Phase {
    Phase {
        weights: weights.map(Some),
        length,
    }
}

fn run(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let seed = run.seed;
    let (second, extreme) = match run.scale {
        Scale::Quick => (Duration::from_millis(1), Duration::from_millis(12)),
        Scale::Full | Scale::Paper => (Duration::from_millis(4), Duration::from_millis(40)),
    };
    let length = second * SECONDS_OF_PHASE;
    let greedy = [Demand::All; 3];
    let script = |phases: Vec<Phase>, demands| Script {
        phases,
        demands,
        batch_bytes: BATCH_BYTES,
        seed,
    };
    let total = 4.0 * length.as_secs_f64() + 3.0 * extreme.as_secs_f64();
    let mut done = 0.0;
    let progress = &mut *run.progress;
    let mut play = |script: Script| {
        let lengths = script.phases.iter().map(|phase| phase.length.as_secs_f64());
        let length: f64 = lengths.sum();
        let history = flows::play(&script, &mut |share| {
            progress((done + share * length) / total)
        });
        done += length;
        history
    };
    let main = play(script(WEIGHTS.map(|w| phase(w, length)).to_vec(), greedy))?;
    let far = play(script(vec![phase(EXTREME, extreme)], greedy))?;
    // The first flow has a tenth of the link to send and is due a half.
    let little = Demand::BytesPerSecond(super::one_to_one::line_rate() / 10.0);
    let modest = play(script(
        vec![phase([4, 3, 1], extreme)],
        [little, Demand::All, Demand::All],
    ))?;
    let half = Duration::from_nanos(extreme.as_nanos() / 2);
    let freed = vec![
        phase([8, 1, 1], half),
        Phase {
            weights: [None; 3],
            length: half,
        },
    ];
    let freed = play(script(freed, greedy))?;
    Ok(figure(
        &Measured {
            main,
            far,
            modest,
            freed,
        },
        second,
        seed,
    ))
}

/// The histories of all runs.
struct Measured {
    main: History,
    far: History,
    modest: History,
    freed: History,
}

fn figure(measured: &Measured, second: Duration, seed: u64) -> Figure {
    let main = &measured.main;
    let to_paper = 1.0 / second.as_secs_f64();
    let curve = |flow: usize| {
        let rates = main.rates(flow, Duration::from_nanos(second.as_nanos() / 8));
        let points = rates.into_iter();
        points
            .map(|(at, rate)| (at * to_paper, rate / 1e9))
            .collect()
    };
    let series = (0..3).map(|flow| Series {
        name: format!("flow {}", flow + 1),
        points: curve(flow),
    });
    Figure {
        name: EXPERIMENT.name.into(),
        title: "Three flows between two nodes, weights changing every five seconds".into(),
        x: Axis::linear(
            "time",
            &format!("s, {} ms each here", second.as_nanos() / 1_000_000),
        ),
        y: Axis::linear("goodput", "GB/s"),
        drawing: Drawing::Areas,
        y_per_panel: false,
        paper: Vec::new(),
        x_names: Vec::new(),
        series: series.collect(),
        claims: claims(main),
        notes: notes(measured, second),
        seed,
    }
}

/// From when on shares are taken: a millisecond after the change.
fn counted(history: &History, phase: usize) -> (Instant, Instant) {
    let (start, end) = history.span(phase);
    (start + WINDOW, end)
}

fn ratio(phase: &Phase) -> String {
    let weight = |weight: &Option<u32>| weight.map_or("none".into(), |weight| weight.to_string());
    phase.weights.each_ref().map(weight).join(":")
}

fn claims(main: &History) -> Vec<Claim> {
    let claim = |what: &str, paper: f64, ours: f64, unit: &str| Claim {
        what: what.into(),
        source: "section 7.2, figure 11".into(),
        paper,
        ours,
        unit: unit.into(),
    };
    let phases = 0..main.phases.len();
    let worst = phases.clone().map(|phase| {
        let (from, to) = counted(main, phase);
        main.deviation(phase, from, to)
    });
    let slowest = phases.map(|phase| {
        let reached = main.reached(phase, WINDOW, KEPT);
        reached.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    });
    // A phase that never gets there is no number, and must show.
    let most = |worst: f64, next: f64| {
        if next > worst || next.is_nan() {
            next
        } else {
            worst
        }
    };
    vec![
        claim(
            "bandwidth follows the weights: largest deviation of a flow's share, from 1 ms after a \
             change to the next (the paper gives no number; 2 % is our aim)",
            KEPT * 100.0,
            worst.fold(0.0, most) * 100.0,
            "%",
        ),
        claim(
            "swift response: time until a window of 1 ms is within 2 %, slowest change (the \
             paper gives no number; 10 ms is our aim)",
            SETTLED.as_secs_f64() * 1e3,
            slowest.fold(0.0, most),
            "ms",
        ),
    ]
}

fn notes(measured: &Measured, second: Duration) -> Vec<String> {
    let Measured {
        main,
        far,
        modest,
        freed,
    } = measured;
    let line_rate = super::one_to_one::line_rate();
    let shares = |history: &History, phase: usize| {
        let (from, to) = counted(history, phase);
        let share = |flow: usize| history.rate(flow, from, to) / line_rate;
        [0, 1, 2]
            .map(|flow| format!("{:.4}", share(flow)))
            .join(", ")
    };
    let mut notes = vec![format!(
        "A second of the paper is {} ms here. The text gives no ratios; ours are {}.",
        second.as_nanos() / 1_000_000,
        main.phases.iter().map(ratio).collect::<Vec<_>>().join(", ")
    )];
    for (phase, what) in main.phases.iter().enumerate() {
        let (from, to) = counted(main, phase);
        let reached = main.reached(phase, WINDOW, KEPT);
        notes.push(format!(
            "{}: shares of line rate {}; deviation {:.2} %; within {} % after {}.",
            ratio(what),
            shares(main, phase),
            100.0 * main.deviation(phase, from, to),
            100.0 * KEPT,
            reached.map_or("the phase has ended".into(), |time| time.to_string())
        ));
    }
    let (from, to) = counted(far, 0);
    notes.push(format!(
        "Far apart, {}: shares of line rate {}; deviation {:.2} % over {}.",
        ratio(&far.phases[0]),
        shares(far, 0),
        100.0 * far.deviation(0, from, to),
        to.since(from)
    ));
    notes.push(format!(
        "{} where the first has only a tenth of line rate to send: shares of line rate {}; the \
         others take what it leaves.",
        ratio(&modest.phases[0]),
        shares(modest, 0)
    ));
    notes.push(format!(
        "{} and then no weights: shares of line rate {}, then {}.",
        ratio(&freed.phases[0]),
        shares(freed, 0),
        shares(freed, 1)
    ));
    notes.push(format!(
        "Batches of {} KiB, items of 4 KiB; programs that cost nothing and always have items and \
         room. A batch counts evenly over the time since the flow's one before.",
        BATCH_BYTES >> 10
    ));
    notes
}
