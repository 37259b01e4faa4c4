//! Random columns and requests over a network that loses, duplicates and delays packets.

use super::super::*;
use super::setup::{Setup, numbers, texts};
use crate::messaging::MessagingConfig;
use crate::test_network::Faults;
use rackweave_base::Rng;
use std::collections::HashMap;

#[expect(
    clippy::too_many_lines,
    reason = "what a random history does, in its order"
)]
fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let config = MessagingConfig {
        receive_buffers: 1 + rng.below(4) as u8,
        receive_bytes: 1024 << rng.below(3),
        send_bytes: 0,
        message_max: 1 << 20,
        ..crate::messaging::tests::rig::small()
    };
    let client = ColumnClientConfig {
        window: 1 + rng.below(20) as u16,
        verify: true,
        ..ColumnClientConfig::default()
    };
    let server = ColumnServerConfig {
        queue_max: 1 + rng.below(5) as u16,
        lent_max: rng.below(4) as u16,
    };
    let mut setup = Setup::of(&config, seed, client, server);
    setup.rig.network.faults = Faults {
        loss: 0.02,
        duplicate: 0.02,
        delay: 0.05,
    };
    let memory = setup.rig.network.memory.clone();
    let mut removals = Vec::new();
    let mut versions: HashMap<u64, ColumnData> = HashMap::new();
    let mut asked = 0;
    let mut shown: HashMap<Ticket, Vec<u8>> = HashMap::new();
    while asked < 60 {
        let name = format!("c{}", rng.below(4));
        match rng.below(6) {
            0 => {
                let data = if rng.below(2) == 0 {
                    numbers(rng.below(1000) as i64, rng.below(3000))
                } else {
                    texts(rng.next_u64(), rng.below(2000))
                };
                removals.extend(setup.catalogue.replace(&memory, &name, &data).unwrap());
                versions.insert(data.version(), data);
            }
            1 if rng.below(4) == 0 => removals.extend(setup.catalogue.remove(&name)),
            2 => asked += u32::from(setup.client.ask_in_place(&name).is_ok()),
            3 => asked += u32::from(setup.client.ask_list().is_ok()),
            _ => asked += u32::from(setup.client.ask(&name, None).is_ok()),
        }
        for _ in 0..rng.below(30) {
            setup.step(&mut |piece: &ColumnPiece<'_>| {
                shown
                    .entry(piece.ticket)
                    .or_default()
                    .extend_from_slice(piece.bytes);
            });
        }
    }
    setup.client.finish();
    let mut reader = |piece: &ColumnPiece<'_>| {
        shown
            .entry(piece.ticket)
            .or_default()
            .extend_from_slice(piece.bytes);
    };
    setup.until_with(&mut reader, |setup| setup.client.is_finished());
    assert_eq!(setup.answers.len(), asked as usize, "seed {seed}");
    for answer in &setup.answers {
        match &answer.result {
            Ok(Reply::Column(data)) => assert_eq!(data, &versions[&data.version()]),
            Ok(Reply::Shown(header)) => {
                assert_eq!(shown[&answer.ticket], versions[&header.version].bytes());
            }
            Ok(Reply::List(columns)) => {
                let known =
                    |column: &ListedColumn| versions[&column.version].shape() == &column.shape;
                assert!(columns.iter().all(known), "seed {seed}");
            }
            Err(RequestError::Refused { code, .. }) => {
                assert_eq!(*code, RefusalCode::UNKNOWN_COLUMN, "seed {seed}");
            }
            other => panic!("seed {seed}: {other:?}"),
        }
    }
    setup.rest();
    assert!(removals.iter().all(Removal::is_done), "seed {seed}");
    drop(removals);
    setup.destroy();
}

#[test]
fn everything_asked_for_ends_once_and_whole() {
    for seed in 0..12 {
        run(seed);
    }
}
