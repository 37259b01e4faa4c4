//! Handles: identifiers of objects, not their addresses.
//!
//! A handle is a pointer in C, but is never dereferenced: it encodes a slot of the table, the
//! generation of that slot, and the kind of object. So a handle of another kind, a destroyed
//! handle, and memory that never was a handle are all detected and refused. A slot is taken by one
//! call at a time: a second thread gets BUSY.
//!
//! Objects hold their parent (`Arc`), so handles may be destroyed in any order.

use crate::error::{Fault, call};
use crate::pointer::give;
use crate::status::Status;
use core::any::Any;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The kind of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    Rack = 1,
    Region,
    Flow,
    FlowProducer,
    FlowConsumer,
    Pages,
    PageStore,
    PageGuard,
    Index,
    IndexClient,
    Sequencer,
    SequencerClient,
    Listener,
    Connection,
    Sender,
    Receiver,
    Catalogue,
    ColumnServer,
    ColumnReader,
    Column,
}

const NAMES: [&str; 20] = [
    "rack",
    "region",
    "flow",
    "flow_producer",
    "flow_consumer",
    "pages",
    "page_store",
    "page_guard",
    "index",
    "index_client",
    "sequencer",
    "sequencer_client",
    "listener",
    "connection",
    "sender",
    "receiver",
    "catalogue",
    "column_server",
    "column_reader",
    "column",
];

/// An object behind a handle.
pub(crate) trait Handled: Send + 'static {
    /// Its type in C.
    type Opaque;
    /// Its kind.
    const KIND: Kind;
    /// Whether several threads may use it at a time: each call takes it only for a moment, to copy
    /// it.
    const IS_SHARED: bool = false;
}

// A handle, from the lowest bit: three bits that no address of an allocation has, the kind, the
// slot, the generation.
const MARK: u64 = 0b101;
const KIND_SHIFT: u32 = 3;
const KIND_BITS: u32 = 5;
const PLACE_SHIFT: u32 = KIND_SHIFT + KIND_BITS;
const GENERATION_SHIFT: u32 = 32;
const _: () = assert!(size_of::<usize>() == 8, "handles have 64 bits");

const CHUNK: usize = 1024;
const CHUNKS: usize = 1024;

// The state word of a slot: the generation, and flags below it.
const LIVE: u64 = 1;
const TAKEN: u64 = 2;
const BROKEN: u64 = 4;

#[derive(Default)]
struct Slot {
    word: AtomicU64,
    object: UnsafeCell<Option<Box<dyn Any + Send>>>,
}

// SAFETY: the object is accessed only by the thread that has set TAKEN in the word, or that has
// taken the slot from the free list; and it is Send.
unsafe impl Sync for Slot {}

struct Table {
    chunks: [OnceLock<Box<[Slot]>>; CHUNKS],
    free: Mutex<Free>,
}

/// Free slots, the longest free first.
struct Free {
    places: VecDeque<u32>,
    untouched: u32,
}

static TABLE: Table = Table {
    chunks: [const { OnceLock::new() }; CHUNKS],
    free: Mutex::new(Free {
        places: VecDeque::new(),
        untouched: 0,
    }),
};

impl Table {
    fn place(&self, at: u32) -> Option<&Slot> {
        let at = at as usize;
        self.chunks.get(at / CHUNK)?.get()?.get(at % CHUNK)
    }

    fn free(&self) -> Option<(u32, &Slot)> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let at = match free.places.pop_front() {
            Some(at) => at,
            None => {
                let at = free.untouched;
                let chunk = self.chunks.get(at as usize / CHUNK)?;
                chunk.get_or_init(|| (0..CHUNK).map(|_| Slot::default()).collect());
                free.untouched += 1;
                at
            }
        };
        Some((at, self.place(at)?))
    }

    fn give_back(&self, at: u32) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.places.push_back(at);
    }
}

/// Stores an object and returns its handle.
pub(crate) fn insert<T: Handled>(object: T) -> Result<*mut T::Opaque, Fault> {
    let Some((at, place)) = TABLE.free() else {
        let detail = format!("there are {} handles already", CHUNK * CHUNKS);
        return Err(Fault::new(Status::NoRoom, detail));
    };
    let generation = place.word.load(Ordering::Relaxed) >> GENERATION_SHIFT;
    // SAFETY: the slot came from the free list, so no other thread has it; its word is not LIVE, so
    // no handle leads to it.
    unsafe { *place.object.get() = Some(Box::new(object)) };
    let word = generation << GENERATION_SHIFT | LIVE;
    place.word.store(word, Ordering::Release);
    let kind = (T::KIND as u64) << KIND_SHIFT;
    let number = generation << GENERATION_SHIFT | u64::from(at) << PLACE_SHIFT | kind | MARK;
    Ok(core::ptr::without_provenance_mut(number as usize))
}

/// A slot that is taken until this is dropped.
struct Taken {
    at: u32,
    place: &'static Slot,
    /// The word that is stored in the slot on drop.
    word: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let broken = if std::thread::panicking() { BROKEN } else { 0 };
        let word = self.word | broken;
        self.place.word.store(word, Ordering::Release);
    }
}

fn bad(name: &str, what: &str) -> Fault {
    Fault::new(
        Status::BadHandle,
        format!("a handle of a rackweave_{name} is needed; this {what}"),
    )
}

