//! One call to each system, which needs the switch (messages: only between nodes without shared
//! memory) and verifies what it gets.

use crate::interrupt::Interrupt;
use crate::outcome::CliError;
use crate::patience::Patience;
use crate::perf::messaging::rig::{ConnectionEnd, Rig};
use crate::programs::RealRack;
use rackweave_base::NodeId;
use rackweave_endpoint::flow::{Consumer, Producer, Taken};
use rackweave_endpoint::index::Access;
use rackweave_endpoint::messaging::{Arrived, MessagingConfig};
use rackweave_rack::services::{
    IndexConnection, IndexOptions, IndexService, PageOptions, PageService, PageWorker,
    SequencerClient, SequencerService,
};
use rackweave_rack::{Flow, IndexNetworkSpec, Node};
use rackweave_wire::fabric::page::PageId;
use std::time::{Duration, Instant};

/// A call.
pub type Call<'a> = Box<dyn FnMut() -> Result<(), CliError> + Send + 'a>;

/// Longest time of a call. Those that have limits of their own have shorter ones.
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// Records of the index.
const RECORDS: u64 = 1000;

/// Bytes of an item and of a message.
const ITEM_BYTES: usize = 64;

/// One of each system, set up by this process.
pub struct Systems<'a> {
    rack: &'a RealRack,
    nodes: [NodeId; 2],
    _pages: PageService,
    workers: [PageWorker; 2],
    page: PageId,
    index: IndexService,
    sequencer: SequencerService,
    flow: Flow,
}

/// Whether a call got what it should.
fn expect(what: &str, found: u64, expected: u64) -> Result<(), CliError> {
    match found == expected {
        true => Ok(()),
        false => Err(CliError::run(format!(
            "{what} is {found} instead of {expected}"
        ))),
    }
}

/// Waits for something that must come within [`CALL_LIMIT`].
fn wait<R>(
    node: &Node,
    mut poll: impl FnMut() -> Result<Option<R>, CliError>,
) -> Result<R, CliError> {
    let deadline = Instant::now() + CALL_LIMIT;
    let mut patience = Patience::new(node);
    loop {
        if let Some(found) = poll()? {
            return Ok(found);
        }
        if Instant::now() > deadline {
            let limit = CALL_LIMIT.as_secs();
            return Err(CliError::run(format!("nothing arrived within {limit} s")));
        }
        patience.wait(false);
    }
}

impl<'a> Systems<'a> {
    /// Sets them up between the first two of `nodes`.
    ///
    /// # Errors
    /// If the rack has no capacity for one of them.
    pub fn new(rack: &'a RealRack, nodes: &[NodeId]) -> Result<Self, CliError> {
        let nodes = [nodes[0], nodes[1]];
        let pages = PageService::new(rack, &PageOptions::default())?;
        let workers = [pages.worker(nodes[0])?, pages.worker(nodes[1])?];
        let options = IndexOptions {
            keys: RECORDS,
            network: Some(IndexNetworkSpec::default()),
            node_bytes: 512,
            ..IndexOptions::default()
        };
        let index = IndexService::new(rack, &options)?;
        index.load((0..RECORDS).map(|key| (key, key.to_le_bytes())))?;
        index.load_network(CALL_LIMIT)?;
        let flow = rack.flow(&[nodes[0]], &[nodes[1]]);
        Ok(Self {
            rack,
            nodes,
            page: workers[0].allocate()?,
            _pages: pages,
            workers,
            index,
            sequencer: SequencerService::new(rack, 0)?,
            flow: flow.item_bytes(ITEM_BYTES as u32).build()?,
        })
    }

    /// A call to each of them.
    ///
    /// # Errors
    /// If a connection fails.
    pub fn calls(&self, interrupt: &Interrupt) -> Result<Vec<(&'static str, Call<'_>)>, CliError> {
        let [first, second] = self.nodes;
        let index = self.index.connect(first, Access::InNetwork)?;
        let sequencer = self.sequencer.connect(first)?;
        let ends = (self.flow.take_producer(0)?, self.flow.take_consumer(0)?);
        let node = self.rack.node_at(second);
        let config = MessagingConfig::default();
        let rig = Rig::new(self.rack, self.nodes, &config, interrupt)?;
        Ok(vec![
            ("pages", pages(&self.workers, self.page)),
            ("index", lookups(index)),
            ("sequencer", numbers(sequencer)),
            ("flow", items(ends, node)),
            ("messages", messages(rig.storage, rig.compute)),
        ])
    }
}

impl Drop for Systems<'_> {
    fn drop(&mut self) {
        // A page that cannot be freed now is leaked, as after the death of this process.
        let _leaked = self.workers[0].free(self.page);
    }
}

/// One node changes a page, and the other one reads it.
fn pages([writer, reader]: &[PageWorker; 2], page: PageId) -> Call<'_> {
    let mut last = 0u64;
    Box::new(move || {
        last += 1;
        writer.change(page, |bytes| {
            bytes[..8].copy_from_slice(&last.to_le_bytes())
        })?;
        let found = reader.read(page)?.data().u64_le(0);
        expect("the page", found, last)
    })
}

/// A lookup that the switch leads.
fn lookups<'a>(mut index: IndexConnection) -> Call<'a> {
    let mut key = 0;
    Box::new(move || {
        key = (key + 1) % RECORDS;
        let value = index.get(key)?;
        match value.as_deref() == Some(&key.to_le_bytes()[..]) {
            true => Ok(()),
            false => Err(CliError::run(format!("key {key} has the value {value:?}"))),
        }
    })
}

/// The next number of a sequencer in the switch. A takeover may leave a gap.
fn numbers<'a>(mut client: SequencerClient) -> Call<'a> {
    let mut next = 0;
    Box::new(move || {
        let range = client.next(1)?;
        expect("the number", range.start.min(next), next)?;
        next = range.end;
        Ok(())
    })
}

/// An item of a flow, from push to pop.
fn items<'a>((mut producer, mut consumer): (Producer, Consumer), node: Node) -> Call<'a> {
    let mut number = 0u64;
    Box::new(move || {
        number += 1;
        let mut item = [0; ITEM_BYTES];
        item[..8].copy_from_slice(&number.to_le_bytes());
        wait(&node, || Ok(producer.push(&item).ok()))?;
        let found = wait(&node, || match consumer.pop(&mut item) {
            Taken::Items(()) => Ok(Some(u64::from_le_bytes(
                *item.first_chunk().expect("it fits"),
            ))),
            Taken::Empty => Ok(None),
            Taken::Ended | Taken::Aborted => Err(CliError::run("the flow has ended")),
        })?;
        expect("the item", found, number)
    })
}

/// A message from node to node.
fn messages<'a>(mut from: ConnectionEnd, mut to: ConnectionEnd) -> Call<'a> {
    let mut number = 0u64;
    Box::new(move || {
        number += 1;
        let mut message = [0; ITEM_BYTES];
        message[..8].copy_from_slice(&number.to_le_bytes());
        from.post(&message)?;
        let ConnectionEnd { node, receiver, .. } = &mut to;
        let found = wait(node, || {
            from.sender.poll()?;
            let number = match receiver.peek()? {
                Arrived::Piece(piece) => piece.bytes.u64_le(0),
                Arrived::Empty => return Ok(None),
                _ => return Err(CliError::run("the connection has ended")),
            };
            receiver.release()?;
            receiver.poll()?;
            Ok(Some(number))
        })?;
        expect("the message", found, number)
    })
}
