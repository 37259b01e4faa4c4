//! Creating and opening the file.

use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, StatxFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Alignment of transfer buffers: the address alignment that `O_DIRECT` requires must divide this.
const BUFFER_ALIGNMENT: u32 = 4096;

/// Why a file cannot be used as a backend.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file exists already and may hold data.
    #[error("{} exists already; open it, or remove it first", .0.display())]
    Exists(PathBuf),
    /// Shorter than it should be: it was truncated, or belongs to another store.
    #[error(
        "{}: {found} bytes, {expected} expected; it was truncated, or made with other sizes",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Expected bytes.
        expected: u64,
        /// Actual bytes.
        found: u64,
    },
    /// Its length is not a whole number of blocks.
    #[error("{}: {len} bytes are no whole number of blocks of {block_size} bytes", path.display())]
    NotBlocks {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
        len: u64,
        /// Bytes of a block.
        block_size: u32,
    },
    /// Invalid sizes.
    #[error(
        "{blocks} blocks of {block_size} bytes; the size of a block is a power of two from 512 \
         on, there is at least one, and all together are less than 2^63 bytes"
    )]
    Sizes {
        /// Bytes of a block.
        block_size: u32,
        /// The number of blocks.
        blocks: u64,
    },
    /// Neither a file nor a block device.
    #[error("{} is neither a regular file nor a block device", .0.display())]
    Kind(PathBuf),
    /// io_uring was requested and is not available.
    #[error("no io_uring: {source}; choose the engine auto or positional")]
    NoUring {
        /// The system's error.
        source: io::Error,
    },
    /// Another operation of the system failed.
    #[error("cannot {action} {}: {source}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// The action that failed.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl FileError {
    pub(super) fn system(path: &Path, action: &'static str, source: impl Into<io::Error>) -> Self {
        Self::System {
            path: path.to_owned(),
            action,
            source: source.into(),
        }
    }
}

/// An open file that is large enough for its blocks.
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) blocks: u64,
    pub(super) direct: bool,
}

/// Bytes of `blocks` blocks.
fn bytes(block_size: u32, blocks: u64) -> Result<u64, FileError> {
    let sound = block_size.is_power_of_two() && block_size >= 512 && blocks > 0;
    let bytes = blocks.checked_mul(block_size.into());
    let bytes = bytes.filter(|bytes| sound && *bytes <= i64::MAX as u64);
    bytes.ok_or(FileError::Sizes { block_size, blocks })
}

/// Creates a sparse file.
pub(super) fn create(path: &Path, block_size: u32, blocks: u64) -> Result<(), FileError> {
    let len = bytes(block_size, blocks)?;
    let created = File::options().write(true).create_new(true).open(path);
    let file = created.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => FileError::Exists(path.to_owned()),
        _ => FileError::system(path, "create", source),
    })?;
    let made = rustix::fs::ftruncate(&file, len)
        .map_err(|source| FileError::system(path, "extend", source))
        .and_then(|()| make_durable(path, &file));
    if made.is_err() {
        // A file with a wrong length would only be refused later.
        let _left_over = std::fs::remove_file(path);
    }
    made
}

/// Makes the length and name of a new or resized file survive a power cut.
fn make_durable(path: &Path, file: &File) -> Result<(), FileError> {
    let system = |source: io::Error| FileError::system(path, "make durable", source);
    file.sync_all().map_err(system)?;
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = File::open(folder.unwrap_or(Path::new("."))).map_err(system)?;
    match folder.sync_all() {
        // The file system does not sync folders.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced.map_err(system),
    }
}

/// Opens a file that has all of its blocks.
pub(super) fn open(
    path: &Path,
    block_size: u32,
    blocks: Option<u64>,
    direct: bool,
) -> Result<Opened, FileError> {
    bytes(block_size, blocks.unwrap_or(1))?;
    let system = |action| move |source: Errno| FileError::system(path, action, source);
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let open = |flags| rustix::fs::open(path, flags, Mode::empty());
    let cached = open(flags).map_err(system("open"))?;
    let stat = rustix::fs::fstat(&cached).map_err(system("examine"))?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if kind != FileType::RegularFile && kind != FileType::BlockDevice {
        return Err(FileError::Kind(path.to_owned()));
    }
    // The metadata of a block device has no length; seeking to its end finds it.
    let len = rustix::fs::seek(&cached, SeekFrom::End(0)).map_err(system("measure"))?;
    let blocks = match blocks {
        Some(blocks) => blocks,
        None if len > 0 && len.is_multiple_of(block_size.into()) => len / u64::from(block_size),
        None => {
            return Err(FileError::NotBlocks {
                path: path.to_owned(),
                len,
                block_size,
            });
        }
    };
    let expected = bytes(block_size, blocks)?;
    if len < expected {
        return Err(FileError::Truncated {
            path: path.to_owned(),
            expected,
            found: len,
        });
    }
    let past_cache = if direct && direct_suits(&cached, block_size) {
        open(flags | OFlags::DIRECT).ok()
    } else {
        None
    };
    Ok(Opened {
        direct: past_cache.is_some(),
        file: past_cache.unwrap_or(cached).into(),
        blocks,
    })
}

/// Whether blocks of this size, in buffers like the target's, meet the alignment that the file
/// requires for `O_DIRECT`. Systems before Linux 6.1 do not report it; pages suit every known
/// device.
fn direct_suits(file: impl std::os::fd::AsFd, block_size: u32) -> bool {
    let asked = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    let reported = asked.ok().filter(|stat| {
        let mask = StatxFlags::from_bits_retain(stat.stx_mask);
        mask.contains(StatxFlags::DIOALIGN)
    });
    match reported {
        // Zeroes mean that the file does not support direct I/O.
        Some(stat) => {
            let (memory, offset) = (stat.stx_dio_mem_align, stat.stx_dio_offset_align);
            memory > 0
                && offset > 0
                && BUFFER_ALIGNMENT.is_multiple_of(memory)
                && block_size.is_multiple_of(offset)
        }
        None => block_size.is_multiple_of(BUFFER_ALIGNMENT),
    }
}
