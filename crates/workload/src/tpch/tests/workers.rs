//! Workers with a fake switch, compared to the reference.

use super::fake_switch::FakeFlow;
use super::{flow, scale};
use crate::tpch::worker::{LINEITEM, ORDERS};
use crate::tpch::*;
use rackweave_base::Rng;

/// A rack in which everything happens in an order drawn from the seed.
struct Rack {
    orders: FakeFlow,
    lineitem: FakeFlow,
    storage: Vec<StorageWorker>,
    compute: Vec<ComputeWorker>,
    rng: Rng,
}

impl Rack {
    fn new(factor: f64, storage: usize, compute: usize, (item_size, slots): (u32, u32)) -> Self {
        let orders = FakeFlow::new(storage, compute, item_size, slots);
        let lineitem = FakeFlow::new(storage, compute, item_size, slots);
        let worker = |part| {
            StorageWorker::new(
                scale(factor),
                part as u32,
                storage as u32,
                orders.partitioner(part, OrderRow::BYTES),
                lineitem.partitioner(part, LineitemRow::BYTES),
            )
            .unwrap()
        };
        let storage = (0..storage).map(worker).collect();
        let compute = (0..compute)
            .map(|at| ComputeWorker::new(orders.consumer(at), lineitem.consumer(at)))
            .collect();
        Self {
            orders,
            lineitem,
            storage,
            compute,
            rng: Rng::new(7),
        }
    }

    /// Runs until all workers are done or have given up, or `rounds` are over. Returns the last
    /// step of each.
    fn run(&mut self, rounds: usize) -> Vec<WorkerStep> {
        let is_over = |step: &WorkerStep| matches!(step, WorkerStep::Done | WorkerStep::Aborted);
        let mut last = Vec::new();
        for _ in 0..rounds {
            last.clear();
            for worker in &mut self.storage {
                last.push(worker.step(self.rng.below(300) as usize));
            }
            self.orders.turn(&mut self.rng);
            self.lineitem.turn(&mut self.rng);
            for worker in &mut self.compute {
                last.push(worker.step(self.rng.below(300) as usize));
            }
            if last.iter().all(is_over) {
                break;
            }
        }
        last
    }

    fn result(self) -> QueryResult {
        QueryResult::merge(
            self.compute
                .into_iter()
                .map(|worker| worker.into_result().unwrap()),
        )
    }
}

#[test]
fn workers_over_flows_answer_as_the_reference_does() {
    let expect = reference(scale(0.003));
    assert_eq!(expect.rows.orders, 4500);
    for (storage, compute, ring) in [
        (1, 1, (128, 2)),
        (2, 2, (1 << 10, 4)),
        (3, 2, (1 << 12, 8)),
        (1, 4, (1 << 16, 16)),
    ] {
        for prepared in [0, 1, 3] {
            let mut rack = Rack::new(0.003, storage, compute, ring);
            let mut rows_prepared = 0;
            for worker in &mut rack.storage {
                match prepared {
                    0 => {}
                    1 => worker.prepare(),
                    // Only some of the orders; the rest is generated while pushing.
                    _ => rows_prepared += worker.prepare_step(700).unwrap(),
                }
            }
            let last = rack.run(usize::MAX);
            assert!(
                last.iter().all(|step| *step == WorkerStep::Done),
                "{last:?}"
            );
            assert!(rack.storage.iter_mut().all(StorageWorker::is_delivered));
            let pushed: u64 = rack
                .storage
                .iter()
                .map(|worker| worker.pushed().total())
                .sum();
            assert_eq!(pushed, expect.rows.total());
            assert_eq!(
                rows_prepared,
                if prepared == 3 {
                    700 * storage as u64
                } else {
                    0
                }
            );
            let result = rack.result();
            assert_eq!(result, expect, "{storage} to {compute} over {ring:?}");
            assert_eq!(result.checksum(), expect.checksum());
        }
    }
}

#[test]
fn steps_report_every_row_and_byte() {
    let mut rack = Rack::new(0.001, 1, 1, (1 << 20, 8));
    assert_eq!(
        rack.storage[0].step(100),
        WorkerStep::Worked {
            rows: 100,
            bytes: 3200
        }
    );
    rack.storage[0].prepare();
    let rest = rack.storage[0].prepared_bytes();
    let WorkerStep::Worked { rows, bytes } = rack.storage[0].step(usize::MAX) else {
        panic!("there is room for everything");
    };
    assert_eq!(bytes, rest as u64);
    assert_eq!(rows + 100, reference(scale(0.001)).rows.total());
    assert_eq!(rack.storage[0].step(1), WorkerStep::Done);
    assert_eq!(rack.storage[0].pushed().bytes(), bytes + 3200);
    assert_eq!(
        rack.compute[0].step(1),
        WorkerStep::Blocked,
        "the switch has moved nothing yet"
    );
    assert!(!rack.storage[0].is_delivered());
}

