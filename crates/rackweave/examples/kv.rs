//! A key-value engine with a redo log, on pages that two nodes share: `cargo run --example kv`.
//!
//! A transaction latches its pages, changes them under LSNs, appends a record to the log and
//! commits the guards. Rackweave calls [`RedoLog::make_durable`] before any of these pages is
//! visible at the other node or is written home. When the latches are released, the transaction is
//! committed. No page is ever ahead of the log, and after a crash the changes that a page lacks are
//! replayed. A kill may tear a write, so a page's first change after a checkpoint logs all of it.

use rackweave::config::StoreConfig;
use rackweave::pages::{PAGE_HEADER_LEN, PageError, PageId, PageOptions};
use rackweave::pages::{PageService, PageWorker, RedoLog, WriteGuard};
use rackweave::{Rack, RackConfig};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

type Result<T, E = Box<dyn std::error::Error>> = core::result::Result<T, E>;

const PAGE_BYTES: usize = 4096;
const DATA_BYTES: usize = PAGE_BYTES - PAGE_HEADER_LEN;
const VALUES_PER_PAGE: u64 = DATA_BYTES as u64 / 8;
const PAGES: u64 = 64; // Pages 0 and 1 of the store are reserved for Rackweave.
/// Exclusive upper bound of keys.
pub const KEYS: u64 = PAGES * VALUES_PER_PAGE;

struct Log {
    file: File,
    /// Appended records that are not in the file yet.
    tail: Mutex<Vec<u8>>,
}

impl RedoLog for Log {
    fn make_durable(&self, lsn: u64) -> u64 {
        let mut tail = self.tail.lock().expect("not poisoned");
        let mut file = &self.file;
        let durable = file.write_all(&tail).and_then(|()| file.sync_data());
        // If this fails, only recovery can tell what is in the file.
        durable.unwrap_or_else(|_| std::process::abort());
        tail.clear();
        lsn // A page requests this LSN only after its records were appended.
    }
}

/// The engine. One thread plays both nodes.
pub struct Kv {
    workers: Vec<PageWorker>,
    log: Arc<Log>,
    last_lsn: u64,
    /// Pages that the log contains in full since the last checkpoint.
    logged: HashSet<PageId>,
}

impl Kv {
    /// Opens or creates the engine's files in a folder and recovers what was committed.
    pub fn open(folder: &Path) -> Result<Self> {
        let (path, bytes) = (folder.join("pages"), (2 + PAGES) * PAGE_BYTES as u64);
        let mut store = StoreConfig::in_file("kv", "storage0", path, bytes);
        store.double_write = Some(false); // The log has whole pages.
        let mut config = RackConfig::with_all_programs();
        config.switch.page_size = PAGE_BYTES as u32;
        config.store = vec![store];
        let rack = Rack::builder().config(config).build()?;
        let options = PageOptions {
            frames: 8, // Few frames, so changed pages are written home all the time.
            ..PageOptions::default()
        };
        let pages = PageService::new(&rack, &options)?;
        let path = folder.join("log");
        let file = File::options().append(true).create(true).open(&path)?;
        let tail = Mutex::default();
        let log = Arc::new(Log { file, tail });
        let workers = pages.nodes().iter().map(|&node| pages.worker(node));
        let mut kv = Self {
            workers: workers.collect::<Result<_, _>>()?,
            log: log.clone(),
            last_lsn: 0,
            logged: HashSet::new(),
        };
        let set_log = |worker: &PageWorker| worker.pool().set_log(log.clone());
        kv.workers.iter().for_each(set_log);
        kv.recover(&fs::read(path)?)?;
        Ok(kv)
    }

    /// The value of a key as a node sees it, 0 initially.
    pub fn get(&mut self, node: usize, key: u64) -> Result<u64> {
        let (page, at) = place(key);
        Ok(self.workers[node].read(page)?.data().u64_le(at))
    }

