//! Few clients for a short time.

use super::*;

fn seen(server: Server, clients: u16) -> Seen {
    let mut run = Run::quick(3);
    measure(&mut run, server, clients)
        .unwrap_or_else(|error| panic!("{server:?}, {clients} clients, seed 3: {error}"))
}

#[test]
fn many_clients_get_what_one_word_can_give() {
    for (server, read) in [
        (Server::Host, devices::CARD_HOST_READ_LATENCY),
        (Server::Dpu, devices::DPU_READ_LATENCY),
    ] {
        let most = 1e9 / read.as_nanos() as f64;
        let ratio = seen(server, 16).per_second / most;
        assert!((0.98..1.01).contains(&ratio), "{server:?}: {ratio}");
    }
}

#[test]
fn one_client_waits_for_a_read_less_where_memory_is_near() {
    let [host, dpu] = [Server::Host, Server::Dpu].map(|server| seen(server, 1));
    let nearer = devices::CARD_HOST_DISTANCE.as_nanos() as f64 / 1e3;
    let less = host.median_us - dpu.median_us;
    assert!((less - nearer).abs() < 0.02, "{host:?} {dpu:?}");
    let alone = 1.0 / host.median_us;
    assert!(
        (host.per_second / 1e6 / alone - 1.0).abs() < 0.02,
        "{host:?}"
    );
}
