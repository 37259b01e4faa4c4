//! Several datagrams in one call to the system (`sendmmsg(2)`), some of them as one message that
//! the system splits (`udp(7)`, UDP_SEGMENT). None of the safe crates used here wraps it.

use crate::outbox::{Datagrams, is_temporary};
use libc::{c_int, c_uint, c_void, socklen_t};
use std::io;
use std::mem::zeroed;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Maximum messages of one call.
const SEND_MAX: usize = 16;

/// Maximum datagrams that the system splits a message into (UDP_MAX_SEGMENTS before Linux 6.9).
const SEGMENTS_MAX: usize = 64;

/// Maximum bytes of a message that is to be split: what fits an IPv6 packet without options.
const SPLIT_BYTES_MAX: usize = 65_535 - 40 - 8;

/// Bytes of ancillary data that hold one message with an `int`. None of ours is longer.
pub(crate) const CONTROL_BYTES: usize = 24;

// SAFETY: `CMSG_SPACE` only computes.
const _: () =
    assert!(unsafe { libc::CMSG_SPACE(size_of::<c_int>() as c_uint) } as usize <= CONTROL_BYTES);

/// Ancillary data, aligned as the system requires.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct Control([u8; CONTROL_BYTES]);

impl Control {
    pub(crate) const EMPTY: Self = Self([0; CONTROL_BYTES]);
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

/// Passes datagrams to the system and returns how many it has taken: for the address `to`, or for
/// what the socket is bound to. While `may_split`, datagrams of one length are one message each,
/// which the system splits as late as it can; where it cannot, `may_split` becomes false.
///
/// # Errors
/// What the system says of the first datagram.
pub(crate) fn send(
    socket: impl AsFd,
    to: Option<SocketAddr>,
    datagrams: Datagrams<'_>,
    may_split: &mut bool,
) -> io::Result<usize> {
    let (socket, to) = (socket.as_fd(), to.map(Address::new));
    match send_once(socket, to.as_ref(), datagrams, *may_split) {
        Ok(taken) => Ok(taken),
        Err(Refused { error, count }) if count == 1 || is_temporary(&error) => Err(error),
        // The system has an answer for each datagram. If it takes them, it does not split on the
        // way to this peer: the interface must be able to make checksums, for example.
        Err(Refused { count, .. }) => {
            let one_by_one = datagrams.start(count);
            let taken = send_once(socket, to.as_ref(), one_by_one, false);
            let taken = taken.map_err(|refused| refused.error)?;
            *may_split = false;
            Ok(taken)
        }
    }
}

/// Why the system has not taken a message of so many datagrams.
struct Refused {
    error: io::Error,
    count: usize,
}

fn send_once(
    socket: BorrowedFd<'_>,
    to: Option<&Address>,
    datagrams: Datagrams<'_>,
    may_split: bool,
) -> Result<usize, Refused> {
    // SAFETY: zeroes are valid for all three; they are plain data and pointers that may be null.
    let (mut messages, mut vectors): ([libc::mmsghdr; SEND_MAX], [libc::iovec; SEND_MAX]) =
        unsafe { (zeroed(), zeroed()) };
    let mut controls = [Control::EMPTY; SEND_MAX];
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
        if let Some(address) = to {
            header.msg_name = (&raw const address.bytes).cast_mut().cast();
            header.msg_namelen = address.len;
        }
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
    let sent =
        unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), used as c_uint, 0) };
    match usize::try_from(sent) {
        Ok(sent) => Ok(counts[..sent].iter().sum()),
        Err(_) => Err(Refused {
            error: io::Error::last_os_error(),
            count: counts[0],
        }),
    }
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

/// An IP address in the system's form.
pub(crate) struct Address {
    pub(crate) bytes: libc::sockaddr_storage,
    len: socklen_t,
}

impl Address {
    pub(crate) fn new(address: SocketAddr) -> Self {
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
}
