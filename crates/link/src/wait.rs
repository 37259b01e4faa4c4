//! Sleeps until a link may have received something: `poll(2)` over the descriptors of many.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Sleeps until one of `fds` is readable, closed or in error, a signal arrives, or `limit` has
/// passed. Returns false after `limit`.
///
/// # Errors
/// If the system refuses, for example because there are more descriptors than a process may have.
pub fn sleep(fds: &[BorrowedFd<'_>], limit: Duration) -> io::Result<bool> {
    let mut fds: Vec<PollFd<'_>> = fds
        .iter()
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    // A limit that the system cannot represent is treated as for ever.
    let limit = Timespec::try_from(limit).ok();
    match poll(&mut fds, limit.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn it_wakes_for_what_is_readable_or_closed_and_for_the_time() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let (quiet, _open) = UnixStream::pair().unwrap();
        let fds = [quiet.as_fd(), there.as_fd()];
        assert!(!sleep(&fds, Duration::ZERO).unwrap());
        assert!(!sleep(&[], Duration::from_nanos(1)).unwrap());
        here.write_all(b"!").unwrap();
        assert!(sleep(&fds, Duration::MAX).unwrap());
        let (closed, other) = UnixStream::pair().unwrap();
        drop(other);
        assert!(sleep(&[quiet.as_fd(), closed.as_fd()], Duration::MAX).unwrap());
    }
}
