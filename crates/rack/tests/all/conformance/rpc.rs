//! A user-defined service over RPC.

use super::AMPLE;
use rackweave_base::Instant;
use rackweave_controller::connect::PairAttributes;
use rackweave_endpoint::rpc::{
    Client, ClientConfig, Server, ServerConfig, Service, Status, Writer,
};
use rackweave_rack::Rack;
use rackweave_rack::services::wait_within;

/// Answers a request with its bytes in reverse.
struct Reverse;

impl Service for Reverse {
    fn serve(
        &mut self,
        _now: Instant,
        _client: u32,
        _method: u16,
        request: &[u8],
        reply: &mut Writer<'_>,
    ) -> Status {
        let bytes: Vec<u8> = request.iter().rev().copied().collect();
        reply.push(&bytes);
        Status::OK
    }
}

pub fn a_service_of_ones_own_answers(rack: &Rack) {
    let (at, from) = (rack.node("storage0"), rack.node("compute0"));
    let (at, from) = (at.expect("it is here"), from.expect("it is here"));
    let (mut server, end) = at.with(|verbs| {
        let pd = verbs.create_pd();
        let server = Server::new(verbs, rack.memory(), pd, ServerConfig::new(1));
        let mut server = server.expect("there is room");
        let end = server.accept(verbs).expect("there is room");
        (server, end)
    });
    let mut client = from.with(|verbs| {
        let pd = verbs.create_pd();
        let config = ClientConfig {
            timeout: AMPLE.into(),
            ..ClientConfig::default()
        };
        Client::new(verbs, rack.memory(), pd, config).expect("there is room")
    });
    let ends = ((from.id(), client.qpn()), (at.id(), end));
    let connected = rack.connect(ends.0, ends.1, &PairAttributes::default());
    connected.expect("both are there");
    at.with(|verbs| server.connected(verbs, end).expect("it is its own"));
    for word in [
        "stressed",
        "",
        "a longer one, with more than a few bytes in it",
    ] {
        client
            .begin_with(1, word.as_bytes())
            .expect("there is room");
        let answer = wait_within(&from, AMPLE, || {
            let now = from.now();
            at.poll(|verbs| server.poll(now, verbs, &mut Reverse));
            from.with(|verbs| {
                let reply = client.poll(now, verbs)?;
                Some(reply.result.map(<[u8]>::to_vec))
            })
        });
        let expected: Vec<u8> = word.bytes().rev().collect();
        assert_eq!(answer, Some(Ok(expected)));
    }
}
