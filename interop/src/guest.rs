//! A guest: QEMU with Linux, its Soft-RoCE driver and the program `guest/node`.

use crate::failure::{Doing, Failure, Outcome};
use crate::guest_node::GuestNode;
use rackweave_base::MacAddr;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The Ethernet MTU of the guests: enough for an RDMA MTU of 4096.
pub const ETHERNET_MTU: usize = 4200;

/// Maximum lifetime of a guest in seconds.
const LIFE: u32 = 600;

/// Maximum time until it has booted.
const BOOT: Duration = Duration::from_secs(90);

/// The UDP ports of this host by which a guest's VXLAN device and a switch reach each other.
#[derive(Clone, Copy)]
pub struct Tunnel {
    /// Where the switch receives.
    pub switch: u16,
    /// The one that leads to the guest's device.
    pub guest: u16,
}

impl Tunnel {
    /// Two free ports.
    pub fn find() -> Outcome<Self> {
        let bind = || UdpSocket::bind(("127.0.0.1", 0)).doing("looking for a free UDP port");
        let sockets = [bind()?, bind()?];
        let port = |socket: &UdpSocket| Ok(socket.local_addr().doing("a UDP port")?.port());
        Ok(Self {
            switch: port(&sockets[0])?,
            guest: port(&sockets[1])?,
        })
    }
}

/// The folders with the parts of a guest.
pub struct Folders {
    /// `boot-vm` and the sources of the guest.
    pub interop: PathBuf,
    /// The kernel and the initramfs.
    pub images: PathBuf,
    /// Consoles and captures.
    pub records: PathBuf,
    /// Sockets: a folder with a short name, because the system limits its length.
    pub sockets: PathBuf,
}

/// A running guest. It is killed when dropped.
pub struct Guest {
    /// Its number, which is the last byte of its addresses.
    pub id: u8,
    /// The port at which its node listens on this host.
    pub port: u16,
    process: Child,
    records: PathBuf,
    sockets: PathBuf,
}

impl Guest {
    /// Starts a guest, with a VXLAN device at the end of `tunnel`, if there is one. Must be called
    /// on a thread that lives as long as the guest should.
    pub fn start(folders: &Folders, id: u8, tunnel: Option<Tunnel>) -> Outcome<Self> {
        let port = free_port()?;
        let arguments = [ETHERNET_MTU.to_string(), port.to_string(), LIFE.to_string()];
        let [mtu, port_text, life] = &arguments;
        let process = Command::new(folders.interop.join("boot-vm"))
            .args([&folders.images, &folders.records, &folders.sockets])
            .args([&id.to_string(), mtu, port_text, life])
            .args(
                tunnel
                    .into_iter()
                    .flat_map(|it| [it.switch.to_string(), it.guest.to_string()]),
            )
            .stdin(Stdio::null())
            .spawn()
            .doing("starting boot-vm")?;
        Ok(Self {
            id,
            port,
            process,
            records: folders.records.clone(),
            sockets: folders.sockets.clone(),
        })
    }

    /// Waits until the node listens.
    pub fn wait_ready(&mut self) -> Outcome {
        let console = self.record("log");
        let deadline = Instant::now() + BOOT;
        loop {
            let text = fs::read(&console).unwrap_or_default();
            if String::from_utf8_lossy(&text).contains("READY") {
                return Ok(());
            }
            let ended = self.process.try_wait().doing("watching QEMU")?;
            if ended.is_some() || Instant::now() > deadline {
                let tail = tail_of(&text);
                let id = self.id;
                return Err(Failure::Timeout(format!(
                    "guest {id} did not boot; its console ends: {tail}"
                )));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A new connection to the node.
    pub fn node(&self) -> Outcome<GuestNode> {
        GuestNode::connect(self.id, self.port)
    }

    /// The path of one of its records: `log` or `pcap`.
    pub fn record(&self, kind: &str) -> PathBuf {
        self.records.join(format!("vm{}.{kind}", self.id))
    }

    /// The path of a socket of its cable: `guest` is the guest's, `host` the suite's.
    pub fn socket(&self, end: &str) -> PathBuf {
        self.sockets.join(format!("vm{}.{end}", self.id))
    }

    /// Kills the guest.
    pub fn stop(&mut self) {
        // It may have ended on its own.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The IP address of a guest.
pub fn ip(guest: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 78, 0, guest)
}

/// The Ethernet address of a guest.
pub fn mac(guest: u8) -> MacAddr {
    MacAddr([0x52, 0x54, 0, 0x77, 0, guest])
}

/// The IP address of a guest's VXLAN device.
pub fn tunnel_ip(guest: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 1, guest)
}

/// The Ethernet address of a guest's VXLAN device.
pub fn tunnel_mac(guest: u8) -> MacAddr {
    MacAddr([0x52, 0x54, 0, 0x79, 0, guest])
}

/// An IP address in the form that `rdma` prints.
pub fn gid(ip: Ipv4Addr) -> String {
    let [a, b, c, d] = ip.octets();
    format!("0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}")
}

fn free_port() -> Outcome<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).doing("looking for a free port")?;
    let address = listener.local_addr().doing("looking for a free port")?;
    Ok(address.port())
}

fn tail_of(console: &[u8]) -> String {
    let text = String::from_utf8_lossy(console);
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}
