//! The socket of one end and its file: bound where no other socket is bound, removed when it is
//! dropped.
//!
//! A process that binds or removes a socket's file holds a lock on its folder meanwhile. Otherwise
//! two processes could find the same dead socket, and one could remove what the other has just
//! bound. The lock belongs to the system and ends with the process; nothing is left behind.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net;
use std::path::{Path, PathBuf};

/// Maximum bytes of a socket's path (`struct sockaddr_un` without the final zero).
const PATH_MAX: usize = 107;

/// Why an end could not be created.
#[derive(Debug, thiserror::Error)]
pub enum UnixError {
    /// The MTU is too small even for the smallest RDMA MTU.
    #[error(
        "an MTU of {mtu} bytes carries no RDMA packet; it takes at least {}",
        crate::MTU_MIN
    )]
    MtuTooSmall {
        /// The requested MTU.
        mtu: usize,
    },
    /// The path is not valid for a socket.
    #[error(
        "the socket path {} has {len} bytes, and the system takes 1 to {PATH_MAX}; choose a \
         shorter one", path.display(), len = path.as_os_str().len()
    )]
    BadPath {
        /// The path.
        path: PathBuf,
    },
    /// Another process is bound to the path.
    #[error(
        "the socket {} is in use; stop the process that has it (`ss -xap` names it) or choose \
         another path", path.display()
    )]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// The path exists and is not a socket.
    #[error(
        "{} is there and no socket; choose another path or move it away", path.display()
    )]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The system refused.
    #[error(
        "cannot bind the socket {}: {source}; check that its folder exists and may be written to",
        path.display()
    )]
    Bind {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// A bound socket that never blocks, and its file.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) socket: net::UnixDatagram,
    path: PathBuf,
    /// Device and inode number of the file.
    file: (u64, u64),
}

/// Checks that the path is valid for a socket.
pub(super) fn check_path(path: &Path) -> Result<(), UnixError> {
    if (1..=PATH_MAX).contains(&path.as_os_str().len()) {
        return Ok(());
    }
    Err(UnixError::BadPath {
        path: path.to_owned(),
    })
}

impl Bound {
    /// Binds at `path`, replacing a socket that no process uses any more.
    pub(super) fn at(path: &Path) -> Result<Self, UnixError> {
        check_path(path)?;
        let bind_error = |source| UnixError::Bind {
            path: path.to_owned(),
            source,
        };
        let _lock = lock_folder(path).map_err(bind_error)?;
        clear(path)?;
        let socket = net::UnixDatagram::bind(path).map_err(bind_error)?;
        let bound = Self {
            file: file_at(path).map_err(bind_error)?,
            path: path.to_owned(),
            socket,
        };
        bound.socket.set_nonblocking(true).map_err(bind_error)?;
        Ok(bound)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // Without the lock the file stays: a dead socket does no harm.
        if let Ok(_lock) = lock_folder(&self.path)
            && file_at(&self.path).is_ok_and(|file| file == self.file)
        {
            let _removed = fs::remove_file(&self.path);
        }
    }
}

fn lock_folder(path: &Path) -> io::Result<File> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder = File::open(folder)?;
    folder.lock()?;
    Ok(folder)
}

fn file_at(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Removes the socket file at `path` if no process is bound to it.
fn clear(path: &Path) -> Result<(), UnixError> {
    let owned = || path.to_owned();
    let bind_error = |source| UnixError::Bind {
        path: owned(),
        source,
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(bind_error(error)),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(UnixError::NotASocket { path: owned() });
        }
        Ok(_) => {}
    }
    let probe = net::UnixDatagram::unbound().map_err(bind_error)?;
    match probe.connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(bind_error)
        }
        // Any other answer means that there is a process: with a stream socket, or connected to
        // another peer.
        _ => Err(UnixError::InUse { path: owned() }),
    }
}
