//! Random programs on two nodes. What is received is what was sent, in order, and everything ends.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

/// What a program does at an end of a stream.
#[derive(Clone, Copy, Debug)]
enum Action {
    Open,
    Accept,
    Send(u8),
    Receive,
    Finish,
    Fail,
    DropSender,
    DropReceiver,
    /// Moves a frame into the network, or out of it.
    Emit,
    Deliver,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        2 => Just(Action::Open),
        3 => Just(Action::Accept),
        12 => (0u8..100).prop_map(Action::Send),
        12 => Just(Action::Receive),
        1 => Just(Action::Finish),
        1 => Just(Action::Fail),
        1 => Just(Action::DropSender),
        1 => Just(Action::DropReceiver),
        20 => Just(Action::Emit),
        20 => Just(Action::Deliver),
    ]
}

/// What is known of one direction.
#[derive(Debug, Default)]
struct Direction {
    sent: u32,
    received: u32,
    /// How the sender ended it.
    ending: Option<&'static str>,
    /// What the receiver saw.
    seen: Option<String>,
    sender: bool,
    receiver: bool,
}

#[derive(Default)]
struct Model {
    /// By sending end and stream.
    directions: HashMap<(usize, u32), Direction>,
    /// Streams at each end whose ends are held.
    held: [Vec<StreamNumber>; 2],
}

fn message(number: u32, length: u8) -> Vec<u8> {
    let mut message = number.to_le_bytes().to_vec();
    message.resize(4 + usize::from(length).min(96), number as u8);
    message
}

impl Model {
    fn hold(&mut self, end: usize, stream: StreamNumber) {
        self.held[end].push(stream);
        let new = || Direction {
            ..Default::default()
        };
        self.directions
            .entry((end, stream.get()))
            .or_insert_with(new)
            .sender = true;
        self.directions
            .entry((1 - end, stream.get()))
            .or_insert_with(new)
            .receiver = true;
    }

    fn of(&mut self, from: usize, stream: StreamNumber) -> &mut Direction {
        self.directions
            .get_mut(&(from, stream.get()))
            .expect("it is held")
    }

    fn send(&mut self, pair: &mut Pair, end: usize, stream: StreamNumber, length: u8) {
        let direction = self.of(end, stream);
        if direction.sender
            && pair.ends[end]
                .try_send(stream, message(direction.sent, length))
                .is_ok()
        {
            direction.sent += 1;
        }
    }

    fn receive(&mut self, pair: &mut Pair, end: usize, stream: StreamNumber) -> bool {
        let direction = self.of(1 - end, stream);
        if !direction.receiver || direction.seen.is_some() {
            return false;
        }
        match pair.ends[end].receive(stream) {
            Received::Message(found) => {
                assert!(direction.received < direction.sent, "never sent");
                let expect = message(direction.received, (found.len() - 4) as u8);
                assert_eq!(found, expect);
                direction.received += 1;
            }
            Received::Empty => return false,
            Received::Finished => direction.seen = Some("finished".to_owned()),
            Received::Ended(StreamError::Failed(_)) => direction.seen = Some("failed".to_owned()),
            Received::Ended(StreamError::Dropped { .. }) => {
                direction.seen = Some("dropped".to_owned());
            }
            Received::Ended(error) => panic!("{error}"),
        }
        true
    }

    fn end_sending(&mut self, pair: &mut Pair, end: usize, stream: StreamNumber, how: Action) {
        let direction = self.of(end, stream);
        if !core::mem::take(&mut direction.sender) {
            return;
        }
        let multiplexer = &mut pair.ends[end];
        direction.ending = Some(match how {
            Action::Finish => {
                multiplexer.finish(stream);
                "finished"
            }
            Action::Fail => {
                multiplexer.fail(stream, b"why".to_vec());
                "failed"
            }
            _ => {
                multiplexer.drop_sender(stream);
                "dropped"
            }
        });
        self.forget(end, stream);
    }

    fn end_receiving(&mut self, pair: &mut Pair, end: usize, stream: StreamNumber) {
        if core::mem::take(&mut self.of(1 - end, stream).receiver) {
            pair.ends[end].drop_receiver(stream);
            self.forget(end, stream);
        }
    }

    fn forget(&mut self, end: usize, stream: StreamNumber) {
        if !self.of(end, stream).sender && !self.of(1 - end, stream).receiver {
            self.held[end].retain(|&held| held != stream);
        }
    }

    fn accept(&mut self, pair: &mut Pair) -> bool {
        let accepted = pair.ends[ACCEPTOR].accept();
        if let Some((stream, _)) = &accepted {
            self.hold(ACCEPTOR, *stream);
        }
        accepted.is_some()
    }

    fn act(&mut self, pair: &mut Pair, end: usize, at: usize, action: Action) {
        let held = &self.held[end];
        let stream = (!held.is_empty()).then(|| held[at % held.len()]);
        match (action, stream) {
            (Action::Open, _) if self.held[DIALER].len() < 4 && pair.ends[DIALER].streams() < 8 => {
                let stream = pair.open(b"go");
                self.hold(DIALER, stream);
            }
            (Action::Accept, _) => drop(self.accept(pair)),
            (Action::Emit, _) => drop(pair.send(end)),
            (Action::Deliver, _) => drop(pair.deliver(end)),
            (Action::Send(length), Some(stream)) => self.send(pair, end, stream, length),
            (Action::Receive, Some(stream)) => drop(self.receive(pair, end, stream)),
            (Action::DropReceiver, Some(stream)) => self.end_receiving(pair, end, stream),
            (Action::Finish | Action::Fail | Action::DropSender, Some(stream)) => {
                self.end_sending(pair, end, stream, action);
            }
            _ => {}
        }
    }

    /// Ends everything, and takes what is left.
    fn conclude(&mut self, pair: &mut Pair) {
        for end in 0..2 {
            for stream in self.held[end].clone() {
                self.end_sending(pair, end, stream, Action::Finish);
            }
        }
        loop {
            pair.settle();
            while self.accept(pair) {
                let stream = *self.held[ACCEPTOR].last().expect("it was accepted");
                self.end_sending(pair, ACCEPTOR, stream, Action::Finish);
            }
            let mut progress = false;
            for end in 0..2 {
                for stream in self.held[end].clone() {
                    progress |= self.receive(pair, end, stream);
                }
            }
            if !progress {
                break;
            }
        }
        for ((from, stream), direction) in &self.directions {
            if direction.receiver {
                let seen = direction.seen.as_deref();
                assert_eq!(
                    seen, direction.ending,
                    "from {from} on {stream}: {direction:?}"
                );
                assert_eq!(
                    direction.received, direction.sent,
                    "from {from} on {stream}"
                );
            }
        }
        for end in 0..2 {
            for stream in self.held[end].clone() {
                self.end_receiving(pair, end, stream);
            }
        }
        pair.settle();
        pair.assert_nothing_left();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_received_is_what_was_sent(
        limit in 1u64..400,
        program in prop::collection::vec((0usize..2, 0usize..4, action()), 1..300),
    ) {
        let mut pair = Pair::new(small(), limit);
        let mut model = Model::default();
        for (end, at, action) in program {
            model.act(&mut pair, end, at, action);
            for budget in &pair.budgets {
                // Each of the streams may exceed its credit by one message.
                let most = limit.max(8 * 16) + 8 * 100;
                prop_assert!(budget.used() <= most, "{} bytes", budget.used());
            }
        }
        model.conclude(&mut pair);
    }
}
