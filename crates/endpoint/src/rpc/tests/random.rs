//! Random calls over random networks, against a model.

use super::rig::*;
use crate::rpc::{ClientConfig, RpcError, ServerConfig, Status};
use proptest::prelude::*;
use rackweave_base::{Duration, Rng};
use std::collections::HashMap;

/// The expected reply to a request.
type Expected = (Vec<u8>, Result<Vec<u8>, RpcError>);

fn request(rng: &mut Rng, number: u32) -> (u16, Expected) {
    let mut bytes = number.to_le_bytes().to_vec();
    match rng.next_u32() % 8 {
        0 => {
            let length = rng.next_u32() % 4000;
            let bytes = length.to_le_bytes().to_vec();
            let result = match length {
                0..=3000 => Ok((0..length).map(|at| at as u8).collect()),
                _ => Err(RpcError::Refused(Status::REPLY_TOO_LARGE)),
            };
            (SIZED, (bytes, result))
        }
        1 => (99, (bytes, Err(RpcError::Refused(Status::UNKNOWN_METHOD)))),
        2 => (REFUSE, (bytes, Err(RpcError::Refused(REFUSAL)))),
        kind => {
            let more = rng.next_u32() as usize % if kind == 3 { 2996 } else { 20 };
            bytes.extend((0..more).map(|_| rng.next_u32() as u8));
            let back = bytes.iter().rev().copied().collect();
            (ECHO, (bytes, Ok(back)))
        }
    }
}

fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.next_u32() as usize % choices.len()]
}

/// Every request is answered once, with its own reply, and is executed once, in the order of its
/// client; no receiver is ever found not ready.
fn run(seed: u64, faults: Faults) {
    let mut rng = Rng::new(seed);
    let server = ServerConfig {
        receives: pick(&mut rng, &[8, 9, 32]),
        send_buffers: pick(&mut rng, &[1, 2, 16]),
        batch_bytes: pick(&mut rng, &[0, 236, 1024, u32::MAX]),
        completions_max: pick(&mut rng, &[1, 64]),
        ..small_server()
    };
    let mut rig = Rig::new(2, seed, server);
    rig.network.faults = faults;
    for at in 0..3 {
        let client = ClientConfig {
            window: pick(&mut rng, &[1, 7, 100]),
            send_buffers: pick(&mut rng, &[1, 2, 16]),
            batch_bytes: pick(&mut rng, &[0, 236, 1024, u32::MAX]),
            completions_max: pick(&mut rng, &[1, 64]),
            ..small_client()
        };
        rig.join(1 + at % 2, client);
    }
    let mut model: Vec<HashMap<_, _>> = vec![HashMap::new(); 3];
    let mut served: Vec<Vec<Vec<u8>>> = vec![Vec::new(); 3];
    let check = |rig: &mut Rig, model: &mut Vec<HashMap<_, Expected>>| {
        for (client, model) in rig.clients.iter_mut().zip(model) {
            for end in client.ends.drain(..) {
                let (_, expected) = model.remove(&end.ticket).expect("it was under way");
                assert_eq!(end.result, expected, "seed {seed}");
            }
        }
    };
    for number in 0..300 {
        let at = rng.next_u32() as usize % 3;
        let (method, expected) = request(&mut rng, number);
        match rig.clients[at].client.begin_with(method, &expected.0) {
            Ok(ticket) => {
                served[at].push(expected.0.clone());
                assert!(model[at].insert(ticket, expected).is_none());
            }
            Err(error) => assert!(matches!(error, RpcError::WindowFull { .. }), "{error}"),
        }
        rig.awake = !rng.next_u32().is_multiple_of(4);
        for _ in 0..rng.next_u32() % 4 {
            rig.step();
        }
        check(&mut rig, &mut model);
    }
    rig.awake = true;
    rig.settle();
    check(&mut rig, &mut model);
    assert!(model.iter().all(HashMap::is_empty), "seed {seed}");
    for (client, expect) in served.iter().enumerate() {
        let of_client = rig
            .recorder
            .served
            .iter()
            .filter(|(c, _)| *c == client as u32);
        let found: Vec<_> = of_client.map(|(_, bytes)| bytes.clone()).collect();
        assert_eq!(found, *expect, "seed {seed}");
    }
    for node in 0..3 {
        assert_eq!(rig.nic_counter(node, "out_of_buffer"), 0, "seed {seed}");
    }
    let bad: u64 = rig
        .clients
        .iter()
        .map(|s| s.client.counters().unknown_replies)
        .sum();
    assert_eq!((bad, rig.server().counters().stray_completions), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_request_has_its_own_answer(seed: u64) {
        run(seed, Faults::default());
    }

    #[test]
    fn every_request_has_its_own_answer_over_a_bad_network(seed: u64) {
        run(seed, Faults { loss: 0.02, duplicate: 0.02, delay: 0.05 });
    }

    /// With time-outs and failures: each request ends once, and what was answered was executed.
    #[test]
    fn every_request_ends_once(seed: u64) {
        let mut rng = Rng::new(seed);
        let client = ClientConfig {
            window: pick(&mut rng, &[1, 7, 60]),
            timeout: Duration::from_micros(pick(&mut rng, &[5, 30, 300])),
            ..small_client()
        };
        let mut rig = Rig::pair(client, small_server());
        rig.network.faults = Faults { loss: 0.02, duplicate: 0.02, delay: 0.05 };
        let mut begun = 0;
        let dies_at = rng.next_u32() % 400;
        for number in 0..300u32 {
            begun += u64::from(rig.begin(ECHO, &number.to_le_bytes()).is_ok());
            rig.awake = !rng.next_u32().is_multiple_of(4);
            if number == dies_at {
                rig.network.dead.push(SERVER);
            }
            for _ in 0..rng.next_u32() % 3 {
                rig.step();
            }
        }
        rig.awake = true;
        rig.settle();
        let (client, recorder) = (&rig.clients[0], &rig.recorder);
        prop_assert_eq!(client.ends.len() as u64, begun);
        let counters = client.client.counters();
        let ended = counters.answered + counters.timed_out + counters.disconnected;
        prop_assert_eq!(ended, begun);
        for end in &client.ends {
            if let Ok(bytes) = &end.result {
                let request: Vec<u8> = bytes.iter().rev().copied().collect();
                let times = recorder.served.iter().filter(|(_, other)| *other == request).count();
                prop_assert_eq!(times, 1);
            }
        }
        prop_assert_eq!(client.client.under_way(), 0);
    }
}
