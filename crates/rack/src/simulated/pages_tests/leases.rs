//! Leases: reads without requests, their revocation, and the times at which nobody can revoke them.

use super::nodes::Nodes;
use super::*;

#[test]
fn a_page_that_is_read_often_is_read_without_packets() {
    let mut nodes = Nodes::new(2);
    let version = nodes.lease(0, 5);
    assert_eq!(nodes.entry(5).leases, 1);
    let before = nodes.packets();
    for _ in 0..100 {
        assert_eq!(nodes.leased(0, 5), Some(version));
    }
    assert_eq!(nodes.packets(), before);
    let statistics = *nodes.workers[0].borrow().statistics();
    assert_eq!(statistics.leased_hits, 101);
    assert_eq!(nodes.leased(1, 5), None, "the other node has none");
    assert_eq!(nodes.leased(0, 6), None, "nor has another page");
}

#[test]
fn a_change_waits_until_the_leases_of_others_are_revoked() {
    let mut nodes = Nodes::new(2);
    let version = nodes.lease(0, 5);
    let fix = nodes.ask(1, 5, Mode::Exclusive);
    let mut guard = None;
    while guard.is_none() {
        let was_leased = nodes.leased(0, 5);
        nodes.run(Duration::from_nanos(50));
        guard = nodes.workers[1].borrow_mut().take(fix);
        // Until then it reads the version that is still the newest.
        assert!(was_leased.is_none_or(|leased| leased == version));
    }
    assert_eq!(nodes.leased(0, 5), None);
    assert_eq!(nodes.entry(5).leases, 0);
    drop(guard);
    nodes.run(Duration::from_millis(1));
    // A page that was latched must be verified again before it is leased.
    let version = nodes.change(1, 5);
    drop(nodes.fix(0, 5, Mode::Shared));
    drop(nodes.fix(0, 5, Mode::Shared));
    assert_eq!(nodes.leased(0, 5), None);
    assert_eq!(nodes.lease(0, 5), version);
}

#[test]
fn a_node_keeps_its_lease_when_it_changes_the_page_itself() {
    let mut nodes = Nodes::new(2);
    nodes.lease(0, 5);
    let version = nodes.change(0, 5);
    assert_eq!(nodes.leased(0, 5), Some(version));
}

#[test]
fn a_lease_expires_if_the_node_gets_no_answers() {
    let mut nodes = Nodes::new(2);
    let version = nodes.lease(0, 5);
    nodes.run(control::LEASE + Duration::from_millis(1));
    assert_eq!(nodes.leased(0, 5), None);
    // One request is enough for all leases of the node.
    nodes.lease(0, 6);
    assert_eq!(nodes.leased(0, 5), Some(version));
}

#[test]
fn latches_are_held_back_while_a_node_that_is_declared_dead_may_read() {
    let mut nodes = Nodes::new(2);
    let version = nodes.lease(0, 5);
    nodes.bench.rack.declare_dead(NodeId(0));
    assert_eq!(nodes.entry(5).leases, 0);
    let declared = nodes.bench.rack.now();
    let fix = nodes.ask(1, 5, Mode::Exclusive);
    let granted = loop {
        nodes.run(Duration::from_micros(100));
        if let Some(guard) = nodes.workers[1].borrow_mut().take(fix) {
            break guard;
        }
    };
    assert_eq!(granted.unwrap().version(), version);
    assert_eq!(nodes.leased(0, 5), None, "it has expired");
    let waited = nodes.bench.rack.now().since(declared);
    assert!(waited >= control::HOLD, "{waited:?}");
}

#[test]
fn a_restarted_switch_knows_no_leases_and_waits_for_them() {
    let mut nodes = Nodes::new(2);
    nodes.lease(0, 5);
    nodes.bench.rack.restart_switch().unwrap();
    let fix = nodes.ask(1, 5, Mode::Exclusive);
    nodes.run(Duration::from_nanos(control::HOLD.as_nanos() - 1_000_000));
    assert!(nodes.workers[1].borrow_mut().take(fix).is_none());
    nodes.run(Duration::from_millis(3));
    assert!(nodes.workers[1].borrow_mut().take(fix).unwrap().is_ok());
    // Answers of the new directory do not make leases of the old one valid.
    nodes.lease(0, 6);
    assert_eq!(nodes.leased(0, 5), None);
}

#[test]
fn entries_leave_the_switch_without_leases() {
    let mut nodes = Nodes::new(2);
    nodes.lease(0, 5);
    assert!(nodes.bench.rack.demote(page(5)));
    assert_eq!(nodes.leased(0, 5), None);
    assert!(nodes.bench.rack.promote(page(5)));
    assert_eq!(nodes.entry(5).leases, 0);
}

#[test]
fn a_store_that_is_closed_to_a_node_is_not_read_by_leases() {
    let mut nodes = Nodes::new(2);
    nodes.lease(0, 5);
    assert!(nodes.bench.rack.open_store_to(0, &[NodeId(1)]));
    assert_eq!(nodes.leased(0, 5), None);
}

#[test]
fn a_loss_is_accepted_after_leases_on_the_lost_version_have_ended() {
    let mut nodes = Nodes::new(2);
    let version = nodes.change(1, 5);
    assert_eq!(nodes.lease(0, 5), version);
    nodes.bench.rack.declare_dead(NodeId(1));
    assert!(nodes.entry(5).place.is_lost());
    assert_eq!(
        nodes.leased(0, 5),
        Some(version),
        "it was read before it was lost"
    );
    assert!(
        !nodes.bench.rack.accept_loss(page(5)),
        "latches are held back"
    );
    nodes.run(control::HOLD);
    assert!(nodes.bench.rack.accept_loss(page(5)));
    assert_eq!(nodes.leased(0, 5), None);
}
