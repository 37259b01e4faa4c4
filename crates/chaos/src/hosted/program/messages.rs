//! Connections between programs: each dials the next one, again and again, and both exchange
//! messages until both have said that nothing follows.

use super::super::journal::{Ending, Event, MessageEvent, System};
use super::super::shared::{peers, publish, published};
use super::{AGAIN_AFTER, Phase, Program};
use rackweave_base::Rng;
use rackweave_endpoint::messaging::{
    CloseReason, Closed, ClosedBy, MessageReceiver, MessageSender, MessagingConfig, SendError,
};
use rackweave_rack::messaging::{ConnectError, Listener, MessageConnection, dial as connect};
use rackweave_sim::checkers::messages::{ChannelName, Peer, check_message, fill_message};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Longest pause between two connections.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// A handshake takes no longer than this.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// Most messages of a channel, and most bytes of a message.
const MESSAGES_MAX: u64 = 20;
const BYTES_MAX: u64 = 40_000;

fn config() -> MessagingConfig {
    MessagingConfig {
        receive_bytes: 16 << 10,
        ..MessagingConfig::default()
    }
}

/// The file with the address at which a program listens.
fn address_file(number: u16) -> String {
    format!("address-{number}")
}

/// Dials the next program, whenever there is one.
pub fn dial(program: &Program) {
    let mut rng = program.rng("dial");
    let count = peers().count() as u16;
    let peer = address_file((program.number + 1) % count);
    let mut connections = 0;
    let mut exchange = |rng: &mut Rng| {
        let address = published(&program.folder, &peer).map_err(|error| error.to_string())?;
        let dialed = connect(&program.rack, program.node, address, config(), TIME_LIMIT);
        let dialed = dialed.map_err(|error| error.to_string())?;
        connections += 1;
        let id = u32::from(program.life) << 16 | connections;
        let side = Side::open(program, (id, true));
        let (mut sender, mut receiver) = one_each(dialed);
        let sent = side.send_all(&mut sender, rng);
        let ended = sent.and_then(|()| side.receive_all(&mut receiver, 0));
        side.end(ended).map_err(|closed| closed.to_string())
    };
    while program.phase() == Phase::Work {
        if let Err(error) = exchange(&mut rng) {
            program.failed(System::Messages, &error);
            std::thread::sleep(AGAIN_AFTER);
        }
        Program::pause(&mut rng, PAUSE_MAX);
    }
    if program.phase() == Phase::Last {
        program.attempt(System::Messages, || exchange(&mut rng));
        program.done();
    }
}

/// Accepts connections, one after another.
pub fn listen(program: &Program) {
    let mut rng = program.rng("listen");
    let bind = || {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Listener::bind(&program.rack, program.node, any, config())
    };
    let Some(mut listener) = program.attempt(System::Messages, bind) else {
        return;
    };
    listener.set_patience(TIME_LIMIT);
    let file = address_file(program.number);
    publish(&program.folder, &file, &listener.local_addr());
    // It has no last piece of work but that of its peer.
    program.done();
    while program.phase() != Phase::Ends {
        match listener.accept(AGAIN_AFTER) {
            Ok(connection) => {
                if let Err(closed) = answer(program, connection, &mut rng) {
                    program.failed(System::Messages, &closed);
                }
            }
            Err(ConnectError::TimedOut { .. }) => {}
            Err(error) => program.failed(System::Messages, &error),
        }
    }
}

/// The listening side of a connection. The kind of the first message is its number.
fn answer(program: &Program, accepted: MessageConnection, rng: &mut Rng) -> Result<(), Closed> {
    let (mut sender, mut receiver) = one_each(accepted);
    let mut first = Vec::new();
    let Some(info) = receiver.receive(&mut first)? else {
        program.wrong("a connection without a message".into());
        return Ok(());
    };
    let side = Side::open(program, (info.opcode, false));
    side.received(0, &first);
    let received = side.receive_all(&mut receiver, 1);
    side.end(received.and_then(|()| side.send_all(&mut sender, rng)))
}

fn one_each(connection: MessageConnection) -> (MessageSender, MessageReceiver) {
    let (mut senders, mut receivers) = connection.split();
    (senders.remove(0), receivers.remove(0))
}

/// One side of a connection.
struct Side<'a> {
    program: &'a Program,
    id: u32,
    dials: bool,
}

impl<'a> Side<'a> {
    fn open(program: &'a Program, (id, dials): (u32, bool)) -> Self {
        let side = Self { program, id, dials };
        side.note(MessageEvent::Opened);
        side
    }

    fn note(&self, event: MessageEvent) {
        self.program
            .note(Event::Message(self.id, self.dials, event));
    }

    fn channel(&self, sends: bool) -> ChannelName {
        ChannelName {
            connection: self.id,
            sender: match self.dials == sends {
                true => Peer::Compute,
                false => Peer::Storage,
            },
            number: 0,
        }
    }

    fn send_all(&self, sender: &mut MessageSender, rng: &mut Rng) -> Result<(), Closed> {
        for message in 0..rng.between(1, MESSAGES_MAX) as u32 {
            let mut bytes = vec![0; rng.below(BYTES_MAX) as usize];
            let seed = self.program.seed;
            fill_message(&mut bytes, seed, self.channel(true), message, 0);
            let length = bytes.len() as u64;
            self.note(MessageEvent::Sends(length));
            sender
                .send(self.id, &bytes)
                .map_err(|error| self.closed(error))?;
        }
        self.note(MessageEvent::Finishes);
        sender.finish_wait().map_err(|error| self.closed(error))?;
        self.note(MessageEvent::Ended(true, Ending::Well));
        Ok(())
    }

    fn closed(&self, error: SendError) -> Closed {
        match error {
            SendError::Closed(closed) => closed,
            error => {
                self.program
                    .wrong(format!("connection {}: {error}", self.id));
                let (by, reason) = (ClosedBy::Local, CloseReason::Normal);
                Closed { by, reason }
            }
        }
    }

    fn receive_all(&self, receiver: &mut MessageReceiver, first: u32) -> Result<(), Closed> {
        let mut bytes = Vec::new();
        for number in first.. {
            bytes.clear();
            let Some(info) = receiver.receive(&mut bytes)? else {
                break;
            };
            if info.opcode != self.id {
                let (id, kind) = (self.id, info.opcode);
                self.program
                    .wrong(format!("connection {id}: a message of kind {kind}"));
            }
            self.received(number, &bytes);
        }
        self.note(MessageEvent::SawFinish);
        self.note(MessageEvent::Ended(false, Ending::Well));
        Ok(())
    }

    fn received(&self, number: u32, bytes: &[u8]) {
        let channel = self.channel(false);
        if let Err(wrong) = check_message(bytes, self.program.seed, channel, number, 0) {
            let id = self.id;
            self.program
                .wrong(format!("connection {id}, message {number}: {wrong:?}"));
        }
        let length = bytes.len() as u64;
        self.note(MessageEvent::Received(number, length));
    }

    /// Records that the whole connection has ended.
    fn end(&self, ended: Result<(), Closed>) -> Result<(), Closed> {
        ended.inspect_err(|closed| {
            let reason = closed.reason as u16;
            let how = match closed.by {
                ClosedBy::Local => Ending::ClosedHere(reason),
                ClosedBy::Peer => Ending::ClosedThere(reason),
                ClosedBy::Transport => Ending::Broken,
            };
            // Ends that have ended well before are the judge's to skip.
            for sends in [true, false] {
                self.note(MessageEvent::Ended(sends, how));
            }
        })
    }
}
