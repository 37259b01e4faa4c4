//! Nodes that are slow, but never so slow that a single reply is late.

use super::proxy::proxy;
use super::*;
use std::sync::Mutex;

/// Node b replies to every request, including heartbeats, just before it would count as dead.
/// Making a flow with it takes tens of such replies.
#[test]
fn a_node_that_is_slow_at_every_question_is_taken_for_dead() {
    let mut rack = Rack::new("slow", LinkKind::Udp);
    let hosted = rack.config.hosted.as_mut().unwrap();
    hosted.dead_after_ms = 1000;
    let through = proxy(hosted.control, || {
        std::thread::sleep(Time::from_millis(700));
    });
    let left = Mutex::new(Vec::new());
    let switch = rack.switch();
    let watch = |event: SwitchEvent| {
        println!("switch: {event:?}");
        if let SwitchEvent::Left { node, why } = event {
            left.lock().unwrap().push((node, why.unwrap_or_default()));
        }
    };
    while_running(
        |stop| switch.run(stop, &watch),
        || {
            let node = rack.node_by("b", Some(through)).unwrap();
            while_running(run_node(&rack, "a"), || {
                while_running(
                    |stop| drop(node.run(stop, &|event| println!("b: {event:?}"))),
                    || {
                        let mut client = HostedRack::connect(&rack.config).unwrap();
                        client.wait_for_nodes(Time::from_secs(10)).unwrap();
                        let made = client.create_flow(&[NodeId(0)], &[NodeId(1)], 64, 4096);
                        assert!(made.is_err(), "b takes too long");
                        eventually("b is dead", || !left.lock().unwrap().is_empty());
                        let left = left.lock().unwrap().clone();
                        assert_eq!(left[0].0, "b");
                        assert!(left[0].1.contains("answer"), "{left:?}");
                    },
                );
            });
        },
    );
    std::fs::remove_dir_all(&rack.folder).unwrap();
}
