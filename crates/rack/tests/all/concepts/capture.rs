//! Packets at the switches of a rack.

use rackweave_base::{Instant, Memory, Packet, PortId};
use rackweave_link::{CaptureOptions, SharedCapture};
use rackweave_rack::testing::SimulatedMachines;
use rackweave_rack::{SimulatedRack, SwitchCapture};
use rackweave_switch::{Direction, Tap};
use rackweave_wire::train;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// A packet at a port of a switch.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The time.
    pub at: Instant,
    /// The switch.
    pub switch: usize,
    /// The port of the switch.
    pub port: PortId,
    /// Whether it arrived there; otherwise it was sent.
    pub is_ingress: bool,
    /// Why the switch dropped it, if it did.
    pub dropped: Option<&'static str>,
    /// The packet, with its contents at that moment.
    pub packet: Packet,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// The taps at all switches of a rack.
pub struct Recording {
    seen: Arc<Mutex<Vec<Seen>>>,
    captures: Vec<(SharedCapture, PathBuf)>,
}

struct Ear {
    switch: usize,
    seen: Arc<Mutex<Vec<Seen>>>,
    capture: SwitchCapture,
    memory: Memory,
}

impl Tap for Ear {
    fn packet(
        &mut self,
        now: Instant,
        port: PortId,
        direction: Direction,
        packet: &Packet,
        dropped: Option<&'static str>,
    ) {
        self.capture.packet(now, port, direction, packet, dropped);
        for packet in train::split(packet).expect("trains have sound headers") {
            let payload = packet.payload.to_vec(&self.memory);
            self.seen.lock().unwrap().push(Seen {
                at: now,
                switch: self.switch,
                port,
                is_ingress: direction == Direction::Ingress,
                dropped,
                payload: payload.expect("no memory goes away in these scenes"),
                packet,
            });
        }
    }
}

impl Recording {
    /// Records at every switch from now on.
    pub fn begin(rack: &mut SimulatedRack) -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut captures = Vec::new();
        for switch in 0..rack.topology().switches() {
            let number = LAST.fetch_add(1, Ordering::Relaxed);
            let name = format!("rackweave-scene-{}-{number}.pcapng", std::process::id());
            let path = std::env::temp_dir().join(name);
            let memory = rack.memory().clone();
            let capture = SharedCapture::create(&path, &CaptureOptions::default(), memory.clone());
            let capture = capture.expect("temporary files may be made");
            let ear = Ear {
                switch,
                seen: seen.clone(),
                capture: SwitchCapture(capture.clone()),
                memory,
            };
            let mut switch = rack.switch_at_mut(switch).expect("it is one of them");
            switch.set_tap(Some(Box::new(ear)));
            captures.push((capture, path));
        }
        Self { seen, captures }
    }

    /// Ends the recording: returns all packets in order. tshark, if it is installed, must accept
    /// all of them as well-formed.
    pub fn end(self, rack: &mut SimulatedRack) -> Vec<Seen> {
        for switch in 0..rack.topology().switches() {
            let mut switch = rack.switch_at_mut(switch).expect("it is one of them");
            switch.set_tap(None);
        }
        for (capture, path) in &self.captures {
            capture.finish().expect("the capture is whole");
            let output = Command::new("tshark")
                .arg("-r")
                .arg(path)
                .args(["-Y", "_ws.malformed"])
                .output();
            // A file that cannot be removed is no reason to fail.
            let _left = std::fs::remove_file(path);
            match output {
                Ok(output) => {
                    let text = String::from_utf8_lossy(&output.stdout);
                    assert!(output.status.success(), "tshark cannot read the capture");
                    assert!(text.trim().is_empty(), "malformed:\n{text}");
                }
                Err(_) => println!("tshark is not installed: nobody else has read the capture"),
            }
        }
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}
