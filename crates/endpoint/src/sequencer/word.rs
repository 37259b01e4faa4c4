//! The memory of a one-sided sequencer: a word of a host or a DPU.
//!
//! The node's processor only sets the word up; its NIC executes the fetch-and-adds. The sequencer
//! lives as long as the word. A node that restarts has other keys, so no request made before the
//! restart can reach a word created after it.

use super::{SequencerPlace, SetUpError};
use crate::resources::Resources;
use core::sync::atomic::Ordering;
use rackweave_base::{Memory, Qpn};
use rackweave_verbs::{Access, QpCapabilities, QpError, Verbs};
use rackweave_wire::fabric::sequencer::NUMBERS_END;

/// A word, and the queue pairs through which clients reach it.
#[derive(Debug)]
pub struct SequencerWord {
    nic: Resources,
    clients: Vec<Qpn>,
}

impl SequencerWord {
    /// A word whose first number is `first`.
    ///
    /// # Errors
    /// If `first` is above the largest number, or the NIC or the memory has no free resources.
    pub fn new(verbs: &mut dyn Verbs, memory: &Memory, first: u64) -> Result<Self, SetUpError> {
        if first >= NUMBERS_END {
            return Err(SetUpError::OutOfRange {
                what: "the first number",
                value: first,
                least: 0,
                most: NUMBERS_END - 1,
            });
        }
        let pd = verbs.create_pd();
        let access = Access::LOCAL_WRITE | Access::REMOTE_ATOMIC;
        let nic = Resources::new(verbs, memory, pd, (8, access), 1)?;
        nic.region.block.word(0).store(first, Ordering::Release);
        let clients = Vec::new();
        Ok(Self { nic, clients })
    }

    /// A queue pair for one client, to be connected to the client's own with remote atomics
    /// allowed.
    ///
    /// # Errors
    /// If the NIC has no free queue pair.
    pub fn accept(&mut self, verbs: &mut dyn Verbs) -> Result<Qpn, QpError> {
        let capabilities = QpCapabilities {
            send_max: 1,
            receive_max: 1,
            segments_max: 1,
        };
        let qpn = verbs.create_qp(self.nic.region.pd, self.nic.cq, self.nic.cq, capabilities)?;
        self.clients.push(qpn);
        Ok(qpn)
    }

    /// Removes a client. False if no client has this queue pair.
    pub fn remove(&mut self, verbs: &mut dyn Verbs, qpn: Qpn) -> bool {
        let Some(at) = self.clients.iter().position(|&client| client == qpn) else {
            return false;
        };
        self.clients.swap_remove(at);
        verbs.destroy_qp(qpn).is_ok()
    }

    /// What clients need to reach the word.
    pub fn place(&self) -> SequencerPlace {
        SequencerPlace {
            address: self.nic.region.address,
            rkey: self.nic.region.rkey,
        }
    }

    /// The next number at this moment.
    pub fn next(&self) -> u64 {
        self.nic.region.block.word(0).load(Ordering::Acquire)
    }

    /// Releases all resources; clients get errors from now on.
    pub fn close(self, verbs: &mut dyn Verbs) {
        for &qpn in &self.clients {
            let _gone = verbs.destroy_qp(qpn);
        }
        self.nic.destroy(verbs);
    }
}
