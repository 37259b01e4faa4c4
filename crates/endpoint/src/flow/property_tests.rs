//! Any mixture of the forms of push and pop moves the same bytes in the same order, and a
//! partitioner delivers all rows unchanged.

use super::fake::{FakeSwitch, Ring};
use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

const ITEM: usize = 24;

#[derive(Clone, Debug)]
enum Op {
    Push { short: usize },
    PushBatch { items: usize, rest: usize },
    Reserve { items: u32, commit: u32 },
    Pop,
    PopBatch { items: usize, rest: usize },
    Peek { items: u32, release: u32 },
    Transfer { items: u32 },
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0..ITEM).prop_map(|short| Op::Push { short }),
        (0..12usize, 0..ITEM).prop_map(|(items, rest)| Op::PushBatch { items, rest }),
        (1..12u32, 0..12u32).prop_map(|(items, commit)| Op::Reserve { items, commit }),
        Just(Op::Pop),
        (1..12usize, 0..ITEM).prop_map(|(items, rest)| Op::PopBatch { items, rest }),
        (1..12u32, 0..12u32).prop_map(|(items, release)| Op::Peek { items, release }),
        (1..12u32).prop_map(|items| Op::Transfer { items }),
    ]
}

fn orders() -> impl Strategy<Value = ByteOrder> {
    prop_oneof![Just(ByteOrder::Little), Just(ByteOrder::Big)]
}

fn layouts() -> impl Strategy<Value = RingLayout> {
    (1..4u32, orders()).prop_map(|(bits, order)| RingLayout {
        item_size: ITEM as u32,
        slots: 1 << bits,
        order,
    })
}

/// Both ends, and the expected items between them.
struct Model {
    fake: FakeSwitch,
    producer: Producer,
    consumer: Consumer,
    pushed: u8,
    waiting: VecDeque<Vec<u8>>,
}

impl Model {
    fn items(&self, count: usize, rest: usize) -> Vec<u8> {
        (0..count * ITEM + rest)
            .map(|at| self.pushed.wrapping_add((at / ITEM) as u8) ^ (at % ITEM) as u8)
            .collect()
    }

