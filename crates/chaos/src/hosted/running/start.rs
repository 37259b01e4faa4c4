//! The start of a rack: its folder, ports, configuration and processes.

use super::super::cable::Cable;
use super::super::drive::DriveError;
use super::super::journal::{CAMPAIGN, Journal};
use super::super::plan::{Election, HostedPlan, PROGRAMS};
use super::super::processes::Launcher;
use super::super::shared::journal_of;
use super::{HostedRackRun, SwitchState};
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

/// A file system in memory, and the free bytes that it needs: an etcd server takes half of them.
///
/// With every state that it stores, etcd waits for the disk, and on a busy machine for so long that
/// leaders lose their terms. Here processes die, not machines.
const IN_MEMORY: (&str, u64) = ("/dev/shm", 512 << 20);

/// Pages of the store.
const STORE_PAGES: u64 = 256;

impl HostedRackRun {
    /// Creates a folder for the rack of a plan and starts its processes.
    ///
    /// # Errors
    /// If the system has no resources for it.
    pub fn start(plan: &HostedPlan, launcher: &dyn Launcher) -> Result<Self, DriveError> {
        let name = format!("rackweave-chaos-{}-{}", std::process::id(), plan.seed);
        let folder = folder_of_racks().join(name);
        std::fs::create_dir_all(&folder)
            .map_err(|error| failed(&folder.display().to_string(), error))?;
        let started = Self::start_in(folder.clone(), plan, launcher);
        if started.is_err() {
            let _ = std::fs::remove_dir_all(folder);
        }
        started
    }

    fn start_in(
        folder: PathBuf,
        plan: &HostedPlan,
        launcher: &dyn Launcher,
    ) -> Result<Self, DriveError> {
        let etcd = (plan.election == Election::Etcd)
            .then(free_pair)
            .transpose()?;
        let config = placed(plan, &folder, etcd)?;
        if config.nodes_of(Role::Guest).len() <= usize::from(PROGRAMS) {
            let needed = PROGRAMS + 1;
            return Err(DriveError::FewPlaces { needed });
        }
        let hosted = config.hosted();
        if hosted.security == SecurityKind::Tls {
            launcher.make_keys(&config)?;
        }
        let path = folder.join("rack.toml");
        write(&path, &config)?;
        let journal = new_journal(&folder)?;
        let mut processes = launcher.processes(&config, &path);
        let cables: Vec<_> = config
            .residents()
            .map(|_| ways(&config))
            .collect::<Result<_, _>>()?;
        for (cables, at) in cables.iter().zip(1..) {
            for cable in cables {
                processes.add_argument(at, "--controller", cable.address.to_string());
            }
        }
        let of_programs = (0..PROGRAMS).map(|_| ways(&config));
        let of_programs: Vec<_> = of_programs.collect::<Result<_, _>>()?;
        for (program, cables) in (0..).zip(&of_programs) {
            write(&config_of(&folder, program), &through(&config, cables))?;
        }
        let nodes = processes.nodes();
        let switches: Vec<_> = processes.all().filter(|at| !nodes.contains(at)).collect();
        let mut to_etcd = Vec::new();
        for (&at, etcd) in switches.iter().filter_map(|at| Some((at, etcd?))) {
            let cable = cable(etcd)?;
            processes.add_argument(at, "--etcd", format!("http://{}", cable.address));
            to_etcd.push(cable);
        }
        let etcd = (!to_etcd.is_empty()).then(|| processes.add_etcd(&path));
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
            journal,
            orders: Arc::default(),
            seed: plan.seed,
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

/// An empty journal of the campaign.
pub(super) fn new_journal(folder: &Path) -> Result<Arc<Journal>, DriveError> {
    let journal = Journal::create(&journal_of(folder, CAMPAIGN));
    Ok(Arc::new(
        journal.map_err(|error| failed("the journal", error))?,
    ))
}

/// The folder in which racks have theirs.
fn folder_of_racks() -> PathBuf {
    let (folder, needed) = IN_MEMORY;
    match rustix::fs::statvfs(folder) {
        Ok(found) if found.f_bavail.saturating_mul(found.f_frsize) >= needed => folder.into(),
        _ => std::env::temp_dir(),
    }
}

pub(super) fn failed(what: &str, error: std::io::Error) -> DriveError {
    let what = what.to_owned();
    DriveError::System { what, error }
}

fn write(path: &Path, config: &RackConfig) -> Result<(), DriveError> {
    let written = std::fs::write(path, config.to_toml());
    written.map_err(|error| failed(&path.display().to_string(), error))
}

/// The configuration of a plan in a folder, with free ports.
fn placed(
    plan: &HostedPlan,
    folder: &Path,
    etcd: Option<SocketAddr>,
) -> Result<RackConfig, DriveError> {
    let mut config = plan.config.clone();
    let standby = StandbySection {
        control: etcd.map(|_| free_port()).transpose()?,
        udp: etcd.map(|_| free_port()).transpose()?,
        listen: None,
    };
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
    Ok(RackConfig::parse(&config.to_toml(), "rack.toml")?)
}

fn cable(to: SocketAddr) -> Result<Cable, DriveError> {
    Cable::to(to).map_err(|error| failed("a way to the controller or to etcd", error))
}

/// New ways to the controllers.
fn ways(config: &RackConfig) -> Result<Vec<Cable>, DriveError> {
    let places = config.hosted().switch_places();
    let mut controls: Vec<_> = places.iter().map(|place| place.control).collect();
    controls.dedup();
    controls.into_iter().map(cable).collect()
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
fn free_pair() -> Result<SocketAddr, DriveError> {
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
fn free_port() -> Result<SocketAddr, DriveError> {
    for _ in 0..PORTS_TRIED {
        let random = RandomState::new().build_hasher().finish();
        let port = PORTS.start + (random % PORTS.len() as u64) as u16;
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(at).is_ok() && UdpSocket::bind(at).is_ok() {
            return Ok(at);
        }
    }
    let Range { start: first, end } = PORTS;
    Err(DriveError::NoPort { first, end })
}
