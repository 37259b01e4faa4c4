//! The page store of a worker: fix and unfix, allocate and free, write home.

use crate::error::Fault;
use crate::handle::{self, Handled, Kind};
use crate::page_guard::{Entry, Fixed, Guard, Guarded, mode, rackweave_page_guard};
use crate::pages::{Pages, STORE, rackweave_pages};
use crate::pointer::tell;
use crate::status::Status;
use ::rackweave_rack::services::{PageError, PageWorker};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use rackweave_endpoint::page_store::{Flushed, FormatOptions, Mode};
use rackweave_wire::fabric::page::PageId;
use std::collections::HashMap;

/// One worker's way to the pages of a rack. One thread at a time.
pub struct rackweave_page_store {
    _opaque: (),
}

struct Store {
    /// When dropped, it ends its pending requests and returns to its node.
    worker: PageWorker,
    pages: Pages,
    fixed: Fixed,
    fixes: HashMap<u64, (Begun<Result<Guard, PageError>>, Entry)>,
    flushes: HashMap<u64, Begun<Result<Flushed, PageError>>>,
    tickets: u64,
}

/// A pending call, polled when the caller requests its result.
type Begun<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Handled for Store {
    type Opaque = rackweave_page_store;
    const KIND: Kind = Kind::PageStore;
}

fn page(number: u64) -> Result<PageId, Fault> {
    let page = PageId::from_number(number);
    page.ok_or_else(|| {
        Fault::new(
            Status::NotFound,
            format!("no page has the number {number:#x}"),
        )
    })
}

impl Store {
    /// Reserves the superblock for the worker: changing it would otherwise wait for a guard of the
    /// caller.
    fn superblock(&self) -> Result<Entry, Fault> {
        self.fixed.enter(page(0)?, Mode::Exclusive)
    }

    fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    fn submit_fix(&mut self, number: u64, mode: Mode) -> Result<u64, Fault> {
        let page = page(number)?;
        let entry = self.fixed.enter(page, mode)?;
        let begun = match mode {
            Mode::Shared => {
                let read = self.worker.read_async(page);
                begin(async { read.await.map(Guard::Read) })
            }
            Mode::Exclusive => {
                let write = self.worker.write_async(page);
                begin(async { write.await.map(Guard::Write) })
            }
        };
        let ticket = self.ticket();
        self.fixes.insert(ticket, (begun, entry));
        Ok(ticket)
    }

    fn take_fix(&mut self, ticket: u64) -> Result<Guarded, Fault> {
        let known = self.fixes.get_mut(&ticket);
        let (begun, _) = known.ok_or_else(|| unknown(ticket))?;
        let taken = ended(begun).ok_or(Fault::quiet(Status::Pending))?;
        let (_, entry) = self.fixes.remove(&ticket).ok_or_else(|| unknown(ticket))?;
        let guard = taken?;
        Ok(Guarded { guard, entry })
    }

    fn fix(&self, number: u64, mode: Mode, timeout_ns: u64) -> Result<Guarded, Fault> {
        let page = page(number)?;
        let entry = self.fixed.enter(page, mode)?;
        let limit = Duration::from_nanos(timeout_ns);
        let guard = match mode {
            Mode::Shared => Guard::Read(self.worker.read_within(page, limit)?),
            Mode::Exclusive => Guard::Write(self.worker.write_within(page, limit)?),
        };
        Ok(Guarded { guard, entry })
    }

    fn take_flush(&mut self, ticket: u64) -> Result<u64, Fault> {
        let begun = self.flushes.get_mut(&ticket);
        let begun = begun.ok_or_else(|| unknown(ticket))?;
        let taken = ended(begun).ok_or(Fault::quiet(Status::Pending))?;
        self.flushes.remove(&ticket);
        Ok(taken?.written)
    }
}

/// Polls the future once, since it does nothing before.
fn begin<T: Send + 'static>(call: impl Future<Output = T> + Send + 'static) -> Begun<T> {
    let mut begun: Begun<T> = Box::pin(call);
    match ended(&mut begun) {
        Some(result) => Box::pin(core::future::ready(result)),
        None => begun,
    }
}

