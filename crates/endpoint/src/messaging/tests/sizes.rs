//! Buffers and channels of all sizes, and configurations that are refused.

use super::rig::{COMPUTE, Rig, STORAGE, pattern, small, terms};
use crate::messaging::{
    Agreed, ConfigError, MessagingConfig, NodeTerms, Prepared, Refusal, Role, SetUpError,
};
use crate::test_network::Network;
use rackweave_base::{Duration, KeyRng, Rng};

#[test]
fn sizes_are_free_and_differ_by_side() {
    for (buffers, bytes, send) in [
        (1, 1024, 0),
        (7, 4096, 1024),
        (2, 64 << 10, 3072),
        (5, 1088, 9024),
    ] {
        let compute = MessagingConfig {
            receive_buffers: 2,
            send_bytes: send,
            ..small()
        };
        let storage = MessagingConfig {
            receive_buffers: buffers,
            receive_bytes: bytes,
            ..small()
        };
        let mut rig = Rig::of(&compute, &storage, 3);
        for length in [10, 1023, 5000, 70_000] {
            let payload = pattern(length as u64, length);
            assert_eq!(rig.carry(1, &payload).1, payload, "{buffers} of {bytes}");
        }
        rig.destroy();
    }
}

#[test]
fn channels_have_buffers_of_their_own() {
    let config = MessagingConfig {
        receive_buffers: 7,
        channels_up: 3,
        channels_down: 2,
        ..small()
    };
    let mut rig = Rig::new(&config);
    let counts = [&rig.nodes[COMPUTE], &rig.nodes[STORAGE]]
        .map(|connection| (connection.senders.len(), connection.receivers.len()));
    assert_eq!(counts, [(3, 2), (2, 3)]);
    // A channel with a slow receiver does not delay the others.
    for channel in 0..3 {
        let sender = &mut rig.nodes[COMPUTE].senders[channel];
        while sender
            .try_send(channel as u32, &[channel as u8; 900])
            .unwrap()
        {}
    }
    rig.run(Duration::from_millis(1));
    let mut took = [0; 3];
    for _ in 0..10 {
        for (channel, took) in took.iter_mut().enumerate().skip(1) {
            let mut target = Vec::new();
            let receiver = &mut rig.nodes[STORAGE].receivers[channel];
            while let Some(info) = receiver.receive_into(&mut target).unwrap() {
                assert_eq!(info.opcode as usize, channel);
                assert_eq!(target, [channel as u8; 900]);
                target.clear();
                *took += 1;
            }
            let sender = &mut rig.nodes[COMPUTE].senders[channel];
            while sender
                .try_send(channel as u32, &[channel as u8; 900])
                .unwrap()
            {}
        }
        rig.run(Duration::from_millis(1));
    }
    assert!(took[1] > 10 && took[2] > 10, "{took:?}");
    rig.destroy();
}

#[test]
fn configurations_that_make_no_sense_are_refused() {
    let check = |change: fn(&mut MessagingConfig), error: ConfigError| {
        let mut config = small();
        change(&mut config);
        assert_eq!(config.check(Role::Storage), Err(error));
    };
    check(|c| c.receive_buffers = 0, ConfigError::ReceiveBuffers(0));
    check(|c| c.receive_buffers = 8, ConfigError::ReceiveBuffers(8));
    for bytes in [0, 512, 1000, (1 << 30) + 64] {
        let config = MessagingConfig {
            receive_bytes: bytes,
            ..small()
        };
        let error = Err(ConfigError::ReceiveBytes(bytes));
        assert_eq!(config.check(Role::Compute), error);
    }
    check(|c| c.channels_up = 0, ConfigError::Channels(0));
    check(|c| c.channels_down = 8, ConfigError::Channels(8));
    check(
        |c| c.channels_up = 4,
        ConfigError::BuffersForChannels {
            channels: 4,
            buffers: 3,
        },
    );
    check(
        |c| c.send_bytes = 1000,
        ConfigError::SendBytes {
            bytes: 1000,
            channels: 1,
        },
    );
    check(|c| c.message_max = 0, ConfigError::MessageMax);
    check(|c| c.retries = 8, ConfigError::Retries(8));
}

