//! A compute node that sends requests and a storage node that serves them.

use super::super::*;
use crate::messaging::tests::rig::{COMPUTE, Rig, STORAGE};
use crate::messaging::{Closed, MessagingConfig};
use rackweave_base::{Duration, Rng};
use std::sync::Arc;

pub struct Setup {
    pub rig: Rig,
    pub catalogue: Arc<Catalogue>,
    pub server: ColumnServer,
    pub client: ColumnClient,
    pub answers: Vec<Answer>,
    /// Whether each node is polled.
    pub awake: [bool; 2],
    /// Each node's result of its last poll.
    pub closed: [Option<Closed>; 2],
}

/// Receive buffers of 4 KiB.
pub fn wide() -> MessagingConfig {
    MessagingConfig {
        receive_bytes: 4096,
        message_max: 1 << 20,
        ..crate::messaging::tests::rig::small()
    }
}

/// A column of 64-bit numbers, starting at `first`.
pub fn numbers(first: i64, rows: u64) -> ColumnData {
    let shape = ColumnShape::new(DataType::Int64, rows, 0, 0).unwrap();
    let values: Vec<u8> = (first..first + rows as i64)
        .flat_map(i64::to_le_bytes)
        .collect();
    ColumnData::new(shape, &[], &[], &values).unwrap()
}

/// A column of texts, some of which are null.
pub fn texts(seed: u64, rows: u64) -> ColumnData {
    let mut rng = Rng::new(seed);
    let (mut offsets, mut values) = (vec![0; 4], Vec::new());
    let mut validity = vec![0; rows.div_ceil(8) as usize];
    let mut nulls = 0;
    for row in 0..rows {
        if rng.below(4) == 0 {
            nulls += 1;
        } else {
            validity[row as usize / 8] |= 1 << (row % 8);
            values.extend(core::iter::repeat_n(b'x', rng.below(9) as usize));
        }
        offsets.extend((values.len() as u32).to_le_bytes());
    }
    let validity = if nulls > 0 { validity } else { Vec::new() };
    let shape = ColumnShape::new(DataType::Utf8, rows, nulls, values.len() as u64).unwrap();
    ColumnData::new(shape, &validity, &offsets, &values).unwrap()
}

impl Setup {
    pub fn new() -> Self {
        let (client, server) = Default::default();
        Self::of(&wide(), 1, client, server)
    }

    pub fn of(
        config: &MessagingConfig,
        seed: u64,
        client: ColumnClientConfig,
        server: ColumnServerConfig,
    ) -> Self {
        let catalogue = Arc::new(Catalogue::new(16));
        Self {
            rig: Rig::of(config, config, seed),
            server: ColumnServer::new(catalogue.clone(), server),
            catalogue,
            client: ColumnClient::new(client),
            answers: Vec::new(),
            awake: [true; 2],
            closed: [None; 2],
        }
    }

    pub fn serve(&self, name: &str, data: &ColumnData) {
        let memory = &self.rig.network.memory;
        self.catalogue.add(memory, name, data).unwrap();
    }

    pub fn poll(&mut self, reader: &mut dyn PieceReader) {
        let Rig { network, nodes, .. } = &mut self.rig;
        if self.awake[COMPUTE] {
            let (connection, nic) = (&mut nodes[COMPUTE], &mut network.nics[COMPUTE]);
            let (sender, receiver) = (&mut connection.senders[0], &mut connection.receivers[0]);
            let result = self.client.poll(network.now, nic, sender, receiver, reader);
            self.closed[COMPUTE] = result.err();
            self.answers
                .extend(core::iter::from_fn(|| self.client.take()));
        }
        if self.awake[STORAGE] {
            let (connection, nic) = (&mut nodes[STORAGE], &mut network.nics[STORAGE]);
            let (sender, receiver) = (&mut connection.senders[0], &mut connection.receivers[0]);
            let result = self.server.poll(network.now, nic, sender, receiver);
            self.closed[STORAGE] = result.err();
        }
    }

    pub fn step(&mut self, reader: &mut dyn PieceReader) {
        self.poll(reader);
        let timers = self
            .rig
            .nodes
            .iter()
            .filter_map(|connection| connection.poll_timeout());
        let limit = self.rig.network.now + Duration::from_millis(100);
        if !self.rig.network.advance(limit, timers) {
            self.rig.network.now = limit;
        }
    }

    /// Runs until `done`.
    pub fn until(&mut self, mut done: impl FnMut(&Self) -> bool) {
        self.until_with(&mut (), &mut done);
    }

    pub fn until_with(
        &mut self,
        reader: &mut dyn PieceReader,
        mut done: impl FnMut(&Self) -> bool,
    ) {
        for _ in 0..200_000 {
            if done(self) {
                return;
            }
            self.step(reader);
        }
        panic!("it does not come to that; closed: {:?}", self.closed);
    }

    /// Runs for some time.
    pub fn rest(&mut self) {
        let end = self.rig.network.now + Duration::from_millis(2);
        while self.rig.network.now < end {
            self.step(&mut ());
        }
    }

    /// The answer to the only request in flight.
    pub fn answer(&mut self, ticket: Ticket) -> Result<Reply, RequestError> {
        self.until(|setup| !setup.answers.is_empty());
        assert_eq!(self.answers.len(), 1);
        let answer = self.answers.remove(0);
        assert_eq!(answer.ticket, ticket);
        answer.result
    }

    pub fn ask(&mut self, name: &str) -> Result<Reply, RequestError> {
        let ticket = self.client.ask(name, None).unwrap();
        self.answer(ticket)
    }

    /// Client counters that are not zero.
    pub fn client_counters(&self) -> Vec<(&'static str, u64)> {
        let counters = self.client.counters().list();
        counters.filter(|&(_, count)| count > 0).collect()
    }

    /// Server counters that are not zero.
    pub fn server_counters(&self) -> Vec<(&'static str, u64)> {
        let counters = self.server.counters().list();
        counters.filter(|&(_, count)| count > 0).collect()
    }

    /// Both nodes release everything; nothing may be left.
    pub fn destroy(mut self) {
        self.server.destroy(&mut self.rig.network.nics[STORAGE]);
        for column in self.catalogue.columns() {
            let name = column.name().to_owned();
            drop(column);
            assert!(self.catalogue.remove(&name).unwrap().is_done());
        }
        self.rig.destroy();
    }
}
