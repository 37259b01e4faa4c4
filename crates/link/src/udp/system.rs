//! The calls to the system that none of the safe crates used here wraps: several datagrams received
//! in one call (`recvmmsg(2)`), some of them merged by the system (`udp(7)`, UDP_GRO).

use crate::send_many::{CONTROL_BYTES, Control};
use libc::{c_int, c_uint, socklen_t};
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};

/// Maximum messages of one call.
const RECEIVE_MAX: usize = 4;

/// Bytes of a receive buffer. No IP packet is larger, and the system merges none to more.
const BUFFER_BYTES: usize = 1 << 16;

/// Lets the system merge received datagrams of one sender. Without it, each arrives alone.
pub(super) fn merge_received(socket: impl AsFd) {
    let _unknown = enable(socket, (libc::SOL_UDP, libc::UDP_GRO));
}

/// Has datagrams be sent without checksums.
#[cfg(test)]
pub(super) fn omit_checksums(socket: impl AsFd) -> io::Result<()> {
    enable(socket, (libc::SOL_SOCKET, libc::SO_NO_CHECK))
}

/// Number of packets that the system has dropped since the socket was made, because its receive
/// buffer was full. 0 if the system does not tell.
pub(super) fn system_drops(socket: impl AsFd) -> u32 {
    /// The place of the drops among the values (SK_MEMINFO_DROPS of linux/sock_diag.h).
    const AT: usize = 8;
    let mut values = [0u32; AT + 1];
    let mut len = size_of_val(&values) as socklen_t;
    // SAFETY: `values` is writable for `len` bytes through the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result == 0 { values[AT] } else { 0 }
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
        let mut controls = [Control::EMPTY; RECEIVE_MAX];
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
    use crate::send_many::Address;

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
