//! The calls to the system that none of the safe crates used here wraps: several datagrams in one
//! call (`sendmmsg(2)`, `recvmmsg(2)`), and datagrams that the system splits and merges (`udp(7)`,
//! UDP_SEGMENT and UDP_GRO).

use crate::outbox::Datagrams;
use libc::{c_int, c_uint, c_void, socklen_t};
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};

/// Maximum messages of one call that sends.
const SEND_MAX: usize = 16;

/// Maximum messages of one call that receives.
const RECEIVE_MAX: usize = 4;

/// Bytes of a receive buffer. No IP packet is larger, and the system merges none to more.
const BUFFER_BYTES: usize = 1 << 16;

/// Maximum datagrams that the system splits a message into (UDP_MAX_SEGMENTS before Linux 6.9).
const SEGMENTS_MAX: usize = 64;

/// Maximum bytes of a message that is to be split: what fits an IPv6 packet without options.
const SPLIT_BYTES_MAX: usize = 65_535 - 40 - 8;

/// Bytes of ancillary data that hold one message with an `int`. Both of ours are not longer.
const CONTROL_BYTES: usize = 24;

// SAFETY: `CMSG_SPACE` only computes.
const _: () =
    assert!(unsafe { libc::CMSG_SPACE(size_of::<c_int>() as c_uint) } as usize <= CONTROL_BYTES);

/// Ancillary data, aligned as the system requires.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_BYTES]);

/// Lets the system merge received datagrams of one sender. Without it, each arrives alone.
pub(super) fn merge_received(socket: impl AsFd) {
    let _unknown = enable(socket, (libc::SOL_UDP, libc::UDP_GRO));
}

/// Has datagrams be sent without checksums.
#[cfg(test)]
pub(super) fn omit_checksums(socket: impl AsFd) -> io::Result<()> {
    enable(socket, (libc::SOL_SOCKET, libc::SO_NO_CHECK))
}

/// Sets an option whose value is an `int`.
fn enable(socket: impl AsFd, (level, option): (c_int, c_int)) -> io::Result<()> {
    let (fd, yes): (_, c_int) = (socket.as_fd().as_raw_fd(), 1);
    let len = size_of_val(&yes) as socklen_t;
    // SAFETY: the value is readable for `len` bytes through the call.
    match unsafe { libc::setsockopt(fd, level, option, (&raw const yes).cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Number of datagrams at the start of `lens` that the system can make of one message: all of one
/// length but the last, which may be shorter.
fn run_len(lens: &[usize]) -> usize {
    let (first, mut bytes) = (lens[0], 0);
    for (at, &len) in lens.iter().take(SEGMENTS_MAX).enumerate() {
        bytes += len;
        if at > 0 && (len > first || len == 0 || bytes > SPLIT_BYTES_MAX) {
            return at;
        }
        if len < first {
            return at + 1;
        }
    }
    lens.len().min(SEGMENTS_MAX)
}

/// Passes datagrams to the system and returns how many it has taken. With `may_split`, datagrams of
/// one length are one message each, which the system splits as late as it can.
///
/// # Errors
/// What the system says of the first message; `split` then says of how many datagrams it was.
pub(super) fn send(
    socket: impl AsFd,
    to: SocketAddr,
    datagrams: Datagrams<'_>,
    may_split: bool,
) -> Result<usize, SendError> {
    let address = Address::new(to);
    // SAFETY: zeroes are valid for all three; they are plain data and pointers that may be null.
    let (mut messages, mut vectors): ([libc::mmsghdr; SEND_MAX], [libc::iovec; SEND_MAX]) =
        unsafe { (zeroed(), zeroed()) };
    let mut controls = [Control([0; CONTROL_BYTES]); SEND_MAX];
    let mut counts = [0; SEND_MAX];
    let Datagrams {
        mut bytes,
        mut lens,
    } = datagrams;
    let mut used = 0;
    while used < SEND_MAX && !lens.is_empty() {
        let count = if may_split { run_len(lens) } else { 1 };
        let (now, later) = lens.split_at(count);
        let (message_bytes, rest) = bytes.split_at(now.iter().sum());
        vectors[used] = libc::iovec {
            // The system only reads it.
            iov_base: message_bytes.as_ptr().cast_mut().cast(),
            iov_len: message_bytes.len(),
        };
        let header = &mut messages[used].msg_hdr;
        header.msg_name = (&raw const address.bytes).cast_mut().cast();
        header.msg_namelen = address.len;
        header.msg_iov = &raw mut vectors[used];
        header.msg_iovlen = 1;
        if count > 1 {
            header.msg_control = (&raw mut controls[used]).cast();
            set_segment(header, now[0] as u16);
        }
        counts[used] = count;
        (bytes, lens) = (rest, later);
        used += 1;
    }
    // SAFETY: the first `used` messages point to an address, a vector, bytes and ancillary data
    // that live through the call; the system reads them and writes only the messages' lengths.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_fd().as_raw_fd(),
            messages.as_mut_ptr(),
            used as c_uint,
            0,
        )
    };
    match usize::try_from(sent) {
        Ok(sent) => Ok(counts[..sent].iter().sum()),
        Err(_) => Err(SendError {
            error: io::Error::last_os_error(),
            count: counts[0],
        }),
    }
}

/// Why the system has not taken a message of so many datagrams.
pub(super) struct SendError {
    pub(super) error: io::Error,
    pub(super) count: usize,
}

/// Has the system split a message into datagrams of `len` bytes.
fn set_segment(header: &mut libc::msghdr, len: u16) {
    // SAFETY: `CMSG_SPACE` and `CMSG_LEN` only compute. `msg_control` points to a `Control`, which
    // is aligned for a header, and is long enough for it and two bytes.
    unsafe {
        header.msg_controllen = libc::CMSG_SPACE(size_of::<u16>() as c_uint) as _;
        let control = libc::CMSG_FIRSTHDR(header);
        (*control).cmsg_level = libc::SOL_UDP;
        (*control).cmsg_type = libc::UDP_SEGMENT;
        (*control).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as c_uint) as _;
        libc::CMSG_DATA(control).cast::<u16>().write_unaligned(len);
    }
}

