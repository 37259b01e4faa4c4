//! Turns packets at ports into the lines of the guide.
//!
//! A packet that a switch forwards unchanged is one line, from its maker to its receiver; a packet
//! that a switch makes or changes is a line of its own, from the switch.

use super::capture::Seen;
use super::places::NamedRegions;
use super::psn::{Number, Rows, is_response};
use rackweave_base::{Instant, PortId, Rkey};
use rackweave_rack::SimulatedRack;
use rackweave_wire::fabric::query::{self, Progress};
use rackweave_wire::{Extension, Headers, Opcode, Reth, Syndrome};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// The description of a scene's packets, in addition to what all packets have.
pub trait Scene {
    /// The meaning of a request to the switch: of its address and key, or of its payload.
    fn to_switch(&self, headers: &Headers, payload: &[u8]) -> Option<String>;

    /// The meaning of bytes that are written to, or read from, a place of this name. `part` is the
    /// index of the packet in its message, from zero.
    fn content(&self, place: &str, part: u32, payload: &[u8]) -> Option<String>;

    /// The meaning of a SEND to a node.
    fn sent(&self, _payload: &[u8]) -> Option<String> {
        None
    }
}

/// A packet in flight, unchanged.
#[derive(Debug)]
struct Journey {
    at: Instant,
    from: String,
    to: Option<String>,
    /// The switch that has it now.
    here: Option<usize>,
    seen: Seen,
    dropped: Option<&'static str>,
}

/// A line of the guide, not yet aligned.
struct Line {
    at: Instant,
    ends: String,
    opcode: String,
    psn: Number,
    text: String,
    /// Of a READ or a reply to it: the place that is read.
    read: Option<String>,
}

/// Describes a scene.
pub struct Teller<'a> {
    scene: &'a dyn Scene,
    places: &'a NamedRegions,
    /// Names by switch and port, and the switch behind a port if one is.
    ports: BTreeMap<(usize, PortId), (String, Option<usize>)>,
    switches: Vec<String>,
    switch_ip: Ipv4Addr,
    mtu: u32,
    rows: Rows,
    /// The target of a request that is still being answered, or continues: by its number.
    open: BTreeMap<Number, (String, u32)>,
    /// Contents of places when the scene began, of which only changes are described.
    known: BTreeMap<String, String>,
}

impl<'a> Teller<'a> {
    /// For a rack whose switches have these names.
    pub fn new(
        rack: &SimulatedRack,
        switches: &[&str],
        scene: &'a dyn Scene,
        places: &'a NamedRegions,
    ) -> Self {
        let mut ports = BTreeMap::new();
        for (node, place) in rack.topology().nodes() {
            if let Some(node) = rack.config().node.get(usize::from(node.0)) {
                ports.insert((place.switch, place.port), (node.name.clone(), None));
            }
        }
        for cable in rack.topology().cables() {
            for (near, far) in [(cable.upper, cable.lower), (cable.lower, cable.upper)] {
                ports.insert(near, (switches[far.0].to_owned(), Some(far.0)));
            }
        }
        Self {
            scene,
            places,
            ports,
            switches: switches.iter().map(|name| (*name).to_owned()).collect(),
            switch_ip: Ipv4Addr::UNSPECIFIED,
            mtu: 4096,
            rows: Rows::default(),
            open: BTreeMap::new(),
            known: BTreeMap::new(),
        }
    }

    /// READs of such a place are described only if they find a change.
    pub fn news_of(mut self, place: &str, before: &str) -> Self {
        self.known.insert(place.to_owned(), before.to_owned());
        self
    }

    /// Sets the switch's own IP address, the destination of requests to it.
    pub fn switch_at(mut self, ip: Ipv4Addr) -> Self {
        self.switch_ip = ip;
        self
    }

    /// The scene, line by line.
    pub fn tell(mut self, seen: Vec<Seen>) -> Vec<String> {
        let journeys = self.journeys(seen);
        let mut lines: Vec<Line> = journeys.iter().map(|journey| self.line(journey)).collect();
        self.drop_old_news(&mut lines);
        layout(&lines)
    }

    /// Removes READs that found no change, and those that have no reply yet.
    fn drop_old_news(&mut self, lines: &mut Vec<Line>) {
        let mut reported = Vec::new();
        for line in lines.iter() {
            let place = line
                .read
                .as_ref()
                .filter(|_| line.opcode.starts_with("reply"));
            if let Some((place, known)) =
                place.and_then(|place| Some((place, self.known.get(place)?)))
                && *known != line.text
            {
                reported.push(line.psn);
                self.known.insert(place.clone(), line.text.clone());
            }
        }
        let is_watched = |line: &Line| {
            let place = line.read.as_ref();
            place.is_some_and(|place| self.known.contains_key(place))
        };
        lines.retain(|line| !is_watched(line) || reported.contains(&line.psn));
    }

