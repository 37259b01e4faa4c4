//! Leases of a node: pages that it may read without asking the directory
//! ([`rackweave_wire::fabric::page::control`]).
//!
//! A *token* is stored in the page's lease word before the lease is requested, and beside the page
//! when it has been granted. The switch revokes the lease by a zero in the word. As long as the
//! word is the token, no other node has changed the page. The switch cannot reach a node that was
//! declared dead by mistake, so leases also have a time limit.

use super::Pool;
use super::table::Meta;
use rackweave_base::Instant;
use rackweave_wire::fabric::page::PageId;
use rackweave_wire::fabric::page::control::LEASE;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bits of a token or of the validity below the number of the directory.
const BELOW: u32 = 48;
const MASK: u64 = (1 << BELOW) - 1;

/// State of a pool's leases.
#[derive(Debug, Default)]
pub(super) struct Leases {
    /// Number of tokens so far.
    tokens: AtomicU64,
    /// The directory of the last lease (bits 48 to 63), and the microsecond until which its leases
    /// may be used.
    valid: AtomicU64,
}

/// A request for a lease.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct LeaseRequest {
    token: u64,
    sent: Instant,
}

impl Pool {
    fn lease_word(&self, page: PageId) -> &AtomicU64 {
        self.states.word(self.layout.lease_at(page) as usize)
    }

    /// Prepares a request for a lease that is about to be sent to the directory that was rebuilt
    /// `beginning` times. `None` if no leases are wanted.
    pub(in super::super) fn ask_lease(
        &self,
        page: PageId,
        beginning: u64,
        now: Instant,
    ) -> Option<LeaseRequest> {
        let directory = u16::try_from(beginning).ok();
        let directory = u64::from(directory.filter(|_| self.config.leases)?) << BELOW;
        let count = self.leases.tokens.fetch_add(1, Ordering::Relaxed) + 1;
        let token = directory | count & MASK;
        // Stored before the request is sent: a revocation that arrives before the answer must
        // invalidate the lease.
        self.lease_word(page).store(token, Ordering::SeqCst);
        Some(LeaseRequest { token, sent: now })
    }

    /// Records that a lease was granted on the page in a buffer frame, which the caller has
    /// latched, in the version that is there.
    pub(in super::super) fn set_lease(&self, meta: &Meta, request: LeaseRequest) {
        let until = (request.sent + LEASE).as_nanos() / 1000;
        let valid = request.token & !MASK | until & MASK;
        meta.lease.store(request.token, Ordering::Release);
        // All threads of the node read it.
        if self.leases.valid.load(Ordering::Acquire) < valid {
            self.leases.valid.fetch_max(valid, Ordering::AcqRel);
        }
    }

    /// Whether the page in a buffer frame, which the caller has latched, is the newest version, as
    /// a lease shows. `now` returns the time.
    #[inline]
    pub(in super::super) fn is_leased(
        &self,
        meta: &Meta,
        page: PageId,
        now: impl FnOnce() -> Instant,
    ) -> bool {
        let token = meta.lease.load(Ordering::Acquire);
        if token == 0 || self.lease_word(page).load(Ordering::Acquire) != token {
            return false;
        }
        // The lease must have been valid when the word was read, so the time is read after it.
        let micros = now().as_nanos() / 1000;
        let valid = self.leases.valid.load(Ordering::Acquire);
        valid >> BELOW == token >> BELOW && micros < valid & MASK
    }
}