/// The result of a call that was started; `None` while it is pending.
fn ended<T>(begun: &mut Begun<T>) -> Option<T> {
    let mut context = Context::from_waker(Waker::noop());
    match begun.as_mut().poll(&mut context) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

fn unknown(ticket: u64) -> Fault {
    let detail = format!("nothing under way has the ticket {ticket}, or it was taken");
    Fault::new(Status::NotFound, detail)
}

/// Makes a page store: a worker on a compute node. `format` or `open` comes first then, on one page
/// store of the rack `format` or on each of them `open`.
///
/// NOT_FOUND: no such node. REFUSED: it is no compute node. NO_ROOM: all its workers are taken.
///
/// # Safety
/// `store` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_page_store_create(
    pages: *const rackweave_pages,
    node: u16,
    store: *mut *mut rackweave_page_store,
) -> Status {
    let make = || {
        let pages = handle::shared::<Pages>(pages)?;
        let worker = pages.worker(pages.rack.node_id(node)?)?;
        Ok(Store {
            worker,
            pages,
            fixed: Fixed::default(),
            fixes: HashMap::new(),
            flushes: HashMap::new(),
            tickets: 0,
        })
    };
    // SAFETY: as the caller promises.
    unsafe { handle::create(store, "store", make) }
}

/// Ends a handle of a page store, after what is under way has ended: it waits for that, ten seconds
/// at most if nobody answers. It writes nothing home: see `rackweave_page_store_close`. Guards stay
/// as they are, and with the last of them the node has its worker back. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_page_store_destroy(store: *mut rackweave_page_store) -> Status {
    handle::destroy::<Store>(store)
}

/// Makes a new store, whatever was there before: all pages but its own are free. `identity` is a
/// random number by which this store is distinguished from others. No page may be fixed anywhere.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_page_store_format(
    store: *mut rackweave_page_store,
    identity: u64,
) -> Status {
    handle::on(store, |store: &mut Store| {
        let capacity = store.pages.capacity();
        let options = FormatOptions {
            store: STORE,
            capacity,
            identity,
        };
        let _entry = store.superblock()?;
        Ok(store.worker.format(options)?)
    })
}

/// Opens the store that is there. NOT_FOUND: it was never formatted. CORRUPT: it is damaged, or
/// none of ours. REFUSED: it has another format or pages of another size than the rack.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_page_store_open(store: *mut rackweave_page_store) -> Status {
    handle::on(store, |store: &mut Store| {
        let _entry = store.superblock()?;
        // Opening checks that the last page exists.
        let last = page(store.pages.capacity().saturating_sub(1))?;
        let _last = store.fixed.enter(last, Mode::Shared)?;
        store.worker.open(STORE)?;
        Ok(())
    })
}

/// Gives back pages that were taken from the store and not used, writes everything home that is
/// changed on this node, and says in the superblock that the store was closed. To be called on one
/// page store of the rack, when the others have been flushed and destroyed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_page_store_close(store: *mut rackweave_page_store) -> Status {
    handle::on(store, |store: &mut Store| {
        let _entry = store.superblock()?;
        Ok(store.worker.close()?)
    })
}

/// A page for the caller alone, its bytes zero. NO_ROOM: all are in use. REFUSED: no store is open.
/// Otherwise as for `rackweave_page_store_fix` and `_flush`, of the map of pages in use.
///
/// # Safety
/// `number` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_page_store_allocate(
    store: *mut rackweave_page_store,
    number: *mut u64,
) -> Status {
    let allocate = |store: &mut Store| Ok(store.worker.allocate()?.number());
    // SAFETY: as the caller promises.
    unsafe { handle::get(store, number, "number", allocate) }
}

/// Gives a page back; its content is gone. REFUSED: it is free already. CONFLICT: this page store
/// has fixed it.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_page_store_free(
    store: *mut rackweave_page_store,
    number: u64,
) -> Status {
    handle::on(store, |store: &mut Store| {
        let page = page(number)?;
        let _entry = store.fixed.enter(page, Mode::Exclusive)?;
        Ok(store.worker.free(page)?)
    })
}

/// Fixes a page, waiting at most `timeout_ns` nanoseconds, and drives the rack meanwhile. `mode` is
/// a `rackweave_page_mode`.
///
/// NOT_FOUND: beyond the end of the store. CONFLICT: this page store has fixed it already, not both
/// times shared. REFUSED: the store is not open to this node. CLOSED: this node was declared dead,
/// and what only it had is lost; destroy this page store and create another one. LOST, CORRUPT,
/// NO_ROOM, SYSTEM, GONE, TIMED_OUT: as they say.
///
/// # Safety
/// `guard` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_page_store_fix(
    store: *mut rackweave_page_store,
    number: u64,
    mode: u32,
    timeout_ns: u64,
    guard: *mut *mut rackweave_page_guard,
) -> Status {
    let fix = |store: &mut Store| store.fix(number, self::mode(mode)?, timeout_ns);
    // SAFETY: as the caller promises.
    unsafe { handle::create(guard, "guard", || handle::with(store, fix)) }
}

