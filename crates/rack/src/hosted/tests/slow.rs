//! Nodes that are slow, but never so slow that a single answer is late.

use super::*;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;

/// Passes a control connection on, and keeps what the node says for so long.
fn delay(node: &mut TcpStream, controller: &mut TcpStream, delay: Time) {
    std::thread::scope(|scope| {
        let (mut from, mut to) = (controller.try_clone().unwrap(), node.try_clone().unwrap());
        scope.spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        });
        let mut bytes = [0; 4096];
        while let Ok(len @ 1..) = node.read(&mut bytes) {
            std::thread::sleep(delay);
            if controller.write_all(&bytes[..len]).is_err() {
                break;
            }
        }
        let _ = controller.shutdown(Shutdown::Both);
    });
}

/// Node b answers every question, the heartbeats too, just before it would count as dead. When a
/// flow is made with it, tens of such answers are wanted, while the controller can do nothing else.
#[test]
fn a_node_that_is_slow_at_every_question_is_taken_for_dead() {
    let mut rack = Rack::new("slow", LinkKind::Udp);
    let hosted = rack.config.hosted.as_mut().unwrap();
    hosted.dead_after_ms = 1000;
    let control = hosted.control;
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let through = proxy.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut node, _)) = proxy.accept() {
            std::thread::spawn(move || {
                let mut controller = TcpStream::connect(control).unwrap();
                delay(&mut node, &mut controller, Time::from_millis(700));
            });
        }
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
            let node = NodeProcess::new(NodeOptions {
                config: rack.config.clone(),
                name: "b".into(),
                controller: Some(through),
                jobs: Arc::new(Counting),
            });
            let node = node.unwrap();
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
