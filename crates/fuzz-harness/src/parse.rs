//! The parser with arbitrary bytes.

use rackweave_base::packet::HEADER_MAX;
use rackweave_base::{MacAddr, Memory, Packet, Payload};
use rackweave_wire::arp::ArpFrame;
use rackweave_wire::cm::{IpAddresses, Mad};
use rackweave_wire::fabric::lookup::{MapPiece, Opened, Reply, Request, Start};
use rackweave_wire::fabric::ring::{self, NodeWord, SwitchWord};
use rackweave_wire::{
    Datagram, Headers, Rewrite, Verdict, Vxlan, ethernet, icrc, parse_bytes, vxlan,
};

/// Parses `data` as the bytes of a packet, of its headers, and of a ring word.
///
/// # Panics
/// If the parser is wrong.
pub fn parse(data: &[u8]) {
    let _ = ethernet::parse(data);
    ring_words(data);
    neighbourhood(data);
    lookups(data);
    management(data);
    if let Ok((headers, len)) = Headers::parse(data) {
        assert_eq!(len, headers.len(), "{headers:?}");
        assert!(len <= data.len().min(HEADER_MAX));
    }
    in_two_parts(data);
    if let Ok(packet) = parse_bytes(data) {
        whole(data, &packet);
    }
}

fn ring_words(data: &[u8]) {
    let Some(&bytes) = data.first_chunk() else {
        return;
    };
    let word = u64::from_le_bytes(bytes);
    // A word is accepted exactly if it has the magic and a known state; then nothing of it is lost.
    let has_magic = (word >> 16) as u16 == ring::MAGIC;
    let state = word as u16;
    let kept = |back: Option<u64>, states: u16| {
        assert_eq!(back.is_some(), has_magic && state < states, "{word:#x}");
        assert!(back.is_none_or(|back| back == word), "{word:#x}");
    };
    kept(NodeWord::try_from(word).ok().map(u64::from), 3);
    kept(SwitchWord::try_from(word).ok().map(u64::from), 4);
}

/// A message of the connection manager, and addresses in private data: unchanged when they are
/// written again, but for what is reserved.
fn management(data: &[u8]) {
    if let Ok(mad) = Mad::parse(data) {
        assert_eq!(Mad::parse(&mad.emit()), Ok(mad));
    }
    if let Some(addresses) = IpAddresses::parse(data) {
        assert_eq!(IpAddresses::parse(&addresses.emit()), Some(addresses));
    }
}

/// ARP and VXLAN: an accepted packet keeps all fields, and is unchanged when it is written again.
fn neighbourhood(data: &[u8]) {
    if let Ok((vxlan, inner)) = Vxlan::parse(data) {
        assert_eq!(inner.len() + vxlan::LEN, data.len());
        assert_eq!(Vxlan::parse(&vxlan.emit()), Ok((vxlan, &[][..])));
    }
    if let Ok(frame) = ArpFrame::parse(data) {
        assert_eq!(ArpFrame::of(&frame.packet()), Ok(frame));
        let mac = MacAddr([2, 0, 0, 0, 0, 9]);
        let reply = frame.reply(mac);
        assert_eq!(ArpFrame::parse(reply.packet().header()), Ok(reply));
    }
}

/// Index requests, as the payload of a datagram and as a packet: an accepted one is unchanged when
/// it is written again, except for the tree node, which clients do not write.
fn lookups(data: &[u8]) {
    let mut again = Vec::new();
    if let Ok(request) = Request::parse(data)
        && let Some(ask) = request.ask()
    {
        ask.emit(request.client, request.id, &mut again);
        assert_eq!(again[8..], data[8..], "{request:?}");
    }
    again.clear();
    if let Ok(reply) = Reply::parse(data) {
        reply.emit(&mut again);
        assert_eq!(Reply::parse(&again), Ok(reply));
        let _ = (Opened::parse(reply.body), MapPiece::parse(reply.body));
    }
    let (front, back) = data.split_at(data.len().min(HEADER_MAX));
    let mut packet = Packet::new(front, Payload::copied(back));
    if let Ok(datagram) = Datagram::of(&packet) {
        assert!(datagram.read(&packet, &Memory::new(0), &mut again));
        assert_eq!(again.len(), datagram.carried);
        let _ = datagram.checksum_is_right(&packet, &again);
    }
    let start = Start::of(&packet);
    assert_eq!(Start::fill_in(&mut packet, 9), start.is_some());
    let filled = start.map(|start| Start { node: 9, ..start });
    assert_eq!(Start::of(&packet), filled);
}

/// The packet may come with its header area cut anywhere.
fn in_two_parts(data: &[u8]) {
    let Some((&cut, data)) = data.split_first() else {
        return;
    };
    let header = usize::from(cut).min(HEADER_MAX).min(data.len());
    let mut packet = Packet::new(&data[..header], Payload::copied(&data[header..]));
    let first = Headers::of(&packet);
    packet.check = Some([0; 4]);
    let second = Headers::of(&packet);
    // Without UDP checksum no result depends on the check value.
    if let (Ok(first), Ok(second)) = (first, second) {
        assert_eq!(first, second);
    }
    let _ = icrc::verify(&packet, &Memory::new(0));
}

/// A parsed packet is unchanged when it is written and parsed again, and the two ways to update an
/// ICRC agree with computing it.
fn whole(data: &[u8], packet: &Packet) {
    let memory = Memory::new(0);
    let mut bytes = Vec::new();
    assert!(packet.serialise(&memory, &mut bytes));
    assert_eq!(bytes, data[..bytes.len()], "what is parsed is kept");

    let mut headers = Headers::of(packet).expect("a whole packet was parsed");
    // Reserved bits are not kept, and the UDP checksum may cover them.
    headers.udp.checksum = 0;
    let mut again = packet.clone();
    headers.write_to(&mut again);
    assert_eq!(Headers::of(&again), Ok(headers));
    assert!(icrc::seal(&mut again, &memory));
    bytes.clear();
    assert!(again.serialise(&memory, &mut bytes));
    let third = parse_bytes(&bytes).expect("what is emitted is parsed");
    assert_eq!(Headers::of(&third), Ok(headers));
    assert_eq!(third.header(), again.header(), "emitting is a fixpoint");
    assert_eq!(icrc::verify(&third, &memory), Verdict::Right);

    for rewrite in [Rewrite::Update, Rewrite::Balance] {
        let mut rewritten = again.clone();
        let mut other = headers;
        other.bth.psn = headers.bth.psn.add(1);
        other.bth.target_qp.0 ^= 0x55_aa55;
        other.ipv4.target = headers.ipv4.source;
        other.write_to(&mut rewritten);
        rewrite.apply(&mut rewritten, again.header());
        assert_eq!(
            icrc::verify(&rewritten, &memory),
            Verdict::Right,
            "{rewrite:?}"
        );
        assert!(Headers::of(&rewritten).is_ok());
    }
}
