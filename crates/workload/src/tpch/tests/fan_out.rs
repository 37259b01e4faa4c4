//! Workers of flows whose producers do not choose, over a fake switch and against the reference.

use super::fake_switch::FakeFlow;
use super::scale;
use crate::tpch::*;
use rackweave_base::Rng;
use rackweave_endpoint::flow::ITEM_HEADER;

const ITEM_BYTES: u32 = (ITEM_HEADER + 7 * LineitemRow::BYTES) as u32;

/// The encoded rows of both tables, as vectors.
fn rows(factor: f64, part: Part) -> [Vec<u8>; 2] {
    [
        order_rows(scale(factor), part).flatten().collect(),
        lineitem_rows(scale(factor), part).flatten().collect(),
    ]
}

/// Moves everything from `source` to `sink`, in an order drawn from the seed.
fn move_all(
    flow: &mut FakeFlow,
    source: &mut TableWorker,
    mut sink: impl FnMut(usize) -> WorkerStep,
) -> WorkerStep {
    let mut rng = Rng::new(11);
    for _ in 0..1_000_000 {
        source.step(rng.below(100) as usize);
        flow.turn(&mut rng);
        let step = sink(rng.below(100) as usize);
        if matches!(step, WorkerStep::Done | WorkerStep::Aborted) {
            return step;
        }
    }
    panic!("it does not end (seed 11)");
}

#[test]
fn parts_of_q1_add_up_to_the_reference() {
    let mut parts = Vec::new();
    for part in 0..3 {
        let mut flow = FakeFlow::new(1, 1, ITEM_BYTES, 4);
        let [_, lines] = rows(0.002, Part::new(part, 3).unwrap());
        let mut source = TableWorker::lineitem(lines, flow.producer(0, 0));
        let mut sink = Q1Worker::new(flow.consumer(0));
        let end = move_all(&mut flow, &mut source, |rows| sink.step(rows));
        assert_eq!(end, WorkerStep::Done);
        assert!(source.is_delivered());
        parts.push(sink.into_result().unwrap());
    }
    let expected = reference(scale(0.002));
    let found = QueryResult::merge(parts);
    assert_eq!(found.q1, expected.q1);
    assert_eq!(found.rows.lineitem, expected.rows.lineitem);
}

#[test]
fn a_replica_says_what_it_saw() {
    let mut flow = FakeFlow::new(1, 1, ITEM_BYTES, 4);
    let [orders, _] = rows(0.002, Part::WHOLE);
    let mut source = TableWorker::orders(orders.clone(), flow.producer(0, 0));
    let mut sink = ReplicaWorker::new(flow.consumer(0));
    let end = move_all(&mut flow, &mut source, |rows| sink.step(rows));
    assert_eq!(end, WorkerStep::Done);
    let seen = sink.into_result().unwrap();
    assert_eq!(seen, source.digest());
    assert_eq!(seen.rows, expected_rows(scale(0.002)).orders);
    // Other orders and other rows have different digests.
    let digest = |rows: Vec<u8>| {
        TableWorker::orders(rows, FakeFlow::new(1, 1, ITEM_BYTES, 4).producer(0, 0)).digest()
    };
    let mut turned = orders.clone();
    turned.rotate_left(OrderRow::BYTES);
    let turned = digest(turned);
    assert_eq!((turned.rows, turned.sum), (seen.rows, seen.sum));
    assert_ne!(turned.order, seen.order);
    let mut changed = orders;
    changed[17] ^= 1;
    assert_ne!(digest(changed).sum, seen.sum);
}

#[test]
fn a_partial_adds_whole_items_and_refuses_malformed_ones() {
    let [_, lines] = rows(0.001, Part::WHOLE);
    let mut item = vec![0; ITEM_HEADER];
    item[..4].copy_from_slice(b"RWit");
    item[4] = 3;
    item.extend_from_slice(&lines[..3 * LineitemRow::BYTES]);
    let mut partial = Q1Partial::default();
    assert_eq!(partial.add_item(&item), Ok(3));
    assert_eq!(partial.rows(), 3);
    item[0] = b'x';
    assert!(matches!(
        partial.add_item(&item),
        Err(WorkerError::Item { .. })
    ));
    item[0] = b'R';
    item[ITEM_HEADER + 2] = 0;
    assert!(matches!(
        partial.add_item(&item),
        Err(WorkerError::Row { .. })
    ));
}

#[test]
fn a_broken_off_flow_ends_both_workers() {
    let mut flow = FakeFlow::new(1, 1, ITEM_BYTES, 4);
    let [orders, _] = rows(0.002, Part::WHOLE);
    let mut source = TableWorker::orders(orders, flow.producer(0, 0));
    let mut sink = ReplicaWorker::new(flow.consumer(0));
    source.step(50);
    flow.abort();
    assert_eq!(source.step(50), WorkerStep::Aborted);
    assert!(source.error().is_some());
    assert_eq!(sink.step(50), WorkerStep::Aborted);
    assert!(sink.into_result().is_err());
}
