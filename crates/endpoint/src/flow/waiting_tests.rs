//! Calls that wait, and the word that doorbells carry.

use super::fake::{Act, FakeSwitch};
use super::*;

fn layout(order: ByteOrder) -> RingLayout {
    RingLayout {
        item_size: 16,
        slots: 4,
        order,
    }
}

fn fake() -> FakeSwitch {
    FakeSwitch::new(layout(ByteOrder::Little), layout(ByteOrder::Big), 0)
}

fn items(count: u8) -> Vec<u8> {
    (0..count).flat_map(|item| [item; 16]).collect()
}

#[test]
fn a_full_ring_is_waited_for() {
    let fake = fake();
    let mut producer = fake.producer();
    assert_eq!(producer.push_batch(&items(6)), Ok(4));
    assert_eq!(producer.push_batch(&items(1)), Err(PushError::Full));
    assert_eq!(producer.push_batch(&[0; 15]), Ok(0), "no whole item");
    fake.will(&[Act::Nothing, Act::Nothing, Act::Move(1)]);
    assert_eq!(producer.push_wait(&fake, &[9; 16]), Ok(()));
    assert_eq!(fake.relaxed.load(core::sync::atomic::Ordering::Relaxed), 2);
    fake.will(&[Act::Nothing, Act::Move(2)]);
    assert_eq!(producer.reserve_wait(&fake, 9).unwrap().len(), 2 * 16);
    assert_eq!(producer.head(), 5);
}

#[test]
fn everything_is_pushed_however_little_room_there_is() {
    let fake = fake();
    let (mut producer, mut consumer) = (fake.producer(), fake.consumer());
    let sent = items(8);
    assert_eq!(producer.push_all(&fake, &sent[..7 * 16 + 3]), Ok(()));
    producer.finish();
    let mut got = vec![0xff; 16 * 16];
    let mut count = 0;
    loop {
        match consumer.pop_batch_wait(&fake, &mut got[count..]) {
            Taken::Items(items) => count += items as usize * 16,
            taken => break assert_eq!(taken, Taken::Ended),
        }
    }
    assert_eq!(count, 8 * 16);
    assert_eq!(got[..7 * 16 + 3], sent[..7 * 16 + 3]);
    assert_eq!(got[7 * 16 + 3..count], [0; 13], "the last is filled up");
}

#[test]
fn an_item_is_waited_for() {
    let fake = fake();
    let (mut producer, mut consumer) = (fake.producer(), fake.consumer());
    producer.push_batch(&items(3)).unwrap();
    fake.will(&[Act::Nothing, Act::Move(2)]);
    let taken = consumer.peek_wait(&fake, 9).map(|items| items.to_vec());
    assert_eq!(taken, Taken::Items(items(2)));
    consumer.release(2);
    let mut item = [0; 16];
    assert_eq!(consumer.pop_wait(&fake, &mut item), Taken::Items(()));
    assert_eq!(item, [2; 16]);
    producer.finish();
    assert_eq!(consumer.peek_wait(&fake, 9), Taken::Ended);
    assert_eq!(consumer.pop_wait(&fake, &mut item), Taken::Ended);
}

#[test]
fn who_waits_hears_that_the_flow_was_broken_off() {
    let broken = || {
        let fake = fake();
        let mut producer = fake.producer();
        producer.push_batch(&items(4)).unwrap();
        fake.will(&[Act::Nothing, Act::Abort]);
        (fake, producer)
    };
    let (fake, mut producer) = broken();
    assert_eq!(producer.push_wait(&fake, &[1]), Err(PushError::Aborted));
    let (fake, mut producer) = broken();
    assert_eq!(
        producer.reserve_wait(&fake, 1).err(),
        Some(PushError::Aborted)
    );
    let (fake, mut producer) = broken();
    assert_eq!(producer.push_all(&fake, &items(2)), Err(PushError::Aborted));
    assert_eq!(producer.head(), 4);
    let (fake, _producer) = broken();
    let mut consumer = fake.consumer();
    assert_eq!(consumer.peek_wait(&fake, 1), Taken::Aborted);
    let (fake, _producer) = broken();
    assert_eq!(
        fake.consumer().pop_wait(&fake, &mut [0; 16]),
        Taken::Aborted
    );
    let (fake, _producer) = broken();
    let mut consumer = fake.consumer();
    assert_eq!(consumer.pop_batch_wait(&fake, &mut [0; 64]), Taken::Aborted);
}

