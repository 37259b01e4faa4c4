//! Calls that a task awaits, on an executor that knows nothing about racks.

use super::AMPLE;
use core::time::Duration;
use rackweave_endpoint::flow::{PushError, Taken};
use rackweave_endpoint::index::{Access, Answer, Op};
use rackweave_rack::Rack;
use rackweave_rack::services::{
    CallError, CommitError, IndexOptions, IndexService, PageError, PageOptions, PageService,
    PageWorker, SequencerService, ready_within,
};
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

const TASKS: u64 = 4;
const ROUNDS: u64 = 5;

fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().build();
    runtime.expect("it needs nothing of the system")
}

fn workers(rack: &Rack, time_limit: Duration) -> [PageWorker; 2] {
    let options = PageOptions {
        time_limit,
        ..PageOptions::default()
    };
    let pages = PageService::new(rack, &options).expect("there is room");
    ["compute0", "compute1"].map(|name| {
        let node = rack.node(name).expect("it is here");
        pages.worker(&node).expect("there are workers")
    })
}

/// Tasks share a worker of each node, and change one page in turn.
pub fn tasks_change_a_page_in_turn(rack: &Rack) {
    let workers = workers(rack, AMPLE).map(Arc::new);
    let page = workers[0].allocate().expect("a page is free");
    let runtime = runtime();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let worker = Arc::clone(&workers[task as usize % 2]);
            runtime.spawn(async move {
                for _ in 0..ROUNDS {
                    let mut guard = worker.write_async(page).await?;
                    let counter = guard.data().u64_le(0) + 1;
                    guard.data_mut().write(0, &counter.to_le_bytes());
                    guard.commit_async().await?;
                }
                Ok::<_, PageError>(())
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(runtime.block_on(task).expect("no task panics"), Ok(()));
    }
    let read = runtime.block_on(workers[1].read_async(page));
    assert_eq!(read.map(|it| it.data().u64_le(0)), Ok(TASKS * ROUNDS));
    for worker in &workers {
        let flushed = runtime.block_on(worker.flush_async());
        assert!(flushed.is_ok(), "{flushed:?}");
    }
}

pub fn a_task_waits_no_longer_than_it_says(rack: &Rack) {
    let after = Duration::from_millis(200);
    let [here, there] = workers(rack, after);
    let page = here.allocate().expect("a page is free");
    let runtime = runtime();
    let mut latch = here.write(page).expect("nobody has it");
    let late = runtime.block_on(there.write_async(page)).map(drop);
    assert_eq!(late, Err(PageError::TimedOut { page, after }));
    // Nothing is left of it, nor of an abandoned one.
    drop(there.write_async(page));
    latch.data_mut().write(0, &[1]);
    rack.declare_dead(here.node());
    let lost = runtime.block_on(latch.commit_async());
    assert!(matches!(
        lost,
        Err(CommitError::Superseded(_) | CommitError::Fenced(_))
    ));
    assert!(runtime.block_on(there.write_async(page)).is_ok());
}

/// A producer and a consumer, in one thread: each waits for the other.
pub fn tasks_of_a_flow_wait_for_each_other(rack: &Rack) {
    const ITEMS: u64 = 100;
    let flow = rack.flow(["storage0"], ["compute0"]).item_bytes(64);
    // Two slots, so that both have to wait.
    let flow = flow.ring_bytes(128).build().expect("there is room");
    let (from, to) = (rack.node("storage0"), rack.node("compute0"));
    let (from, to) = (from.expect("it is here"), to.expect("it is here"));
    let mut producer = flow.take_producer(0).expect("it is here");
    let mut consumer = flow.take_consumer(0).expect("it is here");
    let runtime = runtime();
    let pushing = runtime.spawn(async move {
        for number in 0..ITEMS {
            let pushed = ready_within(&from, AMPLE, || {
                let pushed = producer.push(&number.to_le_bytes());
                (pushed != Err(PushError::Full)).then_some(pushed)
            });
            assert_eq!(pushed.await, Some(Ok(())));
        }
        producer.finish();
    });
    let popping = runtime.spawn(async move {
        let (mut item, mut numbers) = ([0; 64], Vec::new());
        loop {
            let came = ready_within(&to, AMPLE, || consumer.pop(&mut item).ready());
            match came.await.expect("something comes") {
                Taken::Items(()) => numbers.push(u64::from_le_bytes(*item.first_chunk().unwrap())),
                Taken::Ended => return numbers,
                other => panic!("{other:?}"),
            }
        }
    });
    runtime.block_on(pushing).expect("it does not panic");
    let numbers = runtime.block_on(popping).expect("it does not panic");
    assert_eq!(numbers, (0..ITEMS).collect::<Vec<_>>());
}

pub fn tasks_ask_an_index_and_a_sequencer(rack: &Rack) {
    let index = IndexService::new(rack, &IndexOptions::default()).expect("there is room");
    let sequencer = SequencerService::new(rack, 5).expect("there is room");
    let node = rack.node("compute0").expect("it is here");
    let mut keys = index
        .connect(&node, Access::OneSided)
        .expect("there is room");
    let mut numbers = sequencer.connect(&node).expect("there is room");
    let runtime = runtime();
    let asked = runtime.spawn(async move {
        let (key, value) = (7, &b"seven"[..]);
        let put = keys.execute_async(&Op::Put { key, value }).await;
        assert_eq!(put, Ok(Answer::Found(false)));
        // An abandoned operation leaves nothing that the next would get.
        drop(keys.execute_async(&Op::Get { key: 8 }));
        let got = keys.execute_async(&Op::Get { key }).await;
        assert_eq!(got, Ok(Answer::Value(Some(value.into()))));
        keys.set_time_limit(Duration::ZERO);
        let late = keys.execute_async(&Op::Get { key: 9 }).await;
        assert!(
            matches!(late, Ok(_) | Err(CallError::TimedOut { .. })),
            "{late:?}"
        );
    });
    let counted = runtime.spawn(async move {
        drop(numbers.next_async(3));
        numbers.next_async(4).await
    });
    runtime.block_on(asked).expect("it does not panic");
    let counted = runtime.block_on(counted).expect("it does not panic");
    let range = counted.expect("the switch answers");
    assert_eq!(range.end - range.start, 4);
    assert!(range.start >= 5, "{range:?}");
}