/// Buffers for received messages.
#[derive(Debug)]
pub(super) struct Receiver(Box<[u8]>);

/// A received message: a datagram, or several that the system has merged.
pub(super) struct Received<'a> {
    pub(super) from: SocketAddr,
    bytes: &'a [u8],
    /// The length of all datagrams but the last, if they are several.
    segment: usize,
}

impl<'a> Received<'a> {
    /// The datagrams, in order.
    pub(super) fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        // A datagram may be empty.
        let empty = self.bytes.is_empty().then_some(self.bytes);
        empty.into_iter().chain(self.bytes.chunks(self.segment))
    }
}

impl Receiver {
    pub(super) fn new() -> Self {
        Self(vec![0; RECEIVE_MAX * BUFFER_BYTES].into_boxed_slice())
    }

    /// Reads messages that have arrived, passes them to `take`, and returns whether more may have.
    ///
    /// # Errors
    /// What the system says, also if nothing has arrived.
    pub(super) fn receive(
        &mut self,
        socket: impl AsFd,
        mut take: impl FnMut(&Received<'_>),
    ) -> io::Result<bool> {
        let mut addresses = [MaybeUninit::<libc::sockaddr_storage>::zeroed(); RECEIVE_MAX];
        // SAFETY: zeroes are valid for both; they are plain data and pointers that may be null.
        let (mut messages, mut vectors): (
            [libc::mmsghdr; RECEIVE_MAX],
            [libc::iovec; RECEIVE_MAX],
        ) = unsafe { (zeroed(), zeroed()) };
        let mut controls = [Control([0; CONTROL_BYTES]); RECEIVE_MAX];
        for (at, buffer) in self.0.chunks_mut(BUFFER_BYTES).enumerate() {
            vectors[at] = libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: buffer.len(),
            };
            let header = &mut messages[at].msg_hdr;
            header.msg_name = addresses[at].as_mut_ptr().cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as socklen_t;
            header.msg_iov = &raw mut vectors[at];
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut controls[at]).cast();
            header.msg_controllen = CONTROL_BYTES as _;
        }
        // SAFETY: each message points to an address, a vector with a buffer, and ancillary data of
        // the given lengths, all of which live through the call and are used by nothing else.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_fd().as_raw_fd(),
                messages.as_mut_ptr(),
                RECEIVE_MAX as c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        let buffers = self.0.chunks(BUFFER_BYTES);
        for ((message, address), buffer) in messages[..count].iter().zip(&addresses).zip(buffers) {
            let bytes = &buffer[..message.msg_len as usize];
            // SAFETY: zeroes are a valid address, and the system has written another over them.
            let from = native(unsafe { address.assume_init_ref() });
            // All datagrams of an IP socket have a sender.
            let Some(from) = from else { continue };
            let segment = segment(&message.msg_hdr).unwrap_or(bytes.len());
            take(&Received {
                from,
                bytes,
                segment: segment.max(1),
            });
        }
        Ok(count == RECEIVE_MAX)
    }
}

