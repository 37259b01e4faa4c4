//! The hidden command `etcd`, which `up --etcd` starts: becomes an etcd server of one member, for
//! tests.

use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};
use rackweave_rack::RackConfig;
use rustix::process::{Signal, set_parent_process_death_signal};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The name of the process.
pub const NAME: &str = "etcd";

/// Whether etcd is installed.
pub fn is_installed() -> bool {
    let version = Command::new("etcd").arg("--version").output();
    version.is_ok_and(|output| output.status.success())
}

/// The address of the first URL in `hosted.etcd`.
///
/// # Errors
/// If there is none, or it is no loopback address with a port.
pub fn address(config: &RackConfig) -> Result<SocketAddr, CliError> {
    let hosted = config.hosted();
    let needed = "--etcd starts a server for tests on this machine; set hosted.etcd in the \
                  configuration to the URL of a loopback address, such as http://127.0.0.1:2379";
    let first = hosted.etcd.first();
    let first = first.ok_or_else(|| CliError::usage(needed))?;
    let address = first.trim_start_matches("http://").trim_end_matches('/');
    let address = address.parse().ok();
    let local = address.filter(|at: &SocketAddr| at.ip().is_loopback() && at.port() < u16::MAX);
    local.ok_or_else(|| CliError::usage(needed))
}

/// Runs the command.
///
/// # Errors
/// If the configuration has no such URL, or etcd is not installed.
pub fn run(globals: &Globals) -> Result<Verdict, CliError> {
    let config = globals.hosted_process()?;
    let client = address(&config)?;
    let peer = SocketAddr::new(client.ip(), client.port() + 1);
    let (client, peer) = (format!("http://{client}"), format!("http://{peer}"));
    // The server knows no pipe that closes when its parent ends.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(CliError::run)?;
    let error = Command::new("etcd")
        .args([
            "--name",
            "rackweave",
            "--logger",
            "zap",
            "--log-level",
            "error",
        ])
        .arg("--data-dir")
        .arg(config.hosted().directory().join("etcd"))
        .args([
            "--listen-client-urls",
            &client,
            "--advertise-client-urls",
            &client,
        ])
        .args([
            "--listen-peer-urls",
            &peer,
            "--initial-advertise-peer-urls",
            &peer,
        ])
        .args(["--initial-cluster", &format!("rackweave={peer}")])
        .exec();
    Err(CliError::run(format!(
        "etcd cannot be started: {error}; install Debian's etcd-server, or run one yourself"
    )))
}