#[test]
fn a_row_that_found_no_room_is_not_lost_by_preparing() {
    let expect = reference(scale(0.001));
    let mut rack = Rack::new(0.001, 1, 1, (128, 2));
    while rack.storage[0].step(1) != WorkerStep::Blocked {}
    // One row is held back. This prepares nothing of the other table.
    assert_eq!(rack.storage[0].prepare_step(5), Some(5));
    rack.storage[0].prepare();
    assert_eq!(rack.storage[0].prepare_step(5), None);
    rack.run(usize::MAX);
    assert_eq!(rack.result(), expect);
}

#[test]
fn orders_end_before_line_items_begin() {
    let mut rack = Rack::new(0.001, 2, 1, (1 << 16, 16));
    while rack.storage[0].step(1000) != WorkerStep::Done {}
    for _ in 0..100 {
        rack.orders.turn(&mut rack.rng);
        rack.lineitem.turn(&mut rack.rng);
        rack.compute[0].step(1000);
    }
    let consumed = rack.compute[0].consumed();
    assert_eq!(
        consumed,
        RowCounts {
            orders: 750,
            lineitem: 0
        },
        "the other node has orders yet"
    );
    assert_eq!(rack.compute[0].step(1), WorkerStep::Blocked);
    rack.run(usize::MAX);
    assert_eq!(rack.result(), reference(scale(0.001)));
}

#[test]
fn a_flow_that_is_broken_off_is_reported_by_everyone() {
    for table in [ORDERS, LINEITEM] {
        let mut rack = Rack::new(0.01, 2, 2, (1 << 10, 4));
        rack.run(20);
        match table {
            ORDERS => rack.orders.abort(),
            _ => rack.lineitem.abort(),
        }
        let last = rack.run(10_000);
        assert!(
            last.iter().all(|step| *step == WorkerStep::Aborted),
            "{last:?}"
        );
        let error = WorkerError::Aborted { table };
        assert!(
            rack.storage
                .iter()
                .all(|worker| worker.error() == Some(error))
        );
        assert!(
            rack.compute
                .iter()
                .all(|worker| worker.error() == Some(error))
        );
        for worker in rack.compute {
            assert_eq!(worker.into_result().unwrap_err(), error);
        }
    }
}

#[test]
fn a_flow_that_is_broken_off_with_room_left_is_reported_at_its_end() {
    let mut rack = Rack::new(0.001, 1, 1, (1 << 20, 8));
    rack.orders.abort();
    assert_eq!(rack.storage[0].step(usize::MAX), WorkerStep::Aborted);
    assert_eq!(rack.storage[0].step(1), WorkerStep::Aborted);
}

#[test]
fn a_partitioner_for_other_rows_is_reported() {
    for (order_bytes, line_bytes, table, row_bytes) in
        [(48, 64, ORDERS, 32), (32, 32, LINEITEM, 64)]
    {
        let flow = FakeFlow::new(1, 1, 1 << 16, 32);
        let mut worker = StorageWorker::new(
            scale(0.001),
            0,
            1,
            flow.partitioner(0, order_bytes),
            flow.partitioner(0, line_bytes),
        )
        .unwrap();
        assert_eq!(worker.step(1 << 20), WorkerStep::Aborted);
        assert_eq!(
            worker.error(),
            Some(WorkerError::RowSize { table, row_bytes })
        );
    }
}

#[test]
fn results_are_not_given_before_the_end() {
    let (mut orders, lineitem) = (flow(), flow());
    let worker = ComputeWorker::new(orders.consumer(0), lineitem.consumer(0));
    assert_eq!(
        worker.into_result(),
        Err(WorkerError::NotDone { table: ORDERS })
    );
    let mut worker = ComputeWorker::new(orders.consumer(0), lineitem.consumer(0));
    orders.end(0);
    assert_eq!(worker.step(1), WorkerStep::Blocked);
    assert_eq!(
        worker.into_result(),
        Err(WorkerError::NotDone { table: LINEITEM })
    );
}

/// Takes about three seconds in a debug build, most of them in the generator.
#[test]
fn q1_at_scale_factor_1_is_the_published_answer() {
    let expect = reference(scale(1.0));
    assert_eq!(
        expect.q1.iter().map(Q1Row::rounded).collect::<Vec<_>>(),
        published_q1_sf1()
    );
    assert!(expect.matches_published_q1());
    assert_eq!(
        expect.rows,
        RowCounts {
            orders: 1_500_000,
            lineitem: 6_001_215
        }
    );

    let mut rack = Rack::new(1.0, 2, 2, (1 << 16, 16));
    rack.run(usize::MAX);
    assert_eq!(rack.result(), expect);
}
