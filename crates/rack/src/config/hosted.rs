//! The part of the configuration about processes: the controller's address, the links of nodes, and
//! the places of keys and sockets.

use super::check::{ConfigError, rule, within};
use super::{NodeConfig, RackConfig, StandbySection, SwitchPlace};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Names that no node of a hosted rack may have: those of other parties, and of files beside their
/// keys.
pub(crate) const NAMES_RESERVED: [&str; 4] = ["controller", "operator", "authority", "revoked"];

rackweave_base::named! {
    /// The kind of a node's link to the switch.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum LinkKind {
        /// Rings in memory that both processes map; payloads pass by reference. On one machine.
        #[default]
        SharedMemory = "shared-memory",
        /// One Unix datagram per packet. On one machine.
        Unix = "unix",
        /// VXLAN in UDP (RFC 7348): any network.
        Udp = "udp",
        /// Raw packets on an Ethernet interface (AF_PACKET).
        Packet = "packet",
    }
}

impl LinkKind {
    /// Whether both ends share memory: payloads pass by reference, and nothing can damage them.
    pub fn shares_memory(self) -> bool {
        self == LinkKind::SharedMemory
    }
}

/// How a node and the controller authenticate each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SecurityKind {
    /// TLS with certificates on both sides.
    #[default]
    Tls,
    /// No authentication. Only on loopback.
    Plain,
}

/// The settings of a rack of processes.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostedSection {
    /// The address at which nodes and commands reach the controller.
    pub control: SocketAddr,
    /// The controller's listening address, if not `control`: for switches with several interfaces.
    pub listen: Option<SocketAddr>,
    /// How they authenticate each other.
    pub security: SecurityKind,
    /// The folder to which `rackweave keygen` writes keys; by default, `keys` in `directory`.
    pub keys: Option<PathBuf>,
    /// The folder for sockets and locks; by default, this user's folder for running processes.
    pub directory: Option<PathBuf>,
    /// The default link of nodes to the switch.
    pub link: LinkKind,
    /// The address at which the switch receives VXLAN packets.
    pub udp: SocketAddr,
    /// The VXLAN network identifier, 24 bits.
    pub vni: u32,
    /// Whether packets in UDP have an authentication code that only their sender can make; by
    /// default, if other machines can send packets.
    pub authenticate: Option<bool>,
    /// Whether nodes with shared-memory links exchange packets that no program of the switch acts
    /// on without the switch. Configured faults need the switch: with them, all packets pass it.
    pub direct: bool,
    /// Heartbeat interval in milliseconds.
    pub heartbeat_ms: u64,
    /// Milliseconds without a heartbeat after which a peer counts as dead.
    pub dead_after_ms: u64,
    /// The URLs of an etcd cluster that decides which switch process leads, and stores the
    /// controller's state; by default, files in `directory` do both.
    pub etcd: Vec<String>,
    /// Milliseconds after which etcd elects another leader if the leader is silent; etcd rounds
    /// them up to seconds.
    pub lease_ms: u64,
    /// A second switch process, which takes over when the first one dies.
    pub standby: Option<StandbySection>,
}

impl Default for HostedSection {
    fn default() -> Self {
        Self {
            control: SocketAddr::from(([127, 0, 0, 1], 7471)),
            listen: None,
            security: SecurityKind::Tls,
            keys: None,
            directory: None,
            link: LinkKind::SharedMemory,
            // The port that RFC 7348, section 5, assigns to VXLAN.
            udp: SocketAddr::from(([127, 0, 0, 1], 4789)),
            vni: 7471,
            authenticate: None,
            direct: true,
            heartbeat_ms: 250,
            dead_after_ms: 2000,
            etcd: Vec::new(),
            lease_ms: 2000,
            standby: None,
        }
    }
}

