//! The sequencers' control plane: mirrors `rackweave_programs::sequencer`.
//!
//! No number is handed out twice, even if the switch loses its state: the switch hands out numbers
//! only below a limit, and the controller records each limit before the switch gets it. When the
//! switch reports that few numbers are left, one more block is entered, in the registry first.
//! After a restart of the switch a sequencer continues at the previous limit. Numbers left below it
//! are never handed out: a gap of at most a block and a half.
//!
//! The registry lives as long as the controller. A program whose numbers must continue after that
//! saves [`Controller::sequencer_reserved`] in a safe place and gives it to the next sequencer as
//! [`SequencerSpec::first`].
//!
//! A client lends its queue pair. After a restart of the switch that is put in error, so that the
//! client learns at once that its requests are lost; it requests to be attached again.

mod restart;

use crate::connect::PairAttributes;
use crate::lanes::{Connected, Wanted};
use crate::{Controller, LaneError, NameError, NodeAddress, Site};
use rackweave_base::text::Text;
use rackweave_base::{NodeId, Qpn, Rkey};
use rackweave_programs::sequencer::{
    SequencerChannel, SequencerDigest, SequencerEntry, Sequencers,
};
use rackweave_switch::table::TableError;
use rackweave_switch::transfer::{LaneId, LaneKind};
use rackweave_verbs::Access;
use rackweave_wire::fabric::sequencer::{NUMBERS_END, address_of};
use serde::{Deserialize, Serialize};

pub use rackweave_wire::fabric::sequencer::SequencerPlace;

/// A sequencer in the switch. Ids of one controller are unique.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct SequencerId(pub u32);

/// The specification of a sequencer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SequencerSpec {
    /// The first number.
    pub first: u64,
    /// Numbers that the controller records at a time, a power of two from 16 to 2^48. A restart of
    /// the switch costs up to a block and a half. When the switch has half a block left it requests
    /// more, so a request for more than that may be refused.
    pub block: u64,
}

impl Default for SequencerSpec {
    /// From zero, in blocks of 2^40: half a block lasts for minutes at any rate that the switch
    /// reaches, and there are 2^23 blocks.
    fn default() -> Self {
        Self {
            first: 0,
            block: 1 << 40,
        }
    }
}

