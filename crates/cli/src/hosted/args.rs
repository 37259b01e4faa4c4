//! Arguments of the commands for a hosted rack.

use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Arguments of `up`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave up                 the default hosted rack; use it with `rackweave demo --hosted`
  rackweave up rack.toml       use it with `rackweave demo --config rack.toml`
  rackweave up rack.toml --without compute0,compute1
                               for programs of yours that join as these nodes

Keys that are missing are made. A process that ends is started again; one that is refused three
times in a row ends all. Ctrl-C ends all processes.")]
pub struct UpArgs {
    /// The rack's configuration, a TOML file; goes over --config
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Start no process for these nodes: programs join the rack as them
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    pub without: Vec<String>,
    /// End all processes, with exit status 1, when one of them ends
    #[arg(long)]
    pub no_restart: bool,
    /// Start an etcd server for tests, too, at the first URL of hosted.etcd; needs Debian's
    /// etcd-server
    #[arg(long)]
    pub etcd: bool,
}

/// For processes that others start.
#[derive(Args, Clone, Debug)]
pub struct LeashArgs {
    /// End when standard input closes
    #[arg(long, hide = true)]
    pub end_with_stdin: bool,
}

/// Arguments of `switch`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave switch --config rack.toml
  rackweave switch --config rack.toml --listen 0.0.0.0:7471 --capture switch.pcapng
  rackweave switch --config rack.toml --standby
                               takes over when the other one dies; needs [hosted.standby]

With a section [hosted.standby], each of the two waits while the other one leads.")]
pub struct SwitchArgs {
    /// Where the controller listens; without it, hosted.listen or hosted.control
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Run as the standby
    #[arg(long)]
    pub standby: bool,
    /// Where etcd is reached, instead of at hosted.etcd
    #[arg(long, value_name = "URL", hide = true)]
    pub etcd: Option<String>,
    /// Write what the switch sees, before and after, to a pcapng file
    #[arg(long, value_name = "FILE.pcapng")]
    pub capture: Option<PathBuf>,
    #[command(flatten)]
    pub leash: LeashArgs,
}

/// Arguments of `node`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave node storage0 --config rack.toml
  rackweave node storage0 --config rack.toml --controller 10.0.0.1:7471")]
pub struct NodeArgs {
    /// Its name in the configuration
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Where the controller is; without it, hosted.control. A second one is where the standby's is
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub controller: Vec<SocketAddr>,
    #[command(flatten)]
    pub leash: LeashArgs,
}

/// Arguments of `keygen`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave keygen --config rack.toml
  rackweave keygen --config rack.toml --directory keys

Makes what is missing and keeps what is there. To where NAME runs go NAME.key, NAME.crt and
authority.crt: those of `controller` to the switch, those of `operator` to where commands are given,
those of each node to the node. authority.key stays here: who has it can make keys for this rack.")]
pub struct KeygenArgs {
    /// Where the keys lie; without it, hosted.keys, or `keys` in hosted.directory
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// How long new certificates last; those that end within a third of it are renewed
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36500))]
    pub days: u32,
    /// Take this name's key back, and make a new one: the old one is put on the list `revoked`,
    /// which the switch reads again on SIGHUP
    #[arg(long, value_name = "NAME")]
    pub revoke: Option<String>,
}