impl HostedSection {
    /// The folder for sockets and locks.
    pub fn directory(&self) -> PathBuf {
        if let Some(directory) = &self.directory {
            return directory.clone();
        }
        match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| Path::new(path).is_dir()) {
            Some(path) => PathBuf::from(path).join("rackweave"),
            None => {
                let user = rustix::process::getuid().as_raw();
                std::env::temp_dir().join(format!("rackweave-{user}"))
            }
        }
    }

    /// The folder for keys.
    pub fn keys(&self) -> PathBuf {
        self.keys
            .clone()
            .unwrap_or_else(|| self.directory().join("keys"))
    }

    /// Whether packets in UDP have an authentication code that only their sender can make.
    pub fn authenticates(&self) -> bool {
        let is_local = |place: &SwitchPlace| place.udp.ip().is_loopback();
        let places = self.switch_places();
        self.authenticate.unwrap_or(!places.iter().all(is_local))
    }

    /// Heartbeat interval.
    pub fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms)
    }

    /// Time after which etcd elects another leader if the leader is silent.
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// Time without a heartbeat after which a peer counts as dead.
    pub fn dead_after(&self) -> Duration {
        Duration::from_millis(self.dead_after_ms)
    }

    /// Makes relative paths start at the folder of the configuration file.
    pub(super) fn resolve_paths(&mut self, folder: &Path) {
        for path in [&mut self.keys, &mut self.directory].into_iter().flatten() {
            *path = folder.join(&*path);
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let (vni, range) = (self.vni, "at most 16777215 (24 bits) is possible");
        rule(vni < 1 << 24, "hosted.vni", vni, range)?;
        let (beat, range) = (self.heartbeat_ms, "10 to 60000 is possible");
        within("hosted.heartbeat_ms", beat, 10..=60_000, range)?;
        let (dead, most) = (self.dead_after_ms, 600_000);
        let range = "at least three times hosted.heartbeat_ms is needed, and at most 600000";
        within("hosted.dead_after_ms", dead, 3 * beat..=most, range)?;
        let range = "1000 to 60000 is possible";
        within("hosted.lease_ms", self.lease_ms, 1000..=60_000, range)?;
        for url in &self.etcd {
            let is_url = url.starts_with("http://") && url.len() > "http://".len();
            let needed = "a URL such as http://127.0.0.1:2379 is needed";
            rule(is_url, "hosted.etcd", url, needed)?;
        }
        self.check_standby()?;
        let places = self.switch_places();
        let mut all = places
            .iter()
            .flat_map(|place| [place.control, place.listen]);
        let safe = self.security == SecurityKind::Tls || all.all(|at| at.ip().is_loopback());
        let needed =
            "that is possible only where hosted.control and hosted.listen are loopback addresses";
        rule(safe, "hosted.security", "plain", needed)
    }
}

impl NodeConfig {
    /// The kind of this node's link to the switch.
    pub fn link_kind(&self, hosted: &HostedSection) -> LinkKind {
        self.link.unwrap_or(hosted.link)
    }

    pub(super) fn check_link(&self, hosted: &HostedSection) -> Result<(), ConfigError> {
        let packet = self.link_kind(hosted) == LinkKind::Packet;
        if packet && (self.interface.is_none() || self.switch_interface.is_none()) {
            return Err(ConfigError::NoInterface(self.name.clone()));
        }
        // It becomes part of the names of sockets, whose length is limited to 108 bytes.
        let most = "in a hosted rack at most 48 characters are allowed";
        rule(self.name.len() <= 48, "node.name", &self.name, most)?;
        let is_free = !NAMES_RESERVED.contains(&self.name.as_str());
        let reserved = "in a hosted rack controller, operator, authority and revoked are reserved";
        rule(is_free, "node.name", &self.name, reserved)
    }
}

impl RackConfig {
    /// The settings for processes; the defaults if the configuration has none.
    pub fn hosted(&self) -> HostedSection {
        self.hosted.clone().unwrap_or_default()
    }

