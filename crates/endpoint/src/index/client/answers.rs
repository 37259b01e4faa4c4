//! Handling of replies to pending operations.

use super::link::Link;
use super::operations::{Kind, Operations, Pending, State};
use super::parts::joined;
use crate::btree::Direction;
use crate::index::map::{EndpointId, PartitionMap};
use crate::index::message::{self, Outcome, Page};
use crate::index::op::{Access, Answer, IndexError, Value};
use crate::index::reader::Found;
use crate::rpc::{RpcError, Status};
use rackweave_base::{Duration, Instant};

impl Operations {
    /// Pauses an operation before the next attempt, or gives it up.
    fn pause(&mut self, now: Instant, slot: u32) {
        self.statistics.busy += 1;
        let (first, longest) = (self.config.busy_wait, self.config.busy_wait_max);
        let tries_max = self.config.tries_max;
        let pending = self.get(slot);
        pending.tries += 1;
        let tries = pending.tries;
        if tries > tries_max {
            return self.end(slot, Err(IndexError::Unsettled { tries }));
        }
        pending.state = State::Paused;
        let doubled = first * (1 << (tries - 1).min(20));
        let wait = doubled.min(longest).max(Duration::from_nanos(1));
        self.paused.set(slot, now + wait);
    }

    /// Handles a reply that the keys are not where the map says.
    fn moved(&mut self, now: Instant, slot: u32, endpoint: EndpointId, version: Option<u64>) {
        self.statistics.moved += 1;
        if version.is_some_and(|version| version <= self.map.version()) {
            // The endpoint's map is outdated, or the range is between two owners.
            return self.pause(now, slot);
        }
        self.get(slot).state = State::WantsMap;
        self.mapless.push(slot);
        self.ask.get_or_insert(endpoint);
    }

    /// Requests the map from an endpoint, if one is needed.
    pub fn fetch_map(&mut self, links: &mut [Option<Link>]) {
        let Some(from) = self.ask.filter(|_| !self.asked) else {
            return;
        };
        let reachable = |link: &&mut Link| !link.is_broken();
        let link = links[from.index()].as_mut().filter(reachable);
        match link {
            Some(link) => self.asked = link.ask_for_map(),
            None => self.no_map(),
        }
    }

    /// No endpoint will send a map: operations that wait for one try again without it.
    pub fn no_map(&mut self) {
        (self.ask, self.asked) = (None, false);
        for slot in core::mem::take(&mut self.mapless) {
            self.again(slot);
        }
    }

    /// Handles the reply to the map request.
    pub fn map_came(&mut self, now: Instant, result: Result<&[u8], RpcError>) {
        self.statistics.maps_fetched += 1;
        let bytes = result.ok().and_then(message::reply);
        let map = bytes.and_then(|(_, bytes)| PartitionMap::decode(bytes).ok());
        let newer = |map: &PartitionMap| {
            map.version() > self.map.version() && map.endpoints() == self.map.endpoints()
        };
        let Some(map) = map.filter(newer) else {
            (self.ask, self.asked) = (None, false);
            for slot in core::mem::take(&mut self.mapless) {
                self.pause(now, slot);
            }
            return;
        };
        self.statistics.maps_newer += 1;
        self.map = map;
        self.no_map();
    }

    /// Handles the reply to an operation's request.
    pub fn answered(
        &mut self,
        now: Instant,
        slot: u32,
        endpoint: EndpointId,
        result: Result<&[u8], RpcError>,
    ) {
        let bytes = match result {
            Ok(bytes) => bytes,
            Err(RpcError::Refused(status)) => {
                let error = match status {
                    Status::REPLY_TOO_LARGE => IndexError::ValueTooLarge(endpoint),
                    _ => IndexError::Refused(endpoint),
                };
                return self.end(slot, Err(error));
            }
            Err(_) => return self.lost(slot, endpoint),
        };
        let malformed = Err(IndexError::Malformed(endpoint));
        let Some((outcome, rest)) = message::reply(bytes) else {
            return self.end(slot, malformed);
        };
        let kind = self.get(slot).kind;
        match (outcome, kind) {
            (Outcome::Done, Kind::Get) => {
                let value = Some(Value::from(rest));
                self.end(slot, Ok(Answer::Value(value)));
            }
            (Outcome::Absent, Kind::Get) => self.end(slot, Ok(Answer::Value(None))),
            (Outcome::Done, Kind::Scan(direction)) => match Page::decode(rest) {
                Some(page) => self.page(slot, endpoint, direction, &page),
                None => self.end(slot, malformed),
            },
            (Outcome::Done | Outcome::Absent, kind) if kind.is_write() => {
                self.end(slot, Ok(Answer::Found(outcome == Outcome::Done)));
            }
            (Outcome::Moved, _) => {
                let version = rest.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
                self.moved(now, slot, endpoint, version);
            }
            (Outcome::Busy, _) => self.pause(now, slot),
            (Outcome::Full, _) => self.end(slot, Err(IndexError::Full(endpoint))),
            (Outcome::ValueTooLarge, _) => {
                self.end(slot, Err(IndexError::ValueTooLarge(endpoint)));
            }
            (Outcome::Corrupt, _) => self.end(slot, Err(IndexError::Corrupt(endpoint))),
            _ => self.end(slot, malformed),
        }
    }

