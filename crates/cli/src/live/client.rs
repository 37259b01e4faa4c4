//! Finds commands that publish snapshots, and requests them.

use super::server::{name, prefix, user_of};
use super::snapshot::{ReadError, Snapshot};
use rustix::process::getuid;
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::{Duration, Instant};

/// Limit on the time of a reply: as long as a machine may be busy with other things.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);

/// Larger than any snapshot.
const BYTES_MAX: u64 = 64 << 20;

/// Why there is no snapshot.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AskError {
    /// No command publishes snapshots.
    #[error(
        "no command of yours with a rack of its own runs here; start one, such as `rackweave \
         demo` or `rackweave ycsb`, or ask a hosted rack by --hosted"
    )]
    Nobody,
    /// The requested process does not publish snapshots.
    #[error("process {pid} tells nothing of a rack: {others}")]
    NotThis {
        /// The process.
        pid: u32,
        /// The processes that do.
        others: String,
    },
    /// The process has ended.
    #[error("process {0} has ended")]
    Ended(u32),
    /// The process does not reply.
    #[error("process {pid} does not answer within {} s; it may be stopped", ANSWER_LIMIT.as_secs())]
    Silent {
        /// The process.
        pid: u32,
    },
    /// The reply is not a snapshot of this version.
    #[error("process {pid}: {error}")]
    Unreadable {
        /// The process.
        pid: u32,
        /// What is wrong.
        error: ReadError,
    },
}

/// The processes of this user that publish snapshots, in the order of their start.
pub fn processes() -> Vec<u32> {
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let mut pids: Vec<u32> = listed(&table, getuid().as_raw()).into_iter().collect();
    pids.sort_by_key(|&pid| (started(pid), pid));
    pids
}

/// The processes listed in `/proc/net/unix`.
fn listed(table: &str, user: u32) -> BTreeSet<u32> {
    let prefix = format!("@{}", prefix(user));
    let names = table
        .lines()
        .filter_map(|line| line.split_whitespace().nth(7));
    let pids = names.filter_map(|name| name.strip_prefix(&prefix)?.parse().ok());
    pids.collect()
}

/// The start time of a process, in clock ticks since boot; zero if it is gone. See
/// proc_pid_stat(5): field 22, where the second is in brackets and may have blanks.
fn started(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let field = behind_name.split_whitespace().nth(19);
    field.and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

/// The process to ask: `pid`, or the one that started last.
///
/// # Errors
/// If that process, or every process, does not publish snapshots.
pub fn choose(pid: Option<u32>) -> Result<u32, AskError> {
    let all = processes();
    match (pid, all.last()) {
        (None, None) => Err(AskError::Nobody),
        (None, Some(&newest)) => Ok(newest),
        (Some(pid), _) if all.contains(&pid) => Ok(pid),
        (Some(pid), None) => Err(AskError::NotThis {
            pid,
            others: "nobody does; start a command such as `rackweave ycsb`".to_owned(),
        }),
        (Some(pid), Some(_)) => {
            let names: Vec<String> = all.iter().map(u32::to_string).collect();
            let others = format!("choose one of {}", names.join(", "));
            Err(AskError::NotThis { pid, others })
        }
    }
}

/// The current snapshot of a process.
///
/// # Errors
/// If it is gone, is another user's, does not reply, or has another version.
pub fn ask(pid: u32) -> Result<Snapshot, AskError> {
    let ended = |_| AskError::Ended(pid);
    let mine = getuid().as_raw();
    let address = SocketAddr::from_abstract_name(name(mine, pid)).map_err(ended)?;
    let mut stream = UnixStream::connect_addr(&address).map_err(ended)?;
    // A process of another user may have taken the name.
    if user_of(&stream).ok() != Some(mine) {
        return Err(AskError::Ended(pid));
    }
    let bytes = read(&mut stream, pid)?;
    if bytes.is_empty() {
        return Err(AskError::Ended(pid));
    }
    Snapshot::read(&bytes).map_err(|error| AskError::Unreadable { pid, error })
}

fn read(stream: &mut UnixStream, pid: u32) -> Result<Vec<u8>, AskError> {
    let deadline = Instant::now() + ANSWER_LIMIT;
    let (mut bytes, mut chunk) = (Vec::new(), vec![0; 64 << 10]);
    while (bytes.len() as u64) < BYTES_MAX {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return Err(AskError::Silent { pid });
        }
        match stream.read(&mut chunk) {
            Ok(0) => return Ok(bytes),
            Ok(len) => bytes.extend_from_slice(&chunk[..len]),
            Err(error) => match error.kind() {
                ErrorKind::Interrupted => {}
                ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                    return Err(AskError::Silent { pid });
                }
                _ => return Err(AskError::Ended(pid)),
            },
        }
    }
    let error = ReadError::NoSnapshot(format!("it is longer than {} MiB", BYTES_MAX >> 20));
    Err(AskError::Unreadable { pid, error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_this_user_are_found() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 21861 /run/x.sock
0000000000000000: 00000002 00000000 00010000 0001 01 21862 @rackweave/live/1000/77
0000000000000000: 00000003 00000000 00000000 0001 03 21863 @rackweave/live/1000/77
0000000000000000: 00000002 00000000 00010000 0001 01 21864 @rackweave/live/1001/78
0000000000000000: 00000002 00000000 00010000 0001 01 21865 @rackweave/live/1000/9x
0000000000000000: 00000003 00000000 00000000 0001 03 21866
0000000000000000: 00000002 00000000 00010000 0001 01 21867 @rackweave/live/1000/5
";
        assert_eq!(Vec::from_iter(listed(table, 1000)), [5, 77]);
    }

    #[test]
    fn this_process_began_at_some_time() {
        assert!(started(std::process::id()) > 0);
        assert_eq!(started(u32::MAX), 0);
    }
}