/// Begins to fix a page; `rackweave_page_store_poll` gets on with it, and
/// `rackweave_page_store_take_fix` or `_abandon_fix` ends it. Failures as for
/// `rackweave_page_store_fix`, when it is taken, with a time limit of ten seconds; CONFLICT at
/// once.
///
/// # Safety
/// `ticket` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_page_store_submit_fix(
    store: *mut rackweave_page_store,
    number: u64,
    mode: u32,
    ticket: *mut u64,
) -> Status {
    let submit = |store: &mut Store| store.submit_fix(number, self::mode(mode)?);
    // SAFETY: as the caller promises.
    unsafe { handle::get(store, ticket, "ticket", submit) }
}

/// What came of a fix. PENDING: it is under way. NOT_FOUND: also of an unknown ticket.
///
/// # Safety
/// `guard` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_page_store_take_fix(
    store: *mut rackweave_page_store,
    ticket: u64,
    guard: *mut *mut rackweave_page_guard,
) -> Status {
    let take = |store: &mut Store| store.take_fix(ticket);
    // SAFETY: as the caller promises.
    unsafe { handle::create(guard, "guard", || handle::with(store, take)) }
}

/// Nobody will take what comes of a fix.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_page_store_abandon_fix(
    store: *mut rackweave_page_store,
    ticket: u64,
) -> Status {
    handle::on(store, |store: &mut Store| {
        let abandoned = store.fixes.remove(&ticket);
        abandoned.map(drop).ok_or_else(|| unknown(ticket))
    })
}

/// Begins to bring a page to this node. What comes of it is not reported.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_page_store_prefetch(
    store: *mut rackweave_page_store,
    number: u64,
) -> Status {
    handle::on(store, |store: &mut Store| {
        store.worker.prefetch(page(number)?);
        Ok(())
    })
}

/// Gets on with what is under way, once. OK if anything happened, else PENDING.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_page_store_poll(store: *mut rackweave_page_store) -> Status {
    handle::on(store, |store: &mut Store| {
        Fault::unless(store.worker.poll())
    })
}

/// Waits until nothing is under way and the latches of all destroyed guards have been given back,
/// ten seconds at most. To be called before a thread rests. GONE: the directory does not answer.
/// TIMED_OUT: the engine's log is behind, or a fix that was submitted waits for somebody's latch.
/// In both cases latches are given back when a page store of the node is polled.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_page_store_settle(store: *mut rackweave_page_store) -> Status {
    handle::on(store, |store: &mut Store| Ok(store.worker.settle()?))
}

/// Writes home all pages of this node that are changed and unfixed, and waits for that. `written`,
/// how many, may be NULL.
///
/// CONFLICT: this page store has fixed one of them exclusively. TIMED_OUT: somebody else has, for
/// five seconds. LOST, NO_ROOM, SYSTEM, REFUSED: of the first that could not be written. In all
/// these cases the others were written. SYSTEM, GONE: also if storage does not confirm that they
/// are durable. GONE: nobody answers. CLOSED: as for `rackweave_page_store_fix`.
///
/// # Safety
/// `written` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_page_store_flush(
    store: *mut rackweave_page_store,
    written: *mut u64,
) -> Status {
    handle::on(store, |store: &mut Store| {
        let flushed = store.worker.flush()?;
        // SAFETY: as the caller promises.
        unsafe { tell(written, "written", flushed.written) }
    })
}

/// Begins what [`rackweave_page_store_flush`] does.
///
/// # Safety
/// `ticket` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_page_store_submit_flush(
    store: *mut rackweave_page_store,
    ticket: *mut u64,
) -> Status {
    let submit = |store: &mut Store| {
        let flush = begin(store.worker.flush_async());
        let ticket = store.ticket();
        store.flushes.insert(ticket, flush);
        Ok(ticket)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::get(store, ticket, "ticket", submit) }
}

/// What came of a flush: how many pages were written. PENDING: it is under way.
///
/// # Safety
/// `written` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_page_store_take_flush(
    store: *mut rackweave_page_store,
    ticket: u64,
    written: *mut u64,
) -> Status {
    let take = |store: &mut Store| store.take_flush(ticket);
    // SAFETY: as the caller promises.
    unsafe { handle::get(store, written, "written", take) }
}