    /// Handles a page of a scan.
    fn page(&mut self, slot: u32, endpoint: EndpointId, direction: Direction, page: &Page<'_>) {
        let pending = self.get(slot);
        let range = pending.key..=pending.last;
        for (key, value) in page.entries.iter() {
            let last = pending.entries.last().map(|&(last, _)| last);
            let ordered = last.is_none_or(|last| match direction {
                Direction::Forward => last < key,
                Direction::Backward => key < last,
            });
            if !ordered || !range.contains(&key) || pending.limit == 0 {
                return self.end(slot, Err(IndexError::Malformed(endpoint)));
            }
            pending.limit -= 1;
            pending.entries.push((key, Value::from(value)));
        }
        let next = page.next.filter(|next| range.contains(next));
        self.scan_on(slot, direction, next);
    }

    /// Continues a scan at `next`, or ends it.
    fn scan_on(&mut self, slot: u32, direction: Direction, next: Option<u64>) {
        let pending = self.get(slot);
        let Some(next) = next.filter(|_| pending.limit > 0) else {
            let entries = core::mem::take(&mut pending.entries);
            return self.end(slot, Ok(Answer::Entries(entries)));
        };
        match direction {
            Direction::Forward => pending.key = next,
            Direction::Backward => pending.last = next,
        }
        pending.tries = 0;
        self.again(slot);
    }

    /// Handles the result of READs for a part of an operation.
    pub fn part_found(
        &mut self,
        now: Instant,
        (slot, part): (u32, u16),
        endpoint: EndpointId,
        found: Found,
    ) {
        let pending = self.pending[slot as usize].as_mut();
        let reading = |pending: &&mut Pending| pending.state == State::Reading(endpoint);
        let Some(pending) = pending.filter(reading) else {
            return;
        };
        if pending.parts.len() > 1 {
            pending.parts[usize::from(part)] = Some(found);
            // Wait for all parts, so that none arrives for the next operation in this slot.
            if pending.parts.iter().all(Option::is_some) {
                let parts = core::mem::take(&mut pending.parts);
                let limit = pending.limit;
                let whole = joined(parts.into_iter().flatten(), limit);
                self.found(now, slot, endpoint, whole);
            }
            return;
        }
        self.found(now, slot, endpoint, found);
    }

    fn found(&mut self, now: Instant, slot: u32, endpoint: EndpointId, found: Found) {
        match found {
            Found::Value(value) => self.end(slot, Ok(Answer::Value(value))),
            Found::Entries(entries, beyond) => {
                let pending = self.get(slot);
                let Kind::Scan(direction) = pending.kind else {
                    return;
                };
                pending.limit -= (entries.len() as u32).min(pending.limit);
                pending.entries.extend(entries);
                let range = pending.key..=pending.last;
                let next = beyond.filter(|next| range.contains(next));
                self.scan_on(slot, direction, next);
            }
            Found::Moved => self.moved(now, slot, endpoint, None),
            Found::GivenUp => {
                self.statistics.fallbacks += 1;
                self.get(slot).access = Access::Rpc;
                self.again(slot);
            }
            Found::Gone => self.end(slot, Err(IndexError::Gone(endpoint))),
            Found::Corrupt => self.end(slot, Err(IndexError::Corrupt(endpoint))),
        }
    }
}
