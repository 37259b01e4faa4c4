//! Replies on the socket. Clients cost the workload at most four snapshots of the rack a second,
//! however often they connect and however slowly they read.

use super::Story;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown, sockopt};
use rustix::process::getuid;
use std::io::{self, ErrorKind, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum age of a snapshot when it is sent, and minimum interval between snapshots.
const FRESH: Duration = Duration::from_millis(250);

/// How long a client may take to read its reply. Other clients wait meanwhile.
const READ_LIMIT: Duration = Duration::from_millis(500);

/// A pause after each reply, so that endless requests do not occupy a core.
const BREATH: Duration = Duration::from_millis(10);

/// A snapshot is taken this often even without clients, so that no counter wraps around unseen.
const LOOK_EVERY: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};

/// The name of a process's socket, in the abstract namespace.
pub(super) fn name(user: u32, pid: u32) -> String {
    format!("{}{pid}", prefix(user))
}

/// Prefix of the names of a user's sockets.
pub(super) fn prefix(user: u32) -> String {
    format!("rackweave/live/{user}/")
}

/// The user at the other end of a stream.
pub(super) fn user_of(stream: &UnixStream) -> io::Result<u32> {
    Ok(sockopt::socket_peercred(stream)?.uid.as_raw())
}

/// A thread that replies until this is dropped.
pub(super) struct Server {
    listener: Arc<UnixListener>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start(story: &Arc<Story>) -> io::Result<Self> {
        let name = name(getuid().as_raw(), std::process::id());
        let address = SocketAddr::from_abstract_name(name)?;
        let listener = Arc::new(UnixListener::bind_addr(&address)?);
        listener.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (story, theirs, over) = (story.clone(), listener.clone(), stop.clone());
        let thread = std::thread::Builder::new()
            .name("live".to_owned())
            .spawn(move || serve(&story, &theirs, &over))?;
        Ok(Self {
            listener,
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the thread.
        let _asleep = shutdown(&*self.listener, Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// The last snapshot, in the form in which it is sent.
struct Last {
    at: Instant,
    bytes: Vec<u8>,
}

fn serve(story: &Story, listener: &UnixListener, stop: &AtomicBool) {
    let mut last: Option<Last> = None;
    while !stop.load(Ordering::Relaxed) {
        let mut fds = [PollFd::new(listener, PollFlags::IN)];
        match poll(&mut fds, Some(&LOOK_EVERY)) {
            Ok(0) => drop(story.look()),
            Ok(_) => {
                // Otherwise the client has left, no descriptors are left, or the thread must end.
                if let Ok((stream, _)) = listener.accept() {
                    answer(story, stream, &mut last);
                }
            }
            Err(_) => {}
        }
        if !stop.load(Ordering::Relaxed) {
            std::thread::sleep(BREATH);
        }
    }
}

/// Sends a snapshot to a client of this user; other users are sent nothing.
fn answer(story: &Story, mut stream: UnixStream, last: &mut Option<Last>) {
    if user_of(&stream).ok() != Some(getuid().as_raw()) {
        return;
    }
    let last = match last {
        Some(last) if last.at.elapsed() < FRESH => last,
        stale => {
            let Ok(bytes) = serde_json::to_vec(&story.snapshot()) else {
                return;
            };
            stale.insert(Last {
                at: Instant::now(),
                bytes,
            })
        }
    };
    // A client that does not read to the end is no longer interested.
    let _unread = send(&mut stream, &last.bytes);
}

fn send(stream: &mut UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    let deadline = Instant::now() + READ_LIMIT;
    while !bytes.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
