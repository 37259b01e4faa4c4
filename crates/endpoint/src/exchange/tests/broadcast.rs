//! Random broadcasts to three nodes, over a flow that delivers items late and to all at once.

use super::*;
use proptest::prelude::*;
use rackweave_base::{Block, Memory};
use rackweave_wire::fabric::exchange::FrameKind;
use rackweave_wire::fabric::exchange::broadcast::Member;

const NODES: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Action {
    Broadcast(u16),
    /// The streams without credit leave, if others have some.
    LeaveBehind,
    /// A stream that has left is sent the next message that it lacks.
    Alone(usize),
    /// Moves a frame into the network, or out of it.
    Emit(usize, usize),
    Deliver(usize, usize),
    /// The flow makes some more items visible.
    Move(u8),
    Take(usize),
    Receive(usize),
    Cancel(usize),
}

fn action() -> impl Strategy<Value = Action> {
    let node = 0usize..NODES;
    prop_oneof![
        10 => (0u16..900).prop_map(Action::Broadcast),
        2 => Just(Action::LeaveBehind),
        8 => node.clone().prop_map(Action::Alone),
        15 => (node.clone(), 0usize..2).prop_map(|(node, end)| Action::Emit(node, end)),
        15 => (node.clone(), 0usize..2).prop_map(|(node, end)| Action::Deliver(node, end)),
        10 => (0u8..4).prop_map(Action::Move),
        10 => node.clone().prop_map(Action::Take),
        15 => node.clone().prop_map(Action::Receive),
        1 => node.prop_map(Action::Cancel),
    ]
}

/// A node that broadcasts, those that receive, and what lies between them.
struct Model {
    pairs: Vec<Pair>,
    streams: Vec<StreamNumber>,
    assemblers: Vec<Assembler>,
    items: Vec<Block>,
    visible: usize,
    taken: [usize; NODES],
    /// What is to happen when items up to a number are visible.
    awaited: Vec<(usize, usize, bool)>,
    sent: Vec<Vec<u8>>,
    /// `Some`: it has left, and been sent as many messages.
    alone: [Option<usize>; NODES],
    received: [usize; NODES],
    ends: [Option<Result<(), StreamError>>; NODES],
    cancelled: [bool; NODES],
}

impl Model {
    fn new() -> Self {
        let config = StreamConfig {
            message_max: 1000,
            ..small()
        };
        let mut pairs: Vec<_> = (0..NODES).map(|_| Pair::new(config, 100)).collect();
        let streams: Vec<_> = pairs.iter_mut().map(Pair::stream).collect();
        for (pair, &stream) in pairs.iter_mut().zip(&streams) {
            pair.ends[DIALER].finish(stream);
            pair.ends[ACCEPTOR].drop_receiver(stream);
            assert!(pair.ends[ACCEPTOR].join_broadcast(stream));
        }
        Self {
            pairs,
            streams,
            assemblers: (0..NODES as u32).map(Assembler::new).collect(),
            items: Vec::new(),
            visible: 0,
            taken: [0; NODES],
            awaited: Vec::new(),
            sent: Vec::new(),
            alone: [None; NODES],
            received: [0; NODES],
            ends: [const { None }; NODES],
            cancelled: [false; NODES],
        }
    }

    fn has_credit(&mut self, node: usize) -> Option<bool> {
        let sender = &mut self.pairs[node].ends[ACCEPTOR];
        let stopped = sender.stopped(self.streams[node]);
        stopped
            .is_none()
            .then(|| sender.has_credit(self.streams[node]))
    }

    /// The members that still want messages.
    fn members(&mut self) -> Vec<usize> {
        let all = (0..NODES).filter(|&node| self.alone[node].is_none());
        let all: Vec<_> = all.collect();
        all.into_iter()
            .filter(|&node| self.has_credit(node).is_some())
            .collect()
    }