    fn journeys(&self, seen: Vec<Seen>) -> Vec<Journey> {
        let mut journeys: Vec<Journey> = Vec::new();
        for seen in seen {
            let (name, switch) = self.ports[&(seen.switch, seen.port)].clone();
            let known = journeys.iter_mut().rev().find(|journey| {
                journey.here == Some(seen.switch)
                    && journey.seen.packet.header() == seen.packet.header()
                    && journey.seen.payload == seen.payload
            });
            match known {
                Some(journey) if seen.dropped.is_some() => {
                    journey.here = None;
                    journey.dropped = seen.dropped;
                }
                // It arrives at its destination.
                Some(_) if seen.is_ingress => {}
                Some(journey) => {
                    journey.here = switch;
                    journey.to = Some(name);
                }
                None => {
                    let own = self.switches[seen.switch].clone();
                    let (from, to, here) = match seen.is_ingress {
                        true => (name, None, Some(seen.switch)),
                        false => (own, Some(name), switch),
                    };
                    journeys.push(Journey {
                        at: seen.at,
                        from,
                        to,
                        here,
                        dropped: seen.dropped,
                        seen,
                    });
                }
            }
        }
        for journey in &mut journeys {
            // A packet that is not forwarded unchanged was for the switch.
            let own = || self.switches[journey.seen.switch].clone();
            journey.to.get_or_insert_with(own);
        }
        journeys
    }

    fn line(&mut self, journey: &Journey) -> Line {
        let mut packet = journey.seen.packet.clone();
        let carried = match query::sort(packet.header()) {
            Some(query::Kind::Carried) => {
                Some(query::detach(&mut packet).expect("switches make sound headers"))
            }
            _ => None,
        };
        let headers = Headers::of(&packet).expect("a sound packet");
        let psn = self.rows.number(&headers, self.mtu);
        let opcode = headers.bth.opcode;
        let mut text = match is_response(opcode) {
            true => self.response(&headers, psn, &journey.seen.payload),
            false => self.request(&headers, psn, &journey.seen.payload),
        };
        let is_read = opcode.is_read_response() || opcode == Opcode::ReadRequest;
        let read = self.asked(psn).filter(|_| is_read).map(|(place, _)| place);
        if let Some(progress) = carried {
            text = format!("{text}; {}", reported(&progress));
        }
        if let Some(reason) = journey.dropped {
            text = format!("{text}; dropped ({reason})");
        }
        let to = journey.to.as_deref().unwrap_or_default();
        Line {
            at: journey.at,
            ends: format!("{} → {to}", journey.from),
            opcode: short(opcode),
            psn,
            text,
            read,
        }
    }

    fn request(&mut self, headers: &Headers, psn: Number, payload: &[u8]) -> String {
        let (target, opcode) = (headers.ipv4.target, headers.bth.opcode);
        let own = target == self.switch_ip;
        if own && let Some(text) = self.scene.to_switch(headers, payload) {
            self.open.insert(psn, (text.clone(), 0));
            return text;
        }
        if opcode.is_send() {
            let said = self.scene.sent(payload);
            return said.unwrap_or_else(|| bytes(payload.len()));
        }
        match headers.extension {
            Extension::Reth(Reth {
                address,
                rkey,
                length,
            }) => {
                let place = self.place(target, rkey, address);
                self.open.insert(psn, (place.clone(), 0));
                if opcode == Opcode::ReadRequest {
                    return format!("{place}, {}", bytes(length as usize));
                }
                let content = self.scene.content(&place, 0, payload);
                let more = match length as usize > payload.len() {
                    true => format!(" of {length}"),
                    false => String::new(),
                };
                let what = content.map_or(String::new(), |content| format!(": {content}"));
                format!("{place}, {}{more}{what}", bytes(payload.len()))
            }
            _ if opcode.is_write() => self.goes_on(psn, payload),
            Extension::AtomicEth(atomic) => {
                format!("add {} to {:#x}", atomic.swap_or_add, atomic.address)
            }
            _ => bytes(payload.len()),
        }
    }

    /// A later packet of a WRITE.
    fn goes_on(&mut self, psn: Number, payload: &[u8]) -> String {
        let before = Number {
            offset: psn.offset - 1,
            ..psn
        };
        let Some((place, part)) = self.open.get(&before).cloned() else {
            return bytes(payload.len());
        };
        self.open.insert(psn, (place.clone(), part + 1));
        match self.scene.content(&place, part + 1, payload) {
            Some(content) => format!("{}: {content}", bytes(payload.len())),
            None => bytes(payload.len()),
        }
    }

