//! Sleeps until a link may have received something: `poll(2)` over the descriptors of many.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Number of descriptors up to which a sleep allocates nothing.
const FEW: usize = 16;

/// Sleeps until one of `fds` is readable, closed or in error, a signal arrives, or `limit` has
/// passed. Returns false after `limit`.
///
/// # Errors
/// If the system refuses, for example because there are more descriptors than a process may have.
pub fn sleep<F: AsFd>(fds: &[F], limit: Duration) -> io::Result<bool> {
    let readable = |fd| PollFd::new(fd, PollFlags::IN);
    match fds {
        [] => sleep_on(&mut [], limit),
        [first, ..] if fds.len() <= FEW => {
            let mut few: [_; FEW] =
                core::array::from_fn(|at| readable(fds.get(at).unwrap_or(first)));
            sleep_on(&mut few[..fds.len()], limit)
        }
        _ => sleep_on(&mut fds.iter().map(readable).collect::<Vec<_>>(), limit),
    }
}

fn sleep_on(fds: &mut [PollFd<'_>], limit: Duration) -> io::Result<bool> {
    // A limit that the system cannot represent is treated as for ever.
    let limit = Timespec::try_from(limit).ok();
    match poll(fds, limit.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn it_wakes_for_what_is_readable_or_closed_and_for_the_time() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let (quiet, _open) = UnixStream::pair().unwrap();
        let fds = [quiet.as_fd(), there.as_fd()];
        assert!(!sleep(&fds, Duration::ZERO).unwrap());
        assert!(!sleep::<UnixStream>(&[], Duration::from_nanos(1)).unwrap());
        here.write_all(b"!").unwrap();
        assert!(sleep(&fds, Duration::MAX).unwrap());
        let many: Vec<_> = (0..FEW).map(|_| &quiet).chain([&there]).collect();
        assert!(sleep(&many, Duration::MAX).unwrap());
        assert!(!sleep(&many[..FEW], Duration::ZERO).unwrap());
        let (closed, other) = UnixStream::pair().unwrap();
        drop(other);
        assert!(sleep(&[quiet.as_fd(), closed.as_fd()], Duration::MAX).unwrap());
    }
}
