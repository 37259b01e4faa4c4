//! The far end of a test on a running rack, in a process of its own: what is measured is between
//! processes. It joins the rack as one node and does its part until standard input closes.

use super::initiator::{Kind, Responder};
use super::messaging::rig::ConnectionEnd;
use super::messaging::small;
use super::pair::{Found, Offer, Shape, Side};
use super::test_run::TestRun;
use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};
use crate::programs::{Patience, Queue};
use clap::Args;
use rackweave_endpoint::messaging::MessagingConfig;
use rackweave_rack::Rack;
use rackweave_rack::messaging::{Listener, dial};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// The first argument of such a process.
const COMMAND: &str = "perf-peer";

/// How long a connection between the two processes may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What has been sent arrives within this time.
const ARRIVES_WITHIN: Duration = Duration::from_secs(5);

/// Arguments of the process.
#[derive(Args, Clone, Debug)]
pub struct PeerArgs {
    /// Its part, as JSON
    #[arg(long)]
    part: String,
    /// The node that it is, instead of a guest
    #[arg(long = "as")]
    node: Option<String>,
}

/// What the far end does.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum Part {
    /// Has buffers and queue pairs, and receives what is sent.
    Buffers(Kind, Shape),
    /// Returns messages.
    Echo,
}

/// A process at the far end.
pub struct Peer {
    process: std::process::Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts one with buffers and queue pairs. Returns what [`Side::offer`] returns there.
    ///
    /// # Errors
    /// If the process cannot be started, or finds no place in the rack.
    pub fn with_buffers(
        test: &TestRun<'_>,
        kind: Kind,
        shape: Shape,
    ) -> Result<(Self, Offer), CliError> {
        Self::start(test, Part::Buffers(kind, shape))
    }

    /// Starts one that returns messages, first polling and then resting, and connects the first
    /// node of the test to it.
    ///
    /// # Errors
    /// As for [`Peer::with_buffers`], and if the connection fails.
    pub fn that_echoes(test: &TestRun<'_>, rack: &Rack) -> Result<(Self, ConnectionEnd), CliError> {
        let (peer, address): (_, SocketAddr) = Self::start(test, Part::Echo)?;
        let config = MessagingConfig::default();
        let dialed = dial(rack, test.ends()[0], address, config, PATIENCE)?;
        Ok((peer, ConnectionEnd::new(dialed)?))
    }

    fn start<O: DeserializeOwned>(test: &TestRun<'_>, part: Part) -> Result<(Self, O), CliError> {
        let failed = |error| CliError::run(format!("a second process cannot be started: {error}"));
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.arg(COMMAND).arg("--part").arg(text(&part));
        command.args(["--seed", &test.config.seed.to_string()]);
        if let Some(path) = &test.globals.args.config {
            command.arg("--config").arg(path);
        }
        if let Some(node) = &test.peer {
            command.args(["--as", node]);
        }
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let output = process.stdout.take().expect("it is a pipe");
        let mut peer = Self {
            input: process.stdin.take(),
            output: BufReader::new(output),
            process,
        };
        let offer = peer.hear()?;
        Ok((peer, offer))
    }

    /// Has it receive: its queue pairs are connected.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn begin(&mut self) -> Result<(), CliError> {
        self.found(&[]).map(drop)
    }

    /// What it finds in its buffers once so many messages were completed on each queue pair.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn found(&mut self, completed: &[u64]) -> Result<Found, CliError> {
        let input = self.input.as_mut().expect("it is there until the end");
        // A process that has ended says nothing, either.
        let _gone = writeln!(input, "{}", text(&completed));
        self.hear()
    }

    fn hear<T: DeserializeOwned>(&mut self) -> Result<T, CliError> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        let heard = read.ok().and_then(|_| serde_json::from_str(&line).ok());
        heard.ok_or_else(|| CliError::run("the process at the far end has ended"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.process.wait();
    }
}

/// Runs the process.
///
/// # Errors
/// If the rack has no place for it, or a connection fails.
pub fn run(args: &PeerArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let part =
        serde_json::from_str(&args.part).map_err(|error| CliError::usage(error.to_string()))?;
    let config = globals.hosted_process()?;
    let rack = match &args.node {
        Some(name) => Rack::join_as(&config, &[name])?,
        None => Rack::join_guests(&config, 1)?,
    };
    let seed = globals.args.seed.unwrap_or_default();
    match part {
        Part::Buffers(kind, shape) => lend(&rack, (kind, shape), seed),
        Part::Echo => echo(&rack),
    }?;
    Ok(Verdict::Ended)
}

/// Has buffers for the near side, and receives.
fn lend(rack: &Rack, (kind, shape): (Kind, Shape), seed: u64) -> Result<(), CliError> {
    let node = rack.any_node();
    let side = Side::open(rack, node.id(), &shape)?;
    side.fill(kind == Kind::Read, seed);
    say(&side.offer())?;
    let asked = questions();
    // Queue pairs that are not connected take no receive requests.
    if asked.recv().is_err() {
        return Ok(());
    }
    let mut responder = match kind {
        Kind::Send => Some(node.with(|nic| Responder::new(shape, &side, &mut Queue::Nic(nic)))?),
        _ => None,
    };
    say(&side.found(&shape, &[], 0))?;
    let Some(responder) = &mut responder else {
        for completed in asked {
            say(&side.found(&shape, &completed, 0))?;
        }
        return Ok(());
    };
    let mut patience = Patience::new(&node);
    let mut receive = |responder: &mut Responder| {
        let moved = node.with(|nic| responder.run(&mut Queue::Nic(nic)))? > 0;
        patience.wait(moved);
        Ok::<_, CliError>(())
    };
    loop {
        receive(responder)?;
        let completed = match asked.try_recv() {
            Ok(completed) => completed,
            Err(TryRecvError::Empty) => continue,
            Err(TryRecvError::Disconnected) => return Ok(()),
        };
        let (sent, deadline) = (completed.iter().sum(), Instant::now() + ARRIVES_WITHIN);
        while responder.received < sent && Instant::now() < deadline {
            receive(responder)?;
        }
        say(&side.found(&shape, &completed, responder.received))?;
    }
}

/// Returns the messages of a connection.
fn echo(rack: &Rack) -> Result<(), CliError> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let config = MessagingConfig::default();
    let mut listener = Listener::bind(rack, rack.any_node().id(), any, config)?;
    say(&listener.local_addr())?;
    let mut end = ConnectionEnd::new(listener.accept(PATIENCE)?)?;
    for patience in [small::Patience::Polls, small::Patience::Rests] {
        // The sender checks what it gets back.
        small::echo(&mut end, patience, |_, _| true)?;
    }
    questions().iter().for_each(drop);
    Ok(())
}

/// The lines on standard input: messages that were completed on each queue pair.
fn questions() -> Receiver<Vec<u64>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let lines = std::io::stdin().lock().lines().map_while(Result::ok);
        for line in lines {
            let asked = serde_json::from_str(&line).expect("it is from this program");
            let _ended = sender.send(asked);
        }
    });
    receiver
}

fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("it has a JSON form")
}

/// Prints a line for the process that started this one.
fn say(value: &impl Serialize) -> Result<(), CliError> {
    writeln!(std::io::stdout(), "{}", text(value)).map_err(CliError::run)
}
