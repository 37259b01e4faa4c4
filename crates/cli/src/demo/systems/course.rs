//! Runs one system after another. A system that fails or panics is reported, and the others
//! continue.

use super::enlarged::EnlargedConfig;
use super::report::SystemReport;
use super::{Scale, SystemName, SystemRun, flows, messaging, pages, sequencer, tree};
use crate::demo::report::DemoReport;
use crate::demo::{DemoArgs, DemoPlan};
use crate::globals::{EMBEDDED, Format, Globals, HOSTED};
use crate::outcome::CliError;
use crate::output;
use crate::programs::{OwnRack, RealRack};
use crate::report::wrapped;
use clap::ValueEnum as _;
use rackweave_rack::RackConfig;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// Runs the systems that `args` names, or all.
///
/// # Errors
/// If the rack cannot be built, or a capture cannot be written.
pub(in crate::demo) fn run(
    plan: &DemoPlan,
    joined: Option<RealRack>,
    args: &DemoArgs,
    globals: &Globals,
) -> Result<DemoReport, CliError> {
    let mut chosen = chosen(&args.systems);
    // Progress messages are for users: with other formats only the result is on standard output.
    let say = |text: &str| match globals.args.format {
        Format::Text => output::line(text),
        Format::Json | Format::OpenMetrics => Ok(()),
    };
    let mut left_out = Vec::new();
    if joined.is_some() {
        (chosen, left_out) = offered(&plan.config, chosen, !args.systems.is_empty())?;
    }
    let began = Instant::now();
    say(&heading(&plan.config, joined.as_ref()))?;
    let scale = Scale::new(plan.scale.get());
    let mut report = DemoReport::new(plan, joined.as_ref().map_or(EMBEDDED, |_| HOSTED));
    report.left_out = left_out;
    let rack = match joined {
        Some(rack) => rack,
        None => {
            let enlarged = EnlargedConfig::new(plan, scale, &chosen)?;
            if let Some(words) = enlarged.in_words() {
                let words = format!("Added to the configuration, so that all fit: {words}.");
                say(&wrapped(&words, 2))?;
            }
            report.added = enlarged.added;
            RealRack::embedded(&enlarged.config, globals)?
        }
    };
    report.driver_threads = rack.as_embedded().map(|rack| rack.driver_threads());
    let own = OwnRack::from(rack.clone());
    let recording = own.record(args.capture.as_deref())?;
    let before = rack.switch_counts();
    let run = SystemRun {
        rack: &rack,
        plan,
        scale,
        globals,
    };
    for (at, &name) in chosen.iter().enumerate() {
        if globals.interrupt.is_set() {
            break;
        }
        let (number, all, words) = (at + 1, chosen.len(), name.in_words());
        say(&format!("\n[{number}/{all}] {}: {words}", name.name()))?;
        globals.live.phase(name.name());
        let started = Instant::now();
        let ran = guarded(|| run_one(name, &run, &mut report));
        let mut system = ran.unwrap_or_else(|problem| match globals.interrupt.is_set() {
            true => SystemReport::new(name),
            false => SystemReport::failed(name, problem),
        });
        system.interrupted |= globals.interrupt.is_set();
        system.seconds = started.elapsed().as_secs_f64();
        if name == SystemName::Flows {
            // Flows are reported at length.
            report.fill_counters(&before, rack.switch_counts());
            say(&report.flows())?;
            say(&system.verdict_in_words())?;
        } else {
            say(&system.in_words())?;
        }
        report.enter(system);
    }
    if let Some(capture) = own.recorded(recording)? {
        report.note_capture(capture);
    }
    report.fill_counters(&before, rack.switch_counts());
    report.seconds = began.elapsed().as_secs_f64();
    report.interrupted = globals.interrupt.is_set();
    report.conclude_systems(chosen.len());
    Ok(report)
}

