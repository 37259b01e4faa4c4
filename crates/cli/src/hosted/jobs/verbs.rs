//! The two ends of a measurement of messages between two nodes.
//!
//! Both create buffers and queue pairs, report their names at their meeting, and continue when they
//! are told that these are connected. The far end then reports that it is ready; it ends when it is
//! told how many messages each queue pair has completed.

use super::meeting::{Inbox, Meetings};
use super::{STOPPED, run};
use crate::amount::Amount;
use crate::outcome::CliError;
use crate::patience::Wish;
use crate::programs::{Port, RealTime, RoundClock};
use crate::verbs::initiator::{Initiator, Kind, Responder};
use crate::verbs::pair::{Shape, Side, Whose};
use crate::verbs::{FarFound, NearFound};
use rackweave_base::{Qpn, Rkey};
use rackweave_rack::hosted::Job;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The end that posts; it returns [`NearFound`]. If stopped, it posts no more.
pub const NEAR: &str = "verbs-near";

/// The other end; it returns [`FarFound`].
pub const FAR: &str = "verbs-far";

/// The arguments of both.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub struct SideArguments {
    /// What to post.
    pub kind: Kind,
    /// Sizes and numbers.
    pub shape: Shape,
    /// The seed of the buffers' contents.
    pub seed: u64,
    /// The number of its meeting.
    pub meeting: u64,
}

/// The arguments of [`NEAR`].
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub struct NearArguments {
    /// The arguments that both ends have.
    pub side: SideArguments,
    /// How much to post.
    pub amount: Amount,
    /// The address and the key of the other end's buffers.
    pub remote: (u64, Rkey),
}

/// The names by which others access an end.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub struct SideNames {
    /// The address of its buffers.
    pub address: u64,
    /// Their key.
    pub rkey: Rkey,
    /// Its queue pairs.
    pub qpns: Vec<Qpn>,
}

/// The resources of a job's end, released when the job ends.
struct Opened<'a> {
    side: Side,
    inbox: Inbox<'a>,
    job: &'a Job,
}

/// The job [`NEAR`].
///
/// # Errors
/// If the node lacks resources, a message fails, or it is stopped before it began.
pub fn near(
    arguments: &NearArguments,
    meetings: &Meetings,
    job: &Job,
) -> Result<NearFound, String> {
    let SideArguments { kind, shape, .. } = arguments.side;
    let opened = Opened::new(&arguments.side, Whose::Near, meetings, job).map_err(text)?;
    opened.inbox.wait(job)?;
    let (remote, amount) = (arguments.remote, arguments.amount);
    let initiator = Initiator::new(kind, shape, &opened.side, remote, amount);
    let (initiator, ran) = run(initiator, job, true, Wish::Finish);
    ran?;
    Ok(initiator.found(&opened.side))
}

/// The job [`FAR`].
///
/// # Errors
/// As for [`near`].
pub fn far(arguments: &SideArguments, meetings: &Meetings, job: &Job) -> Result<FarFound, String> {
    let SideArguments { kind, shape, .. } = *arguments;
    let opened = Opened::new(arguments, Whose::Far, meetings, job).map_err(text)?;
    opened.inbox.wait(job)?;
    let responder = match kind {
        Kind::Send => {
            let clock = RoundClock::start();
            let made =
                Port::Job(job, &clock).act(|queue| Responder::new(shape, &opened.side, queue));
            Some(RealTime::of_job(job, true, made.map_err(text)?))
        }
        _ => None,
    };
    opened.inbox.say(Value::Null);
    let mut far = responder;
    let mut notice = None;
    if let Some(far) = &mut far {
        let wish = || {
            notice = notice.take().or_else(|| opened.inbox.hear());
            if notice.is_some() || job.is_stopped() {
                Wish::Stop
            } else {
                Wish::GoOn
            }
        };
        far.run(wish, |_, _| {}).map_err(text)?;
        if notice.is_none() {
            return Err(STOPPED.into());
        }
    }
    // Without receives nothing is to do here: the NIC replies by itself.
    let notice = match notice {
        Some(notice) => notice,
        None => opened.inbox.wait(job)?,
    };
    let completed: Vec<u64> = super::parsed(notice)?;
    let responder = far.map(RealTime::into_program);
    Ok(FarFound::new(
        responder.as_ref(),
        &shape,
        &opened.side,
        &completed,
    ))
}

impl<'a> Opened<'a> {
    fn new(
        arguments: &SideArguments,
        end: Whose,
        meetings: &'a Meetings,
        job: &'a Job,
    ) -> Result<Self, CliError> {
        let SideArguments {
            kind,
            shape,
            seed,
            meeting,
        } = arguments;
        shape.check()?;
        let inbox = meetings.open(*meeting).map_err(CliError::run)?;
        let side = job
            .with_nic(|nic| Side::open(job.node(), nic, job.memory(), shape))
            .unwrap_or_else(|| Err(CliError::run("the node has lost the rack")))?;
        let opened = Self { side, inbox, job };
        opened.side.fill(*kind, end, *seed);
        let region = &opened.side.region;
        let names = SideNames {
            address: region.address,
            rkey: region.rkey,
            qpns: opened.side.qpns.clone(),
        };
        opened
            .inbox
            .say(super::found(&names).map_err(CliError::run)?);
        Ok(opened)
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        // A node that has lost the rack has lost these as well.
        self.job.with_nic(|nic| self.side.close(nic));
    }
}

fn text(error: CliError) -> String {
    error.to_string()
}