/// Takes the slot of a handle; if the object is shared, waits for another call. A broken one only
/// if `broken`.
fn take_place<T: Handled>(handle: *const T::Opaque, broken: bool) -> Result<Taken, Fault> {
    let name = NAMES[T::KIND as usize - 1];
    if handle.is_null() {
        let detail = format!("the handle of a rackweave_{name} is NULL");
        return Err(Fault::new(Status::NullPointer, detail));
    }
    let number = handle.addr() as u64;
    let kind = (number >> KIND_SHIFT) & ((1 << KIND_BITS) - 1);
    let other = (kind as usize).checked_sub(1).and_then(|at| NAMES.get(at));
    let (true, Some(other)) = (number & ((1 << KIND_SHIFT) - 1) == MARK, other) else {
        return Err(bad(name, "is none at all"));
    };
    if kind != T::KIND as u64 {
        return Err(bad(name, &format!("is one of a rackweave_{other}")));
    }
    let at = (number as u32) >> PLACE_SHIFT;
    let place = TABLE.place(at);
    let place = place.ok_or_else(|| bad(name, "is none at all"))?;
    let generation = number >> GENERATION_SHIFT;
    let mut rounds = 0u32;
    loop {
        let word = place.word.load(Ordering::Relaxed);
        if word >> GENERATION_SHIFT != generation || word & LIVE == 0 {
            return Err(bad(name, "was destroyed"));
        }
        if word & BROKEN != 0 && !broken {
            let detail = "an earlier call with this handle failed inside; destroy it";
            return Err(Fault::new(Status::Internal, detail));
        }
        if word & TAKEN != 0 {
            if !T::IS_SHARED {
                let detail = format!("another thread is in a call with this rackweave_{name}");
                return Err(Fault::new(Status::Busy, detail));
            }
            rounds += 1;
            match rounds {
                ..64 => core::hint::spin_loop(),
                _ => std::thread::yield_now(),
            }
            continue;
        }
        let taken =
            place
                .word
                .compare_exchange(word, word | TAKEN, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_ok() {
            return Ok(Taken { at, place, word });
        }
    }
}

impl Taken {
    fn object<T: Handled>(&mut self) -> Result<&mut T, Fault> {
        // SAFETY: this value has set TAKEN in the word; no other thread accesses the object until
        // this is dropped, and the reference ends before.
        let object = unsafe { &mut *self.place.object.get() };
        let object = object.as_mut().and_then(|object| object.downcast_mut());
        object.ok_or_else(|| bad(NAMES[T::KIND as usize - 1], "was changed"))
    }

    /// Takes the object out and invalidates the handle.
    fn remove(mut self) -> Option<Box<dyn Any + Send>> {
        // SAFETY: as in `object`.
        let object = unsafe { (*self.place.object.get()).take() };
        let generation = (self.word >> GENERATION_SHIFT) + 1;
        // Without LIVE no handle leads to this slot any more.
        self.word = (generation & u64::from(u32::MAX)) << GENERATION_SHIFT;
        let at = self.at;
        drop(self);
        // A slot whose generations are used up is never reused.
        if generation < 1 << 32 {
            TABLE.give_back(at);
        }
        object
    }
}

/// Calls `act` with an object that is for one thread at a time.
pub(crate) fn with<T: Handled, R>(
    handle: *const T::Opaque,
    act: impl FnOnce(&mut T) -> Result<R, Fault>,
) -> Result<R, Fault> {
    act(take_place::<T>(handle, false)?.object()?)
}

/// A copy of a shared object.
pub(crate) fn shared<T: Handled + Clone>(handle: *const T::Opaque) -> Result<T, Fault> {
    const { assert!(T::IS_SHARED, "threads share this kind of object") };
    take_place::<T>(handle, false)?.object::<T>().cloned()
}

/// Invalidates a handle; the caller drops its object. Calls that use a copy of a shared object
/// continue.
pub(crate) fn remove<T: Handled>(handle: *const T::Opaque) -> Result<T, Fault> {
    let taken = take_place::<T>(handle, true)?;
    let object = taken.remove().and_then(|object| object.downcast().ok());
    let object: Box<T> = object.ok_or_else(|| bad(NAMES[T::KIND as usize - 1], "was changed"))?;
    Ok(*object)
}

/// A call that acts on an object that is for one thread at a time.
pub(crate) fn on<T: Handled>(
    handle: *const T::Opaque,
    act: impl FnOnce(&mut T) -> Result<(), Fault>,
) -> Status {
    call(|| with(handle, act))
}

/// A call that writes to `out` the result of `act` on an object.
///
/// # Safety
/// As for [`give`].
pub(crate) unsafe fn get<T: Handled, R>(
    handle: *const T::Opaque,
    out: *mut R,
    name: &str,
    act: impl FnOnce(&mut T) -> Result<R, Fault>,
) -> Status {
    // SAFETY: as the caller promises.
    unsafe { give(out, name, || with(handle, act)) }
}

/// A call that makes an object and writes its handle to `out`.
///
/// # Safety
/// As for [`give`].
pub(crate) unsafe fn create<T: Handled>(
    out: *mut *mut T::Opaque,
    name: &str,
    make: impl FnOnce() -> Result<T, Fault>,
) -> Status {
    // SAFETY: as the caller promises.
    unsafe { give(out, name, || insert(make()?)) }
}

/// A call that invalidates a handle and drops its object. NULL is allowed.
pub(crate) fn destroy<T: Handled>(handle: *const T::Opaque) -> Status {
    call(|| match handle.is_null() {
        true => Ok(()),
        false => remove::<T>(handle).map(drop),
    })
}
