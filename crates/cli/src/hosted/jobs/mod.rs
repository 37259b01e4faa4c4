//! The programs that a node of a hosted rack can run for a command.
//!
//! Each file has the arguments and the results of its jobs, which are sent as JSON, and the jobs
//! themselves; the commands that start them are in other modules (`chaos`). The loop of a
//! job is that of an embedded rack's threads (`programs`).

pub mod flow;

use crate::patience::Wish;
use crate::programs::{Program, RealTime};
use rackweave_rack::hosted::{Job, Jobs};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;

/// All programs of a node.
pub fn all() -> Arc<dyn Jobs> {
    Arc::new(All)
}

struct All;

impl Jobs for All {
    fn run(&self, name: &str, arguments: Value, job: &Job) -> Result<Value, String> {
        match name {
            flow::PRODUCE => found(&flow::produce(&parsed(arguments)?, job)?),
            flow::CONSUME => found(&flow::consume(&parsed(arguments)?, job)?),
            _ => Err(format!(
                "this node knows no job {name}; run the same release everywhere"
            )),
        }
    }
}

fn parsed<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments)
        .map_err(|error| format!("the arguments make no sense: {error}"))
}

fn found(what: &impl Serialize) -> Result<Value, String> {
    serde_json::to_value(what).map_err(|error| error.to_string())
}

/// Runs a program to its end; once the job is stopped, as `if_stopped` says. Returns the program,
/// and whether it has ended. The job reports its progress.
fn run<P: Program>(
    program: P,
    job: &Job,
    is_alone: bool,
    if_stopped: Wish,
) -> (P, Result<bool, String>) {
    let mut programs = RealTime::of_job(job, is_alone, program);
    let wish = || match job.is_stopped() {
        true => if_stopped,
        false => Wish::GoOn,
    };
    let ran = programs.run(wish, |done, _| job.report(done));
    let ended = ran.map(|()| programs.is_over());
    let program = programs.into_program();
    (program, ended.map_err(|error| error.to_string()))
}