#[test]
fn nodes_that_do_not_fit_are_refused() {
    let check = |change: fn(&mut NodeTerms), refusal: Refusal| {
        let (mine, mut theirs) = (terms(0, &small()), terms(1, &small()));
        change(&mut theirs);
        assert_eq!(Agreed::new(Role::Storage, mine, theirs), Err(refusal));
    };
    check(
        |t| t.fabric = 8,
        Refusal::ForeignRack { mine: 7, theirs: 8 },
    );
    check(|t| t.receive_buffers = 0, Refusal::ReceiveBuffers(0));
    check(|t| t.receive_buffers = 8, Refusal::ReceiveBuffers(8));
    check(|t| t.receive_bytes = 100, Refusal::ReceiveBytes(100));
    check(|t| t.channels_up = 0, Refusal::Channels(0));
    check(|t| t.channels_down = 200, Refusal::Channels(200));
    check(|t| t.message_max = 0, Refusal::MessageMax);

    // A node that accepts any rack, and the smaller value of both nodes.
    let (mine, mut theirs) = (terms(0, &small()), terms(1, &small()));
    (theirs.fabric, theirs.message_max, theirs.channels_up) = (0, 10, 7);
    let agreed = Agreed::new(Role::Compute, mine, theirs).unwrap();
    assert_eq!((agreed.message_max, agreed.channels_up), (10, 1));
}

#[test]
fn what_cannot_be_made_leaves_nothing_behind() {
    let mut network = Network::new(1, 1);
    let config = MessagingConfig {
        receive_buffers: 7,
        receive_bytes: 1 << 30,
        ..small()
    };
    let agreed = Agreed::new(Role::Storage, terms(0, &config), terms(1, &config)).unwrap();
    let mut rng = KeyRng::seeded(Rng::new(1));
    let nic = &mut network.nics[0];
    let made = Prepared::new(nic, &network.memory, &config, &agreed, &mut rng);
    let Err(SetUpError::Memory { what, error }) = made else {
        panic!("7 GiB are not there");
    };
    assert_eq!(what, "the receive buffers");
    assert!(
        error.to_string().contains("7516192768 bytes asked for"),
        "{error}"
    );
    assert_eq!(network.memory.bytes_in_use(), 0);

    // The NIC has 64 regions and 32 completion queues: 16 connections.
    let agreed = Agreed::new(Role::Storage, terms(0, &small()), terms(1, &small())).unwrap();
    let mut held = Vec::new();
    let error = loop {
        match Prepared::new(nic, &network.memory, &small(), &agreed, &mut rng) {
            Ok(prepared) => held.push(prepared),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, SetUpError::Cq(_)), "{error}");
    assert_eq!(held.len(), 16);
    for prepared in held {
        prepared.abandon(nic);
    }
    assert_eq!(network.memory.bytes_in_use(), 0);
    let again = Prepared::new(nic, &network.memory, &small(), &agreed, &mut rng).unwrap();
    let mut theirs = again.keys();
    theirs.queue_pairs.pop();
    let error = again.connect(network.now, nic, &theirs).unwrap_err();
    assert_eq!(
        error,
        SetUpError::QueuePairs {
            theirs: 1,
            channels: 2
        }
    );
    let again = Prepared::new(nic, &network.memory, &small(), &agreed, &mut rng).unwrap();
    let mut theirs = again.keys();
    theirs.receive.address = u64::MAX - 7;
    let error = again.connect(network.now, nic, &theirs).unwrap_err();
    assert!(matches!(error, SetUpError::Address { .. }), "{error}");
    assert_eq!(network.memory.bytes_in_use(), 0);
}