    fn queue(&mut self, kind: FrameKind, members: &[usize], payload: Vec<u8>) {
        let member = |&node: &usize| Member {
            consumer: node as u32,
            stream: self.streams[node],
        };
        let members = members.iter().map(member).collect();
        let mut broadcast = Broadcast::new(kind, members, payload);
        let len = BROADCAST_ITEM_MIN as usize;
        loop {
            let block = Memory::new(1 << 12).allocate(len).expect("it is small");
            let is_whole = broadcast.fill(&mut block.bytes_mut(0, len));
            self.items.push(block);
            if is_whole {
                return;
            }
        }
    }

    fn broadcast(&mut self, length: u16) {
        let members = self.members();
        let ready = members
            .iter()
            .all(|&node| self.has_credit(node) == Some(true));
        if members.is_empty() || !ready {
            return;
        }
        let mut message = (self.sent.len() as u32).to_le_bytes().to_vec();
        message.resize(4 + usize::from(length), length as u8);
        for &node in &members {
            let sender = &mut self.pairs[node].ends[ACCEPTOR];
            sender.use_credit(self.streams[node], message.len() as u64);
        }
        self.sent.push(message.clone());
        self.queue(FrameKind::Data, &members, message);
    }

    fn leave_behind(&mut self) {
        let (ready, blocked): (Vec<_>, Vec<_>) = self
            .members()
            .into_iter()
            .partition(|&node| self.has_credit(node) == Some(true));
        if ready.is_empty() {
            return;
        }
        for node in blocked {
            self.pairs[node].ends[ACCEPTOR].leave_broadcast(self.streams[node]);
            self.alone[node] = Some(self.sent.len());
            self.awaited.push((self.items.len(), node, true));
        }
    }

    fn send_alone(&mut self, node: usize) -> bool {
        let Some(next) = &mut self.alone[node] else {
            return false;
        };
        let Some(message) = self.sent.get(*next) else {
            return false;
        };
        let sender = &mut self.pairs[node].ends[ACCEPTOR];
        let sent = sender.try_send(self.streams[node], message.clone()).is_ok();
        *next += usize::from(sent);
        sent
    }

    fn show(&mut self, more: usize) -> bool {
        let before = self.visible;
        self.visible = self.items.len().min(self.visible + more);
        let visible = self.visible;
        let (due, left) = core::mem::take(&mut self.awaited)
            .into_iter()
            .partition(|&(until, ..)| until <= visible);
        self.awaited = left;
        let due: Vec<(usize, usize, bool)> = due;
        for &(_, node, resumes) in &due {
            let sender = &mut self.pairs[node].ends[ACCEPTOR];
            match resumes {
                true => sender.resume(self.streams[node]),
                false => sender.handle_broadcast_end(self.streams[node]),
            }
        }
        self.visible > before || !due.is_empty()
    }

    fn take(&mut self, node: usize) -> bool {
        let from = core::mem::replace(&mut self.taken[node], self.visible);
        for item in &self.items[from..self.visible] {
            let item = item.bytes(0, BROADCAST_ITEM_MIN as usize);
            let receiver = &mut self.pairs[node].ends[DIALER];
            let taken = self.assemblers[node].handle_item(item, receiver);
            taken.expect("the peer behaves");
        }
        self.visible > from
    }

    fn deliver(&mut self, node: usize, end: usize) -> bool {
        // What was visible before the frame was sent is taken before it.
        if end == DIALER {
            self.take(node);
        }
        self.pairs[node].deliver(end)
    }

