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

#[test]
fn accesses_wait_for_each_other_and_for_the_line() {
    let (operation, transfer) = (Duration::from_nanos(10), Duration::from_nanos(30));
    let mut line = Line::default();
    let mut take = |at, thread| {
        let at = Instant::from_nanos(at);
        line.take(at, thread, operation, transfer).as_nanos()
    };
    assert_eq!(take(100, 0), 110, "nobody else has it");
    assert_eq!(take(200, 0), 210);
    assert_eq!(
        take(105, 1),
        150,
        "it comes from thread 0, between its two accesses"
    );
    assert_eq!(take(120, 2), 190, "behind thread 1");
    assert_eq!(
        take(150, 1),
        250,
        "before thread 0's second access there is no space"
    );
    assert_eq!(take(250, 1), 260, "it has it still");
    line.pass(Instant::from_nanos(255));
    assert_eq!(line.taken.len(), 2);
}
