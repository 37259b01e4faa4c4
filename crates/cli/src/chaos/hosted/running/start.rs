//! The start of a rack: its folder, ports, configuration and processes.

use super::super::cable::Cable;
use super::super::journal::{CAMPAIGN, Journal};
use super::super::plan::{Election, HostedPlan, PROGRAMS};
use super::super::program::journal_of;
use super::{HostedRackRun, SwitchState};
use crate::hosted::child::Recipe;
use crate::hosted::processes::Processes;
use crate::hosted::{etcd, keygen};
use crate::outcome::CliError;
use rackweave_control::keys::LIFETIME;
use rackweave_rack::RackConfig;
use rackweave_rack::config::{HostedSection, Role, SecurityKind, StandbySection, StoreConfig};
use std::collections::{BTreeSet, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Ports outside the system's ephemeral range: a node that connects to an absent switch must not
/// connect to itself.
const PORTS: Range<u16> = 20_000..32_000;

/// Maximum number of ports that are tried.
const PORTS_TRIED: u32 = 200;

/// Pages of the store.
const STORE_PAGES: u64 = 256;

impl HostedRackRun {
    /// Creates a folder for the rack of a plan and starts its processes.
    ///
    /// # Errors
    /// If the system has no resources for it.
    pub fn start(plan: &HostedPlan) -> Result<Self, CliError> {
        let seed = plan.seed;
        let failed = |what: &str, error: std::io::Error| CliError::run(format!("{what}: {error}"));
        let name = format!("rackweave-chaos-{}-{seed}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder)
            .map_err(|error| failed(&folder.display().to_string(), error))?;
        let mut config = plan.config.clone();
        let is_apart = plan.election == Election::Etcd;
        let standby = StandbySection {
            control: is_apart.then(free_port).transpose()?,
            udp: is_apart.then(free_port).transpose()?,
            listen: None,
        };
        let etcd = is_apart.then(free_pair).transpose()?;
        config.hosted = Some(HostedSection {
            standby: (plan.election != Election::Alone).then_some(standby),
            etcd: etcd.iter().map(|at| format!("http://{at}")).collect(),
            control: free_port()?,
            listen: None,
            udp: free_port()?,
            keys: None,
            directory: Some(folder.join("run")),
            ..config.hosted()
        });
        config.node.iter_mut().for_each(|node| node.udp = None);
        if let Some(&storage) = config.nodes_of(Role::Storage).first() {
            let node = config.node[usize::from(storage.0)].name.clone();
            let bytes = STORE_PAGES * u64::from(config.switch.page_size);
            let store = StoreConfig::in_file("pages", node, folder.join("store"), bytes);
            config.store = vec![store];
        }
        // What the processes read has places for guests.
        let config = RackConfig::parse(&config.to_toml(), "rack.toml")?;
        let hosted = config.hosted();
        if hosted.security == SecurityKind::Tls {
            keygen::make(&config, &hosted.keys(), LIFETIME)?;
        }
        let path = folder.join("rack.toml");
        std::fs::write(&path, config.to_toml())
            .map_err(|error| failed(&path.display().to_string(), error))?;
        let journal = Journal::create(&journal_of(&folder, CAMPAIGN));
        let journal = journal.map_err(|error| failed("the journal", error))?;
        let mut processes = Processes::new(&config, Some(&path), &[]);
        let no_cable = |error| failed("a way to the controller or to etcd", error);
        let mut controls: Vec<_> = hosted.switch_places().iter().map(|it| it.control).collect();
        controls.dedup();
        let ways = || controls.iter().map(|&control| Cable::to(control)).collect();
        let (of_node, of_program) = (|_| ways(), |_| ways());
        let cables: Result<Vec<Vec<_>>, _> = config.residents().map(of_node).collect();
        let cables = cables.map_err(no_cable)?;
        let of_programs: Result<Vec<Vec<_>>, _> = (0..PROGRAMS).map(of_program).collect();
        let of_programs = of_programs.map_err(no_cable)?;
        for (program, cables) in (0..).zip(&of_programs) {
            let path = config_of(&folder, program);
            std::fs::write(&path, through(&config, cables).to_toml())
                .map_err(|error| failed(&path.display().to_string(), error))?;
        }
        for (cables, at) in cables.iter().zip(1..) {
            for cable in cables {
                processes.add_argument(at, "--controller", cable.address);
            }
        }
        let switches: Vec<_> = processes
            .all()
            .filter(|at| !processes.nodes().contains(at))
            .collect();
        let to_etcd = etcd
            .iter()
            .flat_map(|&at| switches.iter().map(move |_| Cable::to(at)));
        let to_etcd: Vec<_> = to_etcd.collect::<Result<_, _>>().map_err(no_cable)?;
        for (cable, &at) in to_etcd.iter().zip(&switches) {
            processes.add_argument(at, "--etcd", format!("http://{}", cable.address));
        }
        let etcd =
            etcd.map(|_| processes.set(None, Recipe::new(etcd::NAME, &["etcd"], Some(&path))));
        let mut running = Self {
            processes,
            cables,
            of_programs,
            to_etcd,
            switches,
            etcd,
            leader: None,
            aimed: 0,
            stepped_down: BTreeSet::new(),
            takeovers: 0,
            programs: Vec::new(),
            lives: CAMPAIGN,
            is_repaired: false,
            switch: SwitchState::Runs,
            journal: Arc::new(journal),
            orders: Arc::default(),
            seed,
            config,
            folder,
            last_words: VecDeque::new(),
            violations: Vec::new(),
        };
        for at in running.processes.all() {
            running.processes.start(at)?;
        }
        Ok(running)
    }
}

/// The file with a program's configuration.
pub(super) fn config_of(folder: &Path, program: u16) -> PathBuf {
    folder.join(format!("program{program}.toml"))
}

/// A configuration in which these ways lead to the controllers.
fn through(config: &RackConfig, cables: &[Cable]) -> RackConfig {
    let mut hosted = config.hosted();
    let mut ways = cables.iter().map(|cable| cable.address);
    hosted.control = ways.next().expect("a rack has a controller");
    if let (Some(standby), Some(way)) = (&mut hosted.standby, ways.next()) {
        standby.control = Some(way);
    }
    RackConfig {
        hosted: Some(hosted),
        ..config.clone()
    }
}

/// An unused loopback address, before another one: etcd needs both.
fn free_pair() -> Result<SocketAddr, CliError> {
    let next = |at: SocketAddr| SocketAddr::new(at.ip(), at.port() + 1);
    for _ in 0..PORTS_TRIED {
        let at = free_port()?;
        if TcpListener::bind(next(at)).is_ok() {
            return Ok(at);
        }
    }
    free_port()
}

/// An unused loopback address, for TCP and for UDP.
fn free_port() -> Result<SocketAddr, CliError> {
    for _ in 0..PORTS_TRIED {
        let random = RandomState::new().build_hasher().finish();
        let port = PORTS.start + (random % PORTS.len() as u64) as u16;
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(at).is_ok() && UdpSocket::bind(at).is_ok() {
            return Ok(at);
        }
    }
    let Range { start, end } = PORTS;
    Err(CliError::run(format!(
        "no free port from {start} to {end} was found; end other programs that use them"
    )))
}
