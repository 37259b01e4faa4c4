//! Messages of random lengths in all modes, over bad networks.

use super::rig::{Rig, pattern, small};
use crate::messaging::{Arrived, MessagingConfig};
use crate::test_network::Faults;
use rackweave_base::{Duration, Rng};

fn config(rng: &mut Rng) -> MessagingConfig {
    let receive_buffers = 1 + rng.below(7) as u8;
    MessagingConfig {
        receive_buffers,
        receive_bytes: 1024 + 64 * rng.below(40) as u32,
        send_bytes: *rng.pick(&[0, 1024, 4096, 20_032]),
        keepalive: Duration::from_millis(20),
        ..small()
    }
}

/// One way to send a message; returns true when it is accepted completely.
struct Sending {
    payload: Vec<u8>,
    way: u64,
    begun: bool,
    written: usize,
}

impl Sending {
    fn go_on(&mut self, rig: &mut Rig, number: u32) -> bool {
        let sender = rig.sender();
        if self.way == 0 && self.payload.len() <= sender.piece_max() {
            return sender.try_send(number, &self.payload).unwrap();
        }
        if !self.begun {
            sender.begin(number, self.payload.len() as u64).unwrap();
            self.begun = true;
        }
        if self.way == 1 {
            let mut space = sender.space();
            let len = space.len().min(self.payload.len() - self.written).min(333);
            space.write(0, &self.payload[self.written..self.written + len]);
            sender.commit(len);
            self.written += len;
        } else {
            self.written += sender.write(&self.payload[self.written..]);
        }
        // An empty message has no bytes to write, but may still wait for space.
        self.written == self.payload.len() && !rig.sender().is_writing()
    }
}

fn play(seed: u64) {
    let mut rng = Rng::new(seed);
    let (compute, storage) = (config(&mut rng), config(&mut rng));
    let mut rig = Rig::of(&compute, &storage, seed);
    rig.network.faults = Faults {
        loss: rng.fraction() * 0.05,
        duplicate: rng.fraction() * 0.05,
        delay: rng.fraction() * 0.1,
    };
    let count = 40;
    let lengths = [0, 1, 64, 900, 3000, 30_000];
    let (mut sent, mut received) = (0, 0);
    let mut sending: Option<Sending> = None;
    let mut target = Vec::new();
    let expect = |number: u32| {
        pattern(u64::from(number) ^ seed << 8, {
            let mut rng = Rng::new(u64::from(number) ^ seed);
            let most = *rng.pick(&lengths);
            rng.below(most + 1) as usize
        })
    };
    for _ in 0..2_000_000 {
        if rng.chance(0.7) && sent < count {
            let now = sending.take().unwrap_or_else(|| Sending {
                payload: expect(sent),
                way: rng.below(3),
                begun: false,
                written: 0,
            });
            let mut now = now;
            if now.go_on(&mut rig, sent) {
                sent += 1;
                if sent == count {
                    rig.sender().finish().unwrap();
                }
            } else {
                sending = Some(now);
            }
        }
        if rng.chance(0.4) {
            match rig.receiver().peek().unwrap() {
                Arrived::Piece(_) => {}
                Arrived::Empty => {}
                Arrived::Finished => {
                    assert_eq!(received, count, "seed {seed}");
                    rig.run(Duration::from_millis(10));
                    assert!(rig.sender().is_consumed(), "seed {seed}");
                    rig.destroy();
                    return;
                }
            }
            if let Some(info) = rig.receiver().receive_into(&mut target).unwrap() {
                assert_eq!(info.opcode, received, "seed {seed}");
                assert_eq!(target, expect(received), "seed {seed}, message {received}");
                target.clear();
                received += 1;
            }
        }
        rig.step(Duration::from_millis(1));
    }
    panic!("seed {seed}: {received} of {sent} messages of {count} after all that time");
}

#[test]
fn everything_arrives_once_and_in_order() {
    for seed in 0..40 {
        play(seed);
    }
}
