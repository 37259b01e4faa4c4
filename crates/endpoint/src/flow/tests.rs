//! Producer and consumer with a switch that the test plays.

use super::*;
use rackweave_base::Memory;
use rackweave_wire::fabric::ring::{
    NODE_WORD, NodeState, NodeWord, SWITCH_WORD, SwitchState, SwitchWord,
};

fn layout(order: ByteOrder) -> RingLayout {
    RingLayout {
        item_size: 16,
        slots: 4,
        order,
    }
}

fn block() -> Block {
    Memory::new(1 << 20)
        .allocate(ring::region_bytes(96, 4) as usize)
        .unwrap()
}

/// The switch writes a word.
fn switch_says(block: &Block, order: ByteOrder, counter: u32, state: SwitchState) {
    block.write(
        SWITCH_WORD as usize,
        &order.to_bytes(SwitchWord { counter, state }.into()),
    );
}

/// The word that the switch reads.
fn node_says(block: &Block, order: ByteOrder) -> NodeWord {
    let mut bytes = [0; 8];
    block.read(NODE_WORD as usize, &mut bytes);
    NodeWord::try_from(order.from_bytes(bytes)).unwrap()
}

#[test]
fn a_producer_fills_the_ring_and_goes_on_when_the_tail_moves() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let block = block();
        switch_says(&block, order, 0, SwitchState::Open);
        let mut producer = Producer::new(&block, layout(order)).unwrap();
        for item in 0..4 {
            producer.push(&[item; 16]).unwrap();
        }
        assert_eq!(producer.push(&[9; 16]), Err(PushError::Full));
        assert_eq!(
            node_says(&block, order),
            NodeWord {
                counter: 4,
                state: NodeState::Open
            }
        );
        switch_says(&block, order, 3, SwitchState::Open);
        assert_eq!(
            producer.reserve(8).unwrap().len(),
            3 * 16,
            "three slots are free"
        );
        producer.reserve(8).unwrap().slice(..16).fill(7);
        producer.commit(1);
        producer.finish();
        assert_eq!(
            node_says(&block, order),
            NodeWord {
                counter: 5,
                state: NodeState::Finished
            }
        );
        assert_eq!(producer.push(&[1; 16]), Err(PushError::Finished));
        assert!(!producer.is_delivered());
        switch_says(&block, order, 5, SwitchState::Open);
        assert!(producer.is_delivered());
    }
}

#[test]
fn a_consumer_takes_what_is_published_and_sees_the_end() {
    let (block, order) = (block(), ByteOrder::Little);
    switch_says(&block, order, 0, SwitchState::Open);
    let mut consumer = Consumer::new(&block, layout(order)).unwrap();
    assert_eq!(consumer.peek(9), Taken::Empty);
    block.write(ITEMS_AT, &[5; 32]);
    switch_says(&block, order, 2, SwitchState::Open);
    assert_eq!(
        consumer.peek(1).map(|items| items.to_vec()),
        Taken::Items(vec![5; 16])
    );
    assert_eq!(
        consumer.peek(9).map(|items| items.to_vec()),
        Taken::Items(vec![5; 32])
    );
    consumer.release(1);
    assert_eq!(node_says(&block, order).counter, 1);
    switch_says(&block, order, 2, SwitchState::Ended);
    let mut item = [0; 16];
    assert_eq!(
        consumer.pop(&mut item),
        Taken::Items(()),
        "the end comes after the last item"
    );
    assert_eq!(item, [5; 16]);
    assert_eq!(consumer.pop(&mut item), Taken::Ended);
}

const ITEMS_AT: usize = ring::ITEMS as usize;

#[test]
fn a_word_that_makes_no_sense_breaks_the_flow_off() {
    let (block, order) = (block(), ByteOrder::Little);
    switch_says(&block, order, 77, SwitchState::Open);
    let mut consumer = Consumer::new(&block, layout(order)).unwrap();
    assert_eq!(consumer.peek(1), Taken::Aborted);
    let mut producer = Producer::new(&block, layout(order)).unwrap();
    assert!(producer.is_aborted());
}

#[test]
fn a_broken_off_flow_tells_both_ends() {
    let (block, order) = (block(), ByteOrder::Little);
    switch_says(&block, order, 0, SwitchState::Open);
    let mut producer = Producer::new(&block, layout(order)).unwrap();
    for _ in 0..4 {
        producer.push(b"item").unwrap();
    }
    switch_says(&block, order, 0, SwitchState::Aborted);
    assert_eq!(producer.push(b"item"), Err(PushError::Aborted));
    assert_eq!(
        producer.push(&[0; 17]),
        Err(PushError::TooLong { len: 17, slot: 16 }),
        "a wrong argument is told first"
    );
}

#[test]
fn bad_shapes_are_refused() {
    let check = |item_size, slots| {
        let layout = RingLayout {
            item_size,
            slots,
            order: ByteOrder::Little,
        };
        Producer::new(&block(), layout).unwrap_err().to_string()
    };
    assert_eq!(
        check(16, 3),
        "a ring of 3 slots; a power of two from 2 to 2^30 is needed"
    );
    assert_eq!(check(12, 4), "items of 12 bytes; a multiple of 8 is needed");
    assert_eq!(
        check(16, 1024),
        "the ring needs 16512 bytes, its block has 512"
    );
}

#[test]
fn a_partitioner_keeps_rows_whole_and_sends_each_key_to_one_place() {
    let order = ByteOrder::Little;
    let blocks = [block(), block()];
    let layout = RingLayout {
        item_size: 96,
        slots: 2,
        order,
    };
    let mut producers = Vec::new();
    for block in &blocks {
        switch_says(block, order, 0, SwitchState::Open);
        producers.push(Producer::new(block, layout).unwrap());
    }
    let mut partitioner = Partitioner::new(producers, 16);
    let mut pushed = 0;
    for key in 0..8u64 {
        let write = |row: &mut [u8]| {
            row[..8].copy_from_slice(&key.to_le_bytes());
            row[8..].copy_from_slice(&(key * 10).to_le_bytes());
        };
        match partitioner.push(key, write) {
            Ok(()) => pushed += 1,
            Err(error) => assert_eq!(error, PushError::Full),
        }
    }
    assert!(partitioner.finish().is_ok() || pushed < 8);
    let mut seen = 0;
    for (at, block) in blocks.iter().enumerate() {
        let items = node_says(block, order).counter as usize;
        for slot in 0..items {
            let mut item = [0; 96];
            block.read(ITEMS_AT + slot * 96, &mut item);
            for row in Partitioner::rows(&item, 16).unwrap() {
                let key = u64::from_le_bytes(row[..8].try_into().unwrap());
                assert_eq!(partitioner.destination(key), at);
                assert_eq!(row[8..], (key * 10).to_le_bytes());
                seen += 1;
            }
        }
    }
    assert!(seen > 0 && seen <= pushed);
    assert!(
        Partitioner::rows(&[255; 96], 16).is_none(),
        "nonsense is not taken for rows"
    );
}