    /// Sets these keys to these values, or none of them if this fails or the process dies.
    pub fn commit(&mut self, node: usize, puts: &BTreeMap<u64, u64>) -> Result<()> {
        // All latches first, in order, to avoid deadlock between transactions.
        let pages: BTreeSet<_> = puts.keys().map(|&key| place(key).0).collect();
        let latch = |page| Ok((page, self.workers[node].write(page)?));
        let mut guards: BTreeMap<_, _> = pages.into_iter().map(latch).collect::<Result<_>>()?;
        let mut record = Vec::new();
        for (&key, value) in puts {
            let (page, at) = place(key);
            let guard = guards.get_mut(&page).expect("it was latched above");
            self.last_lsn += 1;
            guard.set_lsn(self.last_lsn);
            guard.data_mut().write(at, &value.to_le_bytes());
            let is_first = self.logged.insert(page);
            let (at, len) = if is_first { (0, DATA_BYTES) } else { (at, 8) };
            let head = [self.last_lsn, page.number(), at as u64, len as u64];
            record.extend(head.into_iter().flat_map(u64::to_le_bytes));
            guard.data().slice(at..at + len).append_to(&mut record);
        }
        let mut tail = self.log.tail.lock().expect("not poisoned");
        let head = [record.len() as u64, crc32(&record)];
        tail.extend(head.into_iter().flat_map(u64::to_le_bytes));
        tail.extend_from_slice(&record);
        drop(tail);
        let mut guards = guards.into_values().rev(); // The last one flushes the log for all.
        Ok(guards.try_for_each(WriteGuard::commit)?)
    }

    /// Writes home the changes of both nodes. The log is then no longer needed.
    pub fn checkpoint(&mut self) -> Result<()> {
        let mut workers = self.workers.iter();
        workers.try_for_each(|worker| worker.flush().map(drop))?;
        self.logged.clear();
        self.log.file.set_len(0)?;
        Ok(self.log.file.sync_all()?)
    }

    /// Replays the intact part of the log; the rest was not committed.
    fn recover(&mut self, mut log: &[u8]) -> Result<()> {
        let worker = &self.workers[0];
        while let Some(mut record) = take_record(&mut log) {
            while let Some((lsn, page, at, bytes)) = take_change(&mut record) {
                let is_whole = bytes.len() == DATA_BYTES;
                let mut guard = match worker.write(page) {
                    Err(PageError::Fix(torn)) if torn.is_damage() && is_whole => {
                        worker.restore(page)?
                    }
                    fixed => fixed?,
                };
                if guard.lsn() < lsn {
                    guard.set_lsn(lsn);
                    guard.data_mut().write(at, bytes);
                }
                guard.commit()?;
            }
        }
        // After a checkpoint only the pages know the last LSN.
        for page in 0..PAGES {
            let guard = worker.read(place(page * VALUES_PER_PAGE).0)?;
            self.last_lsn = self.last_lsn.max(guard.lsn());
        }
        self.checkpoint()
    }
}

/// The page and byte offset of a key's value.
fn place(key: u64) -> (PageId, usize) {
    let page = PageId::new(0, 2 + (key / VALUES_PER_PAGE).min(PAGES));
    (
        page.unwrap_or_default(),
        (key % VALUES_PER_PAGE) as usize * 8,
    )
}

fn take_record<'a>(log: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, sum) = (take_word(log)? as usize, take_word(log)?);
    log.split_off(..len).filter(|record| crc32(record) == sum)
}

fn take_change<'a>(record: &mut &'a [u8]) -> Option<(u64, PageId, usize, &'a [u8])> {
    let (lsn, page) = (take_word(record)?, PageId::from_number(take_word(record)?)?);
    let (at, len) = (take_word(record)? as usize, take_word(record)? as usize);
    Some((lsn, page, at, record.split_off(..len)?))
}

fn take_word(bytes: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.split_off(..8)?.try_into().ok()?))
}

fn crc32(bytes: &[u8]) -> u64 {
    let step = |crc: u32, _| (crc >> 1) ^ ((crc & 1) * 0xedb8_8320);
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), step);
    u64::from(!bytes.iter().fold(!0, byte))
}

/// Two transactions, one at each node, and a crash.
pub fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("rackweave-kv-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let mut kv = Kv::open(&folder)?;
    kv.commit(0, &BTreeMap::from([(1, 50), (KEYS - 1, 50)]))?;
    kv.commit(1, &BTreeMap::from([(1, 20), (KEYS - 1, 80)]))?;
    drop(kv); // The changes are lost with the memory of both nodes.
    let mut kv = Kv::open(&folder)?;
    println!("recovered: {} and {}", kv.get(0, 1)?, kv.get(0, KEYS - 1)?);
    drop(kv);
    Ok(fs::remove_dir_all(folder)?)
}
