//! A pool of buffers for payloads that were copied: a packet returns its buffer when dropped.

use super::PAYLOAD_MAX;
use std::sync::{Arc, Mutex};

/// A bounded pool of payload buffers, [`PAYLOAD_MAX`] bytes each. Clones share it.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Mutex<Stock>>);

#[derive(Debug)]
struct Stock {
    free: Vec<Box<[u8]>>,
    made: usize,
    limit: usize,
}

/// A payload buffer; its bytes return to the pool when it is dropped.
#[derive(Debug)]
pub struct PoolBuffer {
    pub(super) bytes: Box<[u8]>,
    pub(super) len: u32,
    pub(super) home: Option<Pool>,
}

impl Pool {
    /// A pool of at most `limit` buffers, allocated when first needed.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Mutex::new(Stock {
            free: Vec::new(),
            made: 0,
            limit,
        })))
    }

    /// A buffer of `len` bytes whose contents `fill` writes; `None` if the pool is exhausted or
    /// `fill` returns false.
    pub fn take(&self, len: usize, fill: impl FnOnce(&mut [u8]) -> bool) -> Option<PoolBuffer> {
        assert!(len <= PAYLOAD_MAX);
        let bytes = {
            let mut stock = self.0.lock().expect("no holder of this lock panics");
            match stock.free.pop() {
                Some(bytes) => bytes,
                None if stock.made < stock.limit => {
                    stock.made += 1;
                    vec![0; PAYLOAD_MAX].into_boxed_slice()
                }
                None => return None,
            }
        };
        let mut buffer = PoolBuffer {
            bytes,
            len: len as u32,
            home: Some(self.clone()),
        };
        fill(&mut buffer.bytes[..len]).then_some(buffer)
    }

    /// Maximum bytes that the pool can hold.
    pub fn bytes_max(&self) -> usize {
        self.0.lock().expect("no holder of this lock panics").limit * PAYLOAD_MAX
    }
}

impl PoolBuffer {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

impl Clone for PoolBuffer {
    /// A copy outside the pool: only fault injection and multicast of owned payloads need one.
    fn clone(&self) -> Self {
        Self {
            bytes: self.as_slice().into(),
            len: self.len,
            home: None,
        }
    }
}

impl Drop for PoolBuffer {
    fn drop(&mut self) {
        if let Some(Pool(stock)) = self.home.take() {
            let bytes = core::mem::take(&mut self.bytes);
            stock
                .lock()
                .expect("no holder of this lock panics")
                .free
                .push(bytes);
        }
    }
}