/// The systems among `chosen` that the switch of a running rack has programs for, and why the
/// others are left out.
///
/// # Errors
/// If the user has named one that it has not.
fn offered(
    config: &RackConfig,
    chosen: Vec<SystemName>,
    are_named: bool,
) -> Result<(Vec<SystemName>, Vec<String>), CliError> {
    let switch = &config.switch;
    let (mut offered, mut left_out) = (Vec::new(), Vec::new());
    for name in chosen {
        let (is_there, setting) = match name {
            SystemName::Flows => (switch.consumer_rings > 0, "switch.consumer_rings"),
            SystemName::Pages => (switch.page_entries > 0, "switch.page_entries"),
            SystemName::Tree => (switch.index_servers > 0, "switch.index_servers"),
            SystemName::Messaging => (true, ""),
            SystemName::Sequencer => (switch.sequencers > 0, "switch.sequencers"),
        };
        let why = format!("{}: {setting} of the rack is 0", name.name());
        match is_there {
            true => offered.push(name),
            false if are_named => return Err(CliError::usage(format!("--systems {why}"))),
            false => left_out.push(why),
        }
    }
    Ok((offered, left_out))
}

/// The systems to run, without duplicates and in order.
fn chosen(given: &[SystemName]) -> Vec<SystemName> {
    let all = SystemName::value_variants().iter().copied();
    let is_chosen = |name: &SystemName| given.is_empty() || given.contains(name);
    all.filter(is_chosen).collect()
}

/// The first line.
fn heading(config: &RackConfig, joined: Option<&RealRack>) -> String {
    let names: Vec<_> = config.residents().map(|node| &*node.name).collect();
    let names = names.join(", ");
    let text = match joined {
        Some(rack) => {
            let own: Vec<_> = rack
                .nodes_here()
                .map(|node| node.name().to_owned())
                .collect();
            let (control, own) = (config.hosted().control, own.join(", "));
            format!("The rack that runs at {control}: {names}; this process is {own}.")
        }
        None => {
            let switches = match config.shape().roles().len() {
                1 => "one switch".to_owned(),
                count => format!("{count} switches"),
            };
            let (seed, drivers) = (config.seed, config.driver_threads);
            format!(
                "A rack in this process: {names}; {switches}; seed {seed}, driver threads \
                 {drivers}."
            )
        }
    };
    wrapped(&text, 2)
}

fn run_one(
    name: SystemName,
    run: &SystemRun<'_>,
    report: &mut DemoReport,
) -> Result<SystemReport, CliError> {
    match name {
        SystemName::Flows => flows::run(run, report),
        SystemName::Pages => pages::run(run),
        SystemName::Tree => tree::run(run),
        SystemName::Messaging => messaging::run(run),
        SystemName::Sequencer => sequencer::run(run),
    }
}

/// Runs a system; returns why it has no report, in words. A panic is converted, too.
fn guarded(run: impl FnOnce() -> Result<SystemReport, CliError>) -> Result<SystemReport, String> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(panic) => Err(format!("it crashed: {}", words_of(&*panic))),
    }
}

fn words_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(|text| &**text));
    text.unwrap_or("it did not say why")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_is_reported() {
        let ended = guarded(|| panic!("page {} is gone", 7));
        assert_eq!(ended.err().as_deref(), Some("it crashed: page 7 is gone"));
        let ended = guarded(|| Err(CliError::run("no capacity")));
        assert_eq!(ended.err().as_deref(), Some("no capacity"));
        let ended = guarded(|| Ok(SystemReport::new(SystemName::Tree)));
        assert!(ended.is_ok());
    }

    #[test]
    fn systems_run_once_and_in_their_order() {
        use SystemName::{Flows, Messaging, Pages, Sequencer, Tree};
        assert_eq!(chosen(&[]), [Flows, Pages, Tree, Messaging, Sequencer]);
        assert_eq!(chosen(&[Tree, Flows, Tree]), [Flows, Tree]);
    }
}