#[test]
fn a_finished_producer_does_not_wait() {
    let fake = fake();
    let mut producer = fake.producer();
    producer.push_batch(&items(4)).unwrap();
    producer.finish();
    let finished = Err(PushError::Finished);
    assert_eq!(producer.push_wait(&fake, &[1]), finished);
    assert_eq!(producer.push_all(&fake, &items(1)), finished);
    assert_eq!(producer.push_batch(&items(1)), Err(PushError::Finished));
    assert_eq!(
        producer.reserve_wait(&fake, 1).err(),
        Some(PushError::Finished)
    );
    let long = [0; 17];
    let too_long = PushError::TooLong { len: 17, slot: 16 };
    assert_eq!(producer.push_wait(&fake, &long), Err(too_long));
}

#[test]
fn what_was_shown_stays_shown() {
    let fake = fake();
    let (mut producer, mut consumer) = (fake.producer(), fake.consumer());
    producer.push_batch(&items(3)).unwrap();
    fake.transfer(3);
    assert_eq!(
        consumer.peek(1).map(|items| items.to_vec()),
        Taken::Items(items(1))
    );
    // First the word goes back, then it is invalid.
    fake.target.say(1, ring::SwitchState::Aborted);
    assert_eq!(consumer.pop_batch(&mut [0; 64]), Taken::Items(3));
    fake.target.block.write(ring::SWITCH_WORD as usize, &[0; 8]);
    assert_eq!(consumer.peek(1), Taken::Aborted);
}

#[test]
fn the_node_word_is_told_as_it_lies_in_memory() {
    for (order, expect) in [
        (ByteOrder::Little, [1, 0, 0x57, 0x52, 2, 0, 0, 0]),
        (ByteOrder::Big, [0, 0, 0, 2, 0x52, 0x57, 0, 1]),
    ] {
        let fake = FakeSwitch::new(layout(order), layout(order), 0);
        let (mut producer, mut consumer) = (fake.producer(), fake.consumer());
        producer.push_batch(&items(2)).unwrap();
        assert_eq!(producer.node_word(), expect);
        fake.transfer(2);
        consumer.peek(2);
        consumer.release(2);
        assert_eq!(consumer.node_word(), expect);
        for (ring, word) in [
            (&fake.source, producer.node_word()),
            (&fake.target, consumer.node_word()),
        ] {
            let mut bytes = [0; 8];
            ring.block.read(ring::NODE_WORD as usize, &mut bytes);
            assert_eq!(bytes, word);
        }
    }
}

#[test]
fn a_partitioner_waits_for_room_and_is_told_of_the_end() {
    // Two rows in an item, and more items than the ring has slots.
    let layout = |order| RingLayout {
        item_size: 128,
        ..layout(order)
    };
    let pair = || FakeSwitch::new(layout(ByteOrder::Little), layout(ByteOrder::Big), 0);
    let fake = pair();
    let mut partitioner = Partitioner::new(vec![fake.producer()], 32);
    for row in 0..13u8 {
        let pushed = partitioner.push_wait(&fake, row.into(), |bytes| bytes.fill(row));
        assert_eq!(pushed, Ok(()));
    }
    assert_eq!(partitioner.finish_wait(&fake), Ok(()));
    let (mut consumer, mut item, mut rows) = (fake.consumer(), [0; 128], Vec::new());
    while let Taken::Items(()) = consumer.pop_wait(&fake, &mut item) {
        let found = Partitioner::rows(&item, 32).expect("it is an item of rows");
        rows.extend(found.map(|row| row[31]));
    }
    assert!(rows.iter().copied().eq(0..13), "{rows:?}");
    let fake = pair();
    let mut partitioner = Partitioner::new(vec![fake.producer()], 32);
    fake.will(&[Act::Abort]);
    let ended = (0..100).find_map(|key| partitioner.push_wait(&fake, key, |_| ()).err());
    assert_eq!(ended, Some(PushError::Aborted));
}