/// Why a sequencer was not set up, or a client not attached.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum SequencerSetUpError {
    /// The switch lacks capacity.
    #[error("the switch has room for {has} {what}, all in use; raise {setting}")]
    NoRoom {
        /// The resource.
        #[serde(with = "rackweave_base::text")]
        what: Text,
        /// Its capacity.
        has: usize,
        /// The setting to raise.
        #[serde(with = "rackweave_base::text")]
        setting: Text,
    },
    /// A number of the specification is out of range.
    #[error("{what}: {number} is out of range, {range}")]
    OutOfRange {
        /// The number.
        #[serde(with = "rackweave_base::text")]
        what: Text,
        /// Its value.
        number: u64,
        /// The valid range.
        #[serde(with = "rackweave_base::text")]
        range: Text,
    },
    /// Its name is taken, or unknown.
    #[error(transparent)]
    Name(#[from] NameError),
    /// There is no such sequencer.
    #[error("there is no sequencer {}, or not any more", .0.0)]
    Unknown(SequencerId),
    /// The client could not be connected.
    #[error(transparent)]
    Lane(#[from] LaneError),
    /// A table of the switch is full.
    #[error(transparent)]
    Table(#[from] TableError),
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Made {
    id: SequencerId,
    entry: SequencerEntry,
    block: u64,
    /// The first number since the switch has started.
    first: u64,
    /// The limit: no number from here on was ever handed out.
    reserved: u64,
}

/// The controller's state of the sequencers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SequencerRegistry {
    /// By index in the switch.
    made: Vec<Option<Made>>,
    /// By channel.
    clients: Vec<Option<Connected>>,
    ids: u32,
}

impl SequencerRegistry {
    /// Forgets the last block of each. For a planted bug.
    pub fn forget_last(&mut self) {
        for made in self.made.iter_mut().flatten() {
            made.reserved -= made.block;
        }
    }

    fn place(&self, id: SequencerId) -> Option<(u16, Made)> {
        let made = (0u16..).zip(&self.made);
        made.filter_map(|(index, made)| Some((index, (*made)?)))
            .find(|(_, made)| made.id == id)
    }

    /// The lanes of its clients.
    pub fn lane_numbers(&self) -> impl Iterator<Item = LaneId> {
        self.clients.iter().flatten().map(|client| client.lane)
    }

    fn client(&self, node: NodeId, qpn: Qpn) -> Option<(u16, Connected)> {
        let clients = (0u16..).zip(&self.clients);
        clients
            .filter_map(|(number, client)| Some((number, (*client)?)))
            .find(|(_, client)| (client.node, client.node_qpn) == (node, qpn))
    }
}

/// A free index below `has`.
fn free<T>(
    places: &mut Vec<Option<T>>,
    has: usize,
    (what, setting): (&'static str, &'static str),
) -> Result<u16, SequencerSetUpError> {
    let at = places.iter().position(Option::is_none);
    let at = at.unwrap_or(places.len());
    if at >= has {
        return Err(SequencerSetUpError::NoRoom { what, has, setting });
    }
    if at == places.len() {
        places.push(None);
    }
    Ok(at as u16)
}

impl SequencerSpec {
    fn check(&self) -> Result<(), SequencerSetUpError> {
        let out = |what, number, range| {
            Err(SequencerSetUpError::OutOfRange {
                what,
                number,
                range,
            })
        };
        if !self.block.is_power_of_two() || !(16..=1 << 48).contains(&self.block) {
            let range = "a power of two from 16 to 2^48 is needed";
            return out("numbers in a block", self.block, range);
        }
        if self.first > NUMBERS_END - self.block {
            let range = "it and a block must be below 2^63";
            return out("the first number", self.first, range);
        }
        Ok(())
    }
}

impl Controller {
    /// Sets up a sequencer in the switch.
    ///
    /// # Errors
    /// If the specification is invalid or the switch lacks capacity.
    pub fn create_sequencer(
        &mut self,
        site: &mut dyn Site,
        spec: SequencerSpec,
    ) -> Result<SequencerId, SequencerSetUpError> {
        spec.check()?;
        let has = with_sequencers(site, |it| usize::from(it.config().sequencers));
        let registry = &mut self.sequencers;
        let setting = ("sequencers", "switch.sequencers");
        let index = free(&mut registry.made, has, setting)?;
        registry.ids += 1;
        let id = SequencerId(registry.ids);
        let made = Made {
            id,
            entry: SequencerEntry {
                rkey: Rkey(self.keys().next_u32()),
                reserve: spec.block / 2,
            },
            block: spec.block,
            first: spec.first,
            reserved: spec.first + spec.block,
        };
        let Made { entry, first, .. } = made;
        with_sequencers(site, |it| {
            it.set_sequencer(index, entry, first, made.reserved)
        })?;
        self.sequencers.made[usize::from(index)] = Some(made);
        Ok(id)
    }

    /// Removes a sequencer; later requests to it are refused. Clients stay attached.
    pub fn close_sequencer(&mut self, site: &mut dyn Site, id: SequencerId) {
        if let Some((index, _)) = self.sequencers.place(id) {
            self.sequencers.made[usize::from(index)] = None;
            with_sequencers(site, |it| it.remove_sequencer(index));
        }
    }

    /// The number of which, and of all above it, none was ever handed out by a sequencer; after a
    /// restart of the switch it continues here.
    pub fn sequencer_reserved(&self, id: SequencerId) -> Option<u64> {
        self.sequencers.place(id).map(|(_, made)| made.reserved)
    }

    /// All sequencers, each with the first number that it would hand out next.
    pub fn look_at_sequencers(&self, site: &mut dyn Site) -> Vec<(SequencerId, u64)> {
        let made = (0u16..).zip(&self.sequencers.made);
        let made = made.filter_map(|(index, made)| Some((index, (*made)?.id)));
        with_sequencers(site, |it| {
            let next = made.filter_map(|(index, id)| Some((id, it.numbers(index)?.0)));
            next.collect()
        })
    }

    /// Connects a client's queue pair, in any state, to the switch, and returns how the client
    /// names the sequencer. An attached one is reconnected: requests in flight on it are forgotten
    /// at both ends.
    ///
    /// # Errors
    /// If there is no such sequencer or node, or the switch lacks capacity.
    pub fn attach_sequencer(
        &mut self,
        site: &mut dyn Site,
        id: SequencerId,
        (node, qpn): (NodeId, Qpn),
        attributes: &PairAttributes,
    ) -> Result<SequencerPlace, SequencerSetUpError> {
        let (index, made) = self
            .sequencers
            .place(id)
            .ok_or(SequencerSetUpError::Unknown(id))?;
        let address = address_of_node(site, node)?;
        let wanted = Wanted {
            kind: LaneKind::Program,
            access: Access::empty(),
            mtu: attributes.mtu,
            psn: self.random_psn(),
            qpn: Some(qpn),
            reads: attributes.reads_in_flight_max,
            timeout: attributes.timeout,
        };
        let (number, linked) = match self.sequencers.client(node, qpn) {
            Some((number, client)) => {
                let linked = self.relink_lane(site, &client, address, wanted)?;
                (number, linked)
            }
            None => {
                let has = with_sequencers(site, |it| usize::from(it.config().clients));
                let setting = ("clients of sequencers", "switch.sequencer_clients");
                let number = free(&mut self.sequencers.clients, has, setting)?;
                let lane = self.lanes.take(1)?;
                match self.connect_lane(site, lane, (node, address), wanted) {
                    Ok(linked) => (number, linked),
                    Err(error) => {
                        self.lanes.give_back(lane);
                        return Err(error.into());
                    }
                }
            }
        };
        self.sequencers.clients[usize::from(number)] = Some(linked);
        let channel = SequencerChannel {
            number,
            first: wanted.psn,
        };
        with_sequencers(site, |it| it.set_channel(linked.lane, Some(channel)))?;
        Ok(SequencerPlace {
            address: address_of(index),
            rkey: made.entry.rkey,
        })
    }

    /// Removes a client's queue pair. Its node may then destroy it.
    pub fn detach_sequencer(&mut self, site: &mut dyn Site, (node, qpn): (NodeId, Qpn)) {
        if let Some((number, client)) = self.sequencers.client(node, qpn) {
            self.sequencers.clients[usize::from(number)] = None;
            forget_channel(site, client.lane);
            self.disconnect_lane(site, &client);
        }
    }

    /// Handles a report of the sequencers.
    pub(crate) fn handle_sequencer_digest(&mut self, site: &mut dyn Site, digest: SequencerDigest) {
        if self.reserve_numbers(site, digest) {
            self.grant_numbers(site, digest);
        }
    }

    /// Reserves more numbers for a sequencer that has reported that few are left. Returns whether
    /// that was necessary: then, when the new limit is saved, [`Self::grant_numbers`] gives them to
    /// the switch.
    pub fn reserve_numbers(&mut self, site: &mut dyn Site, digest: SequencerDigest) -> bool {
        let SequencerDigest::Low(index) = digest;
        let made = self.sequencers.made.get_mut(usize::from(index));
        let Some(made) = made.and_then(Option::as_mut) else {
            return false;
        };
        let Some((next, limit)) = with_sequencers(site, |it| it.numbers(index)) else {
            return false;
        };
        // The digest may be outdated; the registers have the current state.
        let is_low = limit.saturating_sub(next) < made.entry.reserve;
        let reserves = is_low && made.reserved <= NUMBERS_END - made.block;
        if reserves {
            made.reserved += made.block;
        }
        reserves
    }

    /// Gives the switch the numbers that are reserved for a sequencer.
    pub fn grant_numbers(&self, site: &mut dyn Site, digest: SequencerDigest) {
        let SequencerDigest::Low(index) = digest;
        if let Some(Some(made)) = self.sequencers.made.get(usize::from(index)) {
            with_sequencers(site, |it| it.raise_limit(index, made.reserved));
        }
    }

    /// Handles the death of a node: its clients are removed.
    pub(crate) fn sequencer_node_died(&mut self, site: &mut dyn Site, node: NodeId) {
        for number in 0..self.sequencers.clients.len() {
            let client = self.sequencers.clients[number];
            if let Some(client) = client.filter(|client| client.node == node) {
                self.sequencers.clients[number] = None;
                forget_channel(site, client.lane);
                self.disconnect_lane(site, &client);
            }
        }
    }
}

/// Removes a lane from the switch's clients.
fn forget_channel(site: &mut dyn Site, lane: LaneId) {
    let known = with_sequencers(site, |it| it.set_channel(lane, None));
    debug_assert!(known.is_ok(), "it was a client's lane");
}

/// Calls `act` with the sequencers in the switch.
fn with_sequencers<R>(site: &mut dyn Site, act: impl FnOnce(&mut Sequencers) -> R) -> R {
    let (mut act, mut result) = (Some(act), None);
    site.switch(&mut |_, switch| {
        if let Some(act) = act.take() {
            result = Some(act(&mut switch.program_mut().sequencers));
        }
    });
    result.expect("a site acts on its switch")
}

fn address_of_node(site: &dyn Site, node: NodeId) -> Result<NodeAddress, LaneError> {
    let nodes = site.nodes();
    let found = nodes.iter().find(|(id, _)| *id == node);
    found
        .map(|(_, address)| *address)
        .ok_or(LaneError::NoNode(node))
}