    fn put(&mut self, bytes: &[u8]) {
        for item in bytes.chunks_exact(ITEM) {
            self.waiting.push_back(item.to_vec());
            self.pushed = self.pushed.wrapping_add(1);
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for item in bytes.chunks_exact(ITEM) {
            let expect = self.waiting.pop_front();
            assert_eq!(Some(item), expect.as_deref());
        }
    }

    /// The number of free slots that the producer must find.
    fn capacity(&self) -> u32 {
        let tail = self.fake.source.tail_said();
        self.fake.source.layout.slots - self.producer.head().wrapping_sub(tail)
    }

    fn act(&mut self, op: Op) {
        match op {
            Op::Push { short } => {
                let mut item = self.items(1, 0);
                item[ITEM - short..].fill(0);
                let room = self.capacity();
                match self.producer.push(&item[..ITEM - short]) {
                    Ok(()) => self.put(&item),
                    Err(error) => assert_eq!((error, room), (PushError::Full, 0)),
                }
            }
            Op::PushBatch { items, rest } => {
                let bytes = self.items(items, rest);
                let room = self.capacity();
                match self.producer.push_batch(&bytes) {
                    Ok(count) => {
                        assert_eq!(
                            count,
                            room.min(items as u32),
                            "as many as there is room for"
                        );
                        self.put(&bytes[..count as usize * ITEM]);
                    }
                    Err(error) => assert_eq!((error, room), (PushError::Full, 0)),
                }
            }
            Op::Reserve { items, commit } => {
                let bytes = self.items(items as usize, 0);
                let Ok(mut slots) = self.producer.reserve(items) else {
                    return assert_eq!(self.capacity(), 0);
                };
                let len = slots.len();
                slots.copy_from(&bytes[..len]);
                let commit = commit.min((len / ITEM) as u32);
                self.producer.commit(commit);
                self.put(&bytes[..commit as usize * ITEM]);
            }
            Op::Pop => {
                let mut item = [0; ITEM];
                if self.consumer.pop(&mut item) == Taken::Items(()) {
                    self.take(&item);
                }
            }
            Op::PopBatch { items, rest } => {
                let mut bytes = vec![0; items * ITEM + rest];
                let head = self.fake.target.tail_said();
                let ready = head.wrapping_sub(self.consumer.tail());
                match self.consumer.pop_batch(&mut bytes) {
                    Taken::Items(count) => {
                        assert_eq!(count, ready.min(items as u32), "as many as there are");
                        self.take(&bytes[..count as usize * ITEM]);
                    }
                    taken => assert_eq!((taken, ready), (Taken::Empty, 0)),
                }
            }
            Op::Peek { items, release } => {
                if let Taken::Items(bytes) = self.consumer.peek(items) {
                    let count = (bytes.len() / ITEM) as u32;
                    assert!(count > 0 && count <= items);
                    let release = release.min(count);
                    let bytes = bytes.slice(..release as usize * ITEM).to_vec();
                    self.consumer.release(release);
                    self.take(&bytes);
                }
            }
            Op::Transfer { items } => {
                self.fake.transfer(items);
            }
        }
    }
}

proptest! {
    #[test]
    fn all_forms_move_the_same_bytes_in_order(
        source in layouts(),
        target in layouts(),
        start in prop_oneof![Just(0), Just(u32::MAX - 5), any::<u32>()],
        ops in prop::collection::vec(ops(), 1..120),
    ) {
        let fake = FakeSwitch::new(source, target, start);
        let mut model = Model {
            producer: fake.producer(),
            consumer: fake.consumer(),
            fake,
            pushed: 0,
            waiting: VecDeque::new(),
        };
        for op in ops {
            model.act(op);
        }
        model.producer.finish();
        let mut item = [0; ITEM];
        loop {
            model.fake.transfer(u32::MAX);
            match model.consumer.pop(&mut item) {
                Taken::Items(()) => model.take(&item),
                taken => {
                    prop_assert_eq!(taken, Taken::Ended);
                    break;
                }
            }
        }
        prop_assert!(model.waiting.is_empty(), "{} items are lost", model.waiting.len());
        prop_assert!(model.producer.is_delivered());
    }

    #[test]
    fn rows_come_out_of_a_partitioner_as_they_went_in(
        stores in prop_oneof![Just(Stores::Cached), Just(Stores::Streaming)],
        row_size in 8..300usize,
        item_words in prop_oneof![48..60u32, 1000..2000u32],
        destinations in 1..4usize,
        keys in prop::collection::vec(any::<u64>(), 0..1500),
    ) {
        let layout = RingLayout {
            item_size: item_words * 8,
            slots: 2,
            order: ByteOrder::Little,
        };
        let flow = |_| FakeSwitch::new(layout, layout, 0);
        let flows: Vec<FakeSwitch> = (0..destinations).map(flow).collect();
        let producers = flows.iter().map(FakeSwitch::producer).collect();
        let mut consumers: Vec<Consumer> = flows.iter().map(FakeSwitch::consumer).collect();
        let mut partitioner = Partitioner::with_stores(producers, row_size, stores);
        let mut expect: Vec<VecDeque<Vec<u8>>> = vec![VecDeque::new(); destinations];
        // Slots contain data from before.
        for flow in &flows {
            let old = vec![0xee; 2 * layout.item_size as usize];
            flow.source.block.write(ring::ITEMS as usize, &old);
        }
        let mut drain = |expect: &mut Vec<VecDeque<Vec<u8>>>| {
            for ((flow, consumer), expect) in flows.iter().zip(&mut consumers).zip(expect) {
                flow.transfer(u32::MAX);
                while let Taken::Items(_) = consumer.take_each(1, |item| {
                    let rows = Partitioner::rows(item, row_size).expect("an item of rows");
                    let used = ITEM_HEADER + rows.map(|row| {
                        assert_eq!(Some(row), expect.pop_front().as_deref());
                        row_size
                    }).sum::<usize>();
                    assert!(item[used..].iter().all(|&byte| byte == 0), "the rest is zero");
                }) {}
            }
        };
        for (at, &key) in keys.iter().enumerate() {
            let row: Vec<u8> = (0..row_size).map(|byte| (at * 31 + byte * 7) as u8).collect();
            let mut pushed = partitioner.push(key, |slot| slot.copy_from_slice(&row));
            if pushed == Err(PushError::Full) {
                drain(&mut expect);
                pushed = partitioner.push(key, |slot| slot.copy_from_slice(&row));
            }
            prop_assert_eq!(pushed, Ok(()));
            expect[partitioner.destination(key)].push_back(row);
        }
        while partitioner.finish() == Err(PushError::Full) {
            drain(&mut expect);
        }
        drain(&mut expect);
        prop_assert!(expect.iter().all(VecDeque::is_empty), "rows are missing");
        prop_assert!(partitioner.is_delivered());
    }
}

impl Ring {
    /// The counter of the word that the switch wrote.
    fn tail_said(&self) -> u32 {
        let mut bytes = [0; 8];
        self.block.read(ring::SWITCH_WORD as usize, &mut bytes);
        (self.layout.order.from_bytes(bytes) >> 32) as u32
    }
}
