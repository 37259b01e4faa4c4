//! Packet sequence numbers in readable form: a letter for each row of requests, and the number of
//! packets after its first one.
//!
//! A row is what one queue pair sends to another. Its responses have the numbers of the requests
//! that they answer, so they get the same letter.

use rackweave_base::{Psn, Qpn};
use rackweave_wire::{Extension, Headers, Opcode};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// The row of a packet, and its number there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Number {
    /// The row, counted from zero in the order of appearance.
    pub row: usize,
    /// Packets after the first one of the row.
    pub offset: u32,
}

impl core::fmt::Display for Number {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let letter = char::from(b'A' + u8::try_from(self.row).expect("few rows"));
        let text = format!("{letter}+{}", self.offset);
        f.pad(&text)
    }
}

/// The rows seen so far.
#[derive(Debug, Default)]
pub struct Rows {
    rows: Vec<Row>,
    /// By target of the requests.
    by_target: BTreeMap<(Ipv4Addr, Qpn), usize>,
}

#[derive(Debug)]
struct Row {
    from: Ipv4Addr,
    to: Ipv4Addr,
    first: Psn,
    /// Numbers that requests took so far, including those of READ responses.
    taken: u32,
}

impl Rows {
    /// The number of a packet. Requests must come before their responses.
    pub fn number(&mut self, headers: &Headers, mtu: u32) -> Number {
        let (ip, psn) = (&headers.ipv4, headers.bth.psn);
        if is_response(headers.bth.opcode) {
            let answers = |row: &Row| {
                row.from == ip.target
                    && row.to == ip.source
                    && psn.distance_from(row.first) < row.taken
            };
            let row = self.rows.iter().position(answers);
            let row = row.unwrap_or_else(|| panic!("no request for {headers}"));
            let offset = psn.distance_from(self.rows[row].first);
            return Number { row, offset };
        }
        let next = self.rows.len();
        let target = (ip.target, headers.bth.target_qp);
        let row = *self.by_target.entry(target).or_insert(next);
        if row == next {
            self.rows.push(Row {
                from: ip.source,
                to: ip.target,
                first: psn,
                taken: 0,
            });
        }
        let known = &mut self.rows[row];
        let offset = psn.distance_from(known.first);
        let takes = match headers.extension {
            Extension::Reth(reth) if headers.bth.opcode == Opcode::ReadRequest => {
                reth.length.div_ceil(mtu).max(1)
            }
            _ => 1,
        };
        known.taken = known.taken.max(offset + takes);
        Number { row, offset }
    }
}

/// Whether a packet answers a request.
pub fn is_response(opcode: Opcode) -> bool {
    opcode.is_read_response() || matches!(opcode, Opcode::Acknowledge | Opcode::AtomicAcknowledge)
}