    fn response(&mut self, headers: &Headers, psn: Number, payload: &[u8]) -> String {
        match headers.extension {
            Extension::AtomicAck(_, before) => return format!("it was {before}"),
            Extension::Aeth(aeth) if headers.bth.opcode == Opcode::Acknowledge => {
                return match aeth.syndrome {
                    Syndrome::Ack { .. } => "arrived up to here".into(),
                    Syndrome::Nak(code) => format!("refused: {code}"),
                    Syndrome::ReceiverNotReady { .. } => "not ready".into(),
                };
            }
            _ => {}
        }
        let Some((place, part)) = self.asked(psn) else {
            return bytes(payload.len());
        };
        match self.scene.content(&place, part, payload) {
            Some(content) => format!("{}: {content}", bytes(payload.len())),
            None => bytes(payload.len()),
        }
    }

    /// The target of the READ with this number, or of the last one before it, and how many packets
    /// after it this is.
    fn asked(&self, psn: Number) -> Option<(String, u32)> {
        let (at, (place, _)) = self.open.range(..=psn).next_back()?;
        (at.row == psn.row).then(|| (place.clone(), psn.offset - at.offset))
    }

    fn place(&self, ip: Ipv4Addr, rkey: Rkey, address: u64) -> String {
        let name = self.places.name(ip, rkey, address);
        name.unwrap_or_else(|| match rkey {
            Rkey(0) => format!("rkey 0, address {address}"),
            _ => format!("address {address:#x}"),
        })
    }
}

/// A number of bytes in words.
pub fn bytes(count: usize) -> String {
    match count {
        1 => "1 byte".into(),
        _ => format!("{count} bytes"),
    }
}

fn reported(progress: &Progress) -> String {
    let end = match progress.slot {
        u16::MAX => ", walk over".to_owned(),
        slot => format!(", next slot {slot} of layer {}", progress.layer),
    };
    format!(
        "at tree node {}, depth {}{end}",
        progress.node, progress.depth
    )
}

/// The name of an opcode in the guide: without what the line already shows.
fn short(opcode: Opcode) -> String {
    let name = opcode.name();
    let (kind, part) = [
        ("RDMA_READ_RESPONSE_", "reply "),
        ("RDMA_READ_REQUEST", "READ"),
        ("RDMA_WRITE_", "WRITE "),
        ("SEND_", "SEND "),
        ("ATOMIC_ACKNOWLEDGE", "reply"),
        ("ACKNOWLEDGE", "ACK"),
    ]
    .into_iter()
    .find_map(|(prefix, kind)| Some((kind, name.strip_prefix(prefix)?)))
    .unwrap_or((name, ""));
    let part = part.to_lowercase().replace('_', " ");
    format!("{kind}{}", part.strip_prefix("only").unwrap_or(&part))
        .trim_end()
        .to_owned()
}

/// Columns of the guide.
const WIDTH: usize = 100;

/// Columns: number, nanoseconds since the first line, ends, packet, PSN, text.
fn layout(lines: &[Line]) -> Vec<String> {
    let width = |of: fn(&Line) -> usize| lines.iter().map(of).max().unwrap_or(0);
    let ends = width(|line| line.ends.chars().count());
    let opcode = width(|line| line.opcode.len()).max("packet".len());
    let first = lines.first().map_or(Instant::ZERO, |line| line.at);
    let title = format!(
        " #     ns  {:<ends$}  {:<opcode$}  PSN   says",
        "from → to", "packet"
    );
    let mut all = vec![title];
    for (line, number) in lines.iter().zip(1..) {
        let ns = line.at.since(first).as_nanos();
        let head = format!(
            "{number:>2} {ns:>6}  {:<ends$}  {:<opcode$}  {:<5} ",
            line.ends, line.opcode, line.psn
        );
        let indent = head.chars().count();
        for (at, part) in wrap(&line.text, WIDTH - indent).into_iter().enumerate() {
            let line = match at {
                0 => format!("{head}{part}"),
                _ => format!("{:indent$}{part}", ""),
            };
            all.push(line.trim_end().to_owned());
        }
    }
    all
}

/// Parts of a text of at most `width` columns, broken between words.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut parts = vec![String::new()];
    for word in text.split(' ') {
        let last = parts.last_mut().expect("there is one");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > width {
            parts.push(word.to_owned());
        } else {
            let gap = if last.is_empty() { "" } else { " " };
            last.push_str(gap);
            last.push_str(word);
        }
    }
    parts
}
