//! A few clients of each server.

use super::*;

#[test]
fn more_clients_get_more_numbers_and_the_host_gives_more_than_the_dpu() {
    let mut run = Run::quick(8);
    let mut rate = |server, clients| measure(&mut run, server, clients).expect("it runs");
    let (one, eight) = (rate(Server::Dpu, 1), rate(Server::Dpu, 8));
    assert!(eight > 4.0 * one, "{one} {eight}");
    assert!(rate(Server::Host, 8) > eight);
    let most = 1e9 / Core::of(Server::Dpu).contended_atomic().as_nanos() as f64;
    // A thread that holds the line may continue with it.
    assert!(eight < most * 1.2, "{eight} of {most}");
}