    fn receive(&mut self, node: usize) -> bool {
        if self.cancelled[node] || self.ends[node].is_some() {
            return false;
        }
        match self.pairs[node].ends[DIALER].receive(self.streams[node]) {
            Received::Message(message) => {
                assert_eq!(message, self.sent[self.received[node]], "node {node}");
                self.received[node] += 1;
            }
            Received::Empty => return false,
            Received::Finished => self.ends[node] = Some(Ok(())),
            Received::Ended(error) => self.ends[node] = Some(Err(error)),
        }
        true
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Broadcast(length) => self.broadcast(length),
            Action::LeaveBehind => self.leave_behind(),
            Action::Alone(node) => drop(self.send_alone(node)),
            Action::Emit(node, end) => drop(self.pairs[node].send(end)),
            Action::Deliver(node, end) => drop(self.deliver(node, end)),
            Action::Move(more) => drop(self.show(more.into())),
            Action::Take(node) => drop(self.take(node)),
            Action::Receive(node) => drop(self.receive(node)),
            Action::Cancel(node) => {
                if !core::mem::replace(&mut self.cancelled[node], true) {
                    let receiver = &mut self.pairs[node].ends[DIALER];
                    receiver.drop_receiver(self.streams[node]);
                }
            }
        }
    }

    /// Moves whatever can be moved.
    fn settle(&mut self) {
        loop {
            let mut progress = self.show(1);
            for node in 0..NODES {
                progress |= self.send_alone(node);
                progress |= self.take(node);
                for end in 0..2 {
                    progress |= self.pairs[node].send(end) | self.deliver(node, end);
                }
                progress |= self.receive(node);
            }
            if !progress {
                return;
            }
        }
    }

    /// Ends the streams, in order or because the flow is lost while the end is in it, and takes
    /// what is left.
    fn conclude(mut self, loses: bool) {
        if !loses {
            self.settle();
        }
        let members: Vec<_> = (0..NODES)
            .filter(|&node| {
                let sender = &mut self.pairs[node].ends[ACCEPTOR];
                self.alone[node].is_none() && sender.finish_broadcast(self.streams[node])
            })
            .collect();
        self.queue(FrameKind::End, &members, Vec::new());
        for &node in &members {
            self.awaited.push((self.items.len(), node, false));
        }
        if loses {
            self.items
                .truncate((self.visible + 1).min(self.items.len()));
            self.visible = self.items.len();
            self.awaited.clear();
            let pairs = self.pairs.iter_mut();
            pairs.for_each(|pair| pair.ends[ACCEPTOR].handle_broadcasts_lost());
        }
        self.settle();
        for node in 0..NODES {
            if self.alone[node].take().is_some() {
                self.pairs[node].ends[ACCEPTOR].finish(self.streams[node]);
            }
        }
        self.settle();
        for node in 0..NODES {
            let complete = (self.sent.len(), Some(Ok(())));
            let seen = (self.received[node], self.ends[node].clone());
            let is_lost = matches!(&seen.1, Some(Err(StreamError::Gone { .. })));
            assert!(
                self.cancelled[node] || seen == complete || loses && is_lost,
                "node {node}: {seen:?} of {}",
                self.sent.len()
            );
            if !self.cancelled[node] {
                let receiver = &mut self.pairs[node].ends[DIALER];
                receiver.drop_receiver(self.streams[node]);
            }
        }
        for pair in &mut self.pairs {
            pair.settle();
            pair.assert_nothing_left();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn everybody_gets_every_message_in_order(
        program in prop::collection::vec(action(), 1..400),
        loses: bool,
    ) {
        let mut model = Model::new();
        for action in program {
            model.act(action);
        }
        model.conclude(loses);
    }

    /// Items of a peer that breaks the protocol.
    #[test]
    fn any_item_is_handled(
        items in prop::collection::vec(prop::collection::vec(0u8..4, 0..60), 1..6),
    ) {
        let mut pair = Pair::new(small(), 100);
        let _stream = pair.stream();
        let mut assembler = Assembler::new(0);
        for bytes in items {
            let len = BROADCAST_ITEM_MIN as usize;
            let block = Memory::new(1 << 12).allocate(len).expect("it is small");
            block.bytes_mut(0, len).write(0, &bytes);
            if assembler.handle_item(block.bytes(0, len), &mut pair.ends[DIALER]).is_err() {
                break;
            }
        }
        prop_assert!(pair.budgets[DIALER].used() <= 100);
    }
}

#[test]
fn a_stream_that_has_sent_stays_alone() {
    let mut pair = Pair::new(small(), 100);
    let stream = pair.stream();
    let sender = &mut pair.ends[ACCEPTOR];
    sender.try_send(stream, vec![1]).expect("there is credit");
    assert!(!sender.join_broadcast(stream));
    pair.settle();
    assert!(matches!(
        pair.ends[DIALER].receive(stream),
        Received::Message(_)
    ));
}
