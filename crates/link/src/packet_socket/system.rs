//! The calls to the system that none of the safe crates used here wraps: an interface's state, and
//! a packet socket bound to it (`netdevice(7)`, `packet(7)`).

use super::ring::Ring;
use libc::{c_int, c_ulong, c_ushort, socklen_t};
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;

/// Accepts packets without a VLAN tag and drops others: loads whether there was a tag, and unless
/// that is zero skips the instruction that keeps all bytes.
const WITHOUT_TAG: [libc::sock_filter; 4] = [
    instruction(
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        [0, 0],
        (libc::SKF_AD_OFF + libc::SKF_AD_VLAN_TAG_PRESENT) as u32,
    ),
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, [0, 1], 0),
    instruction(libc::BPF_RET | libc::BPF_K, [0, 0], u32::MAX),
    instruction(libc::BPF_RET | libc::BPF_K, [0, 0], 0),
];

/// The system's description of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Interface {
    pub(super) index: u32,
    pub(super) mtu: usize,
    pub(super) is_up: bool,
    pub(super) is_ethernet: bool,
}

/// `struct ifreq`: a name and the requested value. In the system's definition the value is a union
/// of this size.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    answer: [u8; 24],
}
const _: () = assert!(size_of::<Request>() == size_of::<libc::ifreq>());

const fn instruction(code: u32, [jt, jf]: [u8; 2], k: u32) -> libc::sock_filter {
    let code = code as u16;
    libc::sock_filter { code, jt, jf, k }
}

/// The state of an interface.
pub(super) fn interface(name: &str) -> io::Result<Interface> {
    // Any kind of socket works, so this uses one that needs no permission.
    let socket = UnixDatagram::unbound()?;
    let index = netdevice::name_to_index(&socket, name)?;
    let number = |request| {
        let [a, b, c, d, ..] = ask(socket.as_fd(), name, request)?;
        io::Result::Ok([a, b, c, d])
    };
    let short = |[a, b, ..]: [u8; 4]| u16::from_ne_bytes([a, b]);
    let mtu = i32::from_ne_bytes(number(libc::SIOCGIFMTU)?);
    let flags = c_int::from(short(number(libc::SIOCGIFFLAGS)?));
    let hardware = short(number(libc::SIOCGIFHWADDR)?);
    Ok(Interface {
        index,
        mtu: usize::try_from(mtu).unwrap_or(0),
        is_up: flags & libc::IFF_UP != 0,
        is_ethernet: hardware == libc::ARPHRD_ETHER,
    })
}

/// The names of all interfaces; empty if the system does not list them.
pub(super) fn interfaces() -> Vec<String> {
    // Two header lines, then one line per interface, with its name before a colon.
    let table = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let names = table
        .lines()
        .skip(2)
        .filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.trim().to_owned()).collect()
}

/// A packet socket on the interface with this index. It is promiscuous, never blocks, and receives
/// neither packets that the machine itself sends nor packets with a VLAN tag.
/// Received packets are in a ring, for an Ethernet payload of at most `mtu` bytes.
pub(super) fn open(index: u32, mtu: usize) -> io::Result<(OwnedFd, Ring)> {
    // Without a protocol it receives nothing until it is bound, with all options set.
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    let fd = socket.as_fd();
    let yes: c_int = 1;
    set(fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &yes)?;
    let filter = libc::sock_fprog {
        len: WITHOUT_TAG.len() as c_ushort,
        // The system only reads it.
        filter: WITHOUT_TAG.as_ptr().cast_mut(),
    };
    set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)?;
    let ring = Ring::new(fd, mtu)?;
    bind(fd, index)?;
    let membership = libc::packet_mreq {
        mr_ifindex: index as c_int,
        mr_type: libc::PACKET_MR_PROMISC as c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(
        fd,
        libc::SOL_PACKET,
        libc::PACKET_ADD_MEMBERSHIP,
        &membership,
    )?;
    Ok((socket, ring))
}

/// Gives a socket a ring for what it receives.
pub(super) fn set_ring(socket: BorrowedFd<'_>, ring: &libc::tpacket_req) -> io::Result<()> {
    let version = libc::tpacket_versions::TPACKET_V2 as c_int;
    set(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
    set(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, ring)
}

/// Number of packets that the system has dropped since this was last asked, because there was no
/// free frame in the ring. 0 if the system does not tell.
pub(super) fn ring_drops(socket: impl AsFd) -> u32 {
    let mut statistics = libc::tpacket_stats {
        tp_packets: 0,
        tp_drops: 0,
    };
    let mut len = size_of_val(&statistics) as socklen_t;
    // SAFETY: `statistics` is writable for `len` bytes through the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut statistics).cast(),
            &raw mut len,
        )
    };
    if result == 0 { statistics.tp_drops } else { 0 }
}

fn ask(socket: BorrowedFd<'_>, name: &str, request: c_ulong) -> io::Result<[u8; 24]> {
    let mut asked = Request {
        name: [0; libc::IFNAMSIZ],
        answer: [0; 24],
    };
    // One zero must follow; a longer name was rejected as not found before.
    for (to, from) in asked.name[..libc::IFNAMSIZ - 1]
        .iter_mut()
        .zip(name.bytes())
    {
        *to = from;
    }
    // SAFETY: the requests of this file read and write a `struct ifreq`, and `Request` has the same
    // size and outlives the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), request as _, &raw mut asked) };
    check(result).map(|()| asked.answer)
}

/// Sets an option. `T` must be the type of the option's value; the system refuses a value that is
/// too short.
fn set<T>(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as socklen_t;
    let start = core::ptr::from_ref(value).cast();
    // SAFETY: `value` is readable for `len` bytes through the call, which is all that the system
    // reads; the one value with a pointer in it, the filter, points to a constant.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, start, len) })
}

fn bind(socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as c_ushort,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: index as c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of_val(&address) as socklen_t;
    let start = (&raw const address).cast();
    // SAFETY: `address` is a whole address of its family and readable through the call.
    check(unsafe { libc::bind(socket.as_raw_fd(), start, len) })
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