/// The length of the datagrams that the system has merged to a message, if it has.
fn segment(header: &libc::msghdr) -> Option<usize> {
    // SAFETY: the system has filled `msg_control`, which lives as long as its `Receiver::receive`,
    // up to `msg_controllen`; the macros stay within that.
    unsafe {
        let control = libc::CMSG_FIRSTHDR(header).as_ref()?;
        let is_segment = (control.cmsg_level, control.cmsg_type) == (libc::SOL_UDP, libc::UDP_GRO);
        let len = libc::CMSG_DATA(control).cast::<c_int>();
        is_segment.then(|| usize::try_from(len.read_unaligned()).ok())?
    }
}

/// An address in the system's form.
struct Address {
    bytes: libc::sockaddr_storage,
    len: socklen_t,
}

impl Address {
    fn new(address: SocketAddr) -> Self {
        // SAFETY: zeroes are valid for an address.
        let mut bytes: libc::sockaddr_storage = unsafe { zeroed() };
        let start = (&raw mut bytes).cast::<c_void>();
        let len = match address {
            SocketAddr::V4(v4) => {
                let native = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(v4.ip().octets()),
                    },
                    sin_zero: [0; 8],
                };
                // SAFETY: a `sockaddr_storage` has the size and alignment for every address.
                unsafe { start.cast::<libc::sockaddr_in>().write(native) };
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                let native = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: v6.ip().octets(),
                    },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: as above.
                unsafe { start.cast::<libc::sockaddr_in6>().write(native) };
                size_of::<libc::sockaddr_in6>()
            }
        };
        let len = len as socklen_t;
        Self { bytes, len }
    }
}

/// An address from the system; `None` if it is not one of IP.
fn native(address: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let start = std::ptr::from_ref(address);
    match c_int::from(address.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which address it is, and it lies in a `sockaddr_storage`.
            let v4 = unsafe { &*start.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { &*start.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_datagrams_of_one_length_and_a_shorter_last_one() {
        let check = |lens: &[usize], expect| assert_eq!(run_len(lens), expect, "{lens:?}");
        check(&[5], 1);
        check(&[0], 1);
        check(&[5, 0], 1);
        check(&[5, 6], 1);
        check(&[5, 4], 2);
        check(&[5, 4, 4], 2);
        check(&[5, 5, 5, 6], 3);
        check(&[5, 5, 5, 1, 5], 4);
        check(&[5; 100], SEGMENTS_MAX);
        check(&[4200; 40], SPLIT_BYTES_MAX / 4200);
        check(&[65_507, 1, 1], 1);
    }

    #[test]
    fn addresses_are_the_same_in_the_form_of_the_system() {
        for text in [
            "192.0.2.7:4789",
            "[2001:db8::7]:65535",
            "[::ffff:10.0.0.1]:1",
        ] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(native(&Address::new(address).bytes), Some(address));
        }
        // SAFETY: zeroes are valid for an address.
        assert_eq!(native(&unsafe { zeroed() }), None);
    }
}