    /// Whether any node of a hosted rack is reached by a link that may damage packets.
    pub(crate) fn leaves_the_machine(&self) -> bool {
        let hosted = self.hosted();
        self.node
            .iter()
            .any(|node| !node.link_kind(&hosted).shares_memory())
    }

    /// Whether nodes of a hosted rack may have cables to each other.
    #[cfg(feature = "hosted")]
    pub(crate) fn allows_direct_cables(&self) -> bool {
        let mut nodes = (0..self.node.len()).map(|at| rackweave_base::NodeId(at as u16));
        self.hosted().direct && !nodes.any(|node| self.faults_of(node).any())
    }

    /// A number that is equal on processes that can form one rack: it covers everything except
    /// paths.
    pub fn agreement(&self) -> u64 {
        let mut common = self.clone();
        common.hosted = None;
        common.driver_threads = 0;
        for node in &mut common.node {
            (node.interface, node.switch_interface, node.udp) = (None, None, None);
        }
        for host in &mut common.host {
            (host.udp, host.switch_interface, host.authenticate) = (None, None, None);
        }
        for store in &mut common.store {
            store.path = None;
        }
        // FNV-1a: it protects against mistakes, not against attacks.
        common
            .to_toml()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<RackConfig, String> {
        RackConfig::parse(text, "rack.toml").map_err(|error| error.to_string())
    }

    #[test]
    fn a_section_is_read_and_checked() {
        let config = parse("[hosted]\nlink = \"udp\"\nvni = 5\n").unwrap();
        assert_eq!(config.hosted().link, LinkKind::Udp);
        assert!(config.leaves_the_machine());
        assert!(!RackConfig::default().leaves_the_machine());
        for (text, says) in [
            ("[hosted]\nvni = 16777216\n", "24 bits"),
            ("[hosted]\nlink = \"smoke-signals\"\n", "unknown variant"),
            (
                "[hosted]\nsecurity = \"plain\"\ncontrol = \"10.0.0.1:7471\"\n",
                "loopback",
            ),
            (
                "[hosted]\nheartbeat_ms = 500\ndead_after_ms = 700\n",
                "three times",
            ),
            ("[hosted]\nlink = \"packet\"\n", "switch_interface"),
            (
                "[hosted]\n[hosted.standby]\nudp = \"127.0.0.1:1\"\n",
                "hosted.standby.control",
            ),
            (
                "[hosted]\netcd = [\"http://127.0.0.1:2379\"]\n[hosted.standby]\n",
                "address of its own",
            ),
            ("[hosted]\netcd = [\"ftp://a\"]\n", "http://127.0.0.1:2379"),
            (
                "[hosted]\ncontroll = \"127.0.0.1:1\"\n",
                "did you mean `control`?",
            ),
            (
                "[hosted]\n[[node]]\nname = \"a/b\"\nrole = \"compute\"\n",
                "letters, digits",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(says), "{text:?} gives {error:?}");
            assert!(!error.contains('\n'));
        }
    }

    #[test]
    fn processes_agree_wherever_their_files_lie() {
        let here = parse("seed = 3\n[hosted]\ndirectory = \"/tmp/a\"\n").unwrap();
        let there = parse("seed = 3\n[hosted]\ndirectory = \"/tmp/b\"\n").unwrap();
        assert_eq!(here.agreement(), there.agreement());
        let other = parse("seed = 3\n[nic]\nmtu = 1024\n").unwrap();
        assert_ne!(here.agreement(), other.agreement());
    }

    #[test]
    fn relative_paths_are_meant_from_the_file() {
        let mut hosted = HostedSection {
            keys: Some("keys".into()),
            directory: Some("/run/r".into()),
            ..HostedSection::default()
        };
        hosted.resolve_paths(Path::new("/etc/rack"));
        assert_eq!(hosted.keys(), Path::new("/etc/rack/keys"));
        assert_eq!(hosted.directory(), Path::new("/run/r"));
    }
}
