//! The ring under every order of accesses that the memory model allows.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p rackweave-link --release --test all`.

use loom::alloc::Track;
use loom::thread;
use rackweave_link::Doorbells;
use rackweave_link::ring::{Consumer, Producer, ring};

fn push<T>(producer: &mut Producer<T>, item: T) {
    let mut item = item;
    while let Err(back) = producer.push(item) {
        item = back;
        thread::yield_now();
    }
}

fn pop<T>(consumer: &mut Consumer<T>) -> T {
    loop {
        match consumer.pop() {
            Some(item) => return item,
            None => thread::yield_now(),
        }
    }
}

/// Passes `items` items through a ring of `capacity`, each end on its own thread. `preemptions`
/// bounds the forced interruptions of a thread; `None` means any number.
fn pass(capacity: usize, items: usize, preemptions: Option<usize>) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.check(move || {
        let (mut producer, mut consumer) = ring(capacity);
        let thread = thread::spawn(move || {
            for item in 0..items {
                push(&mut producer, Track::new(item));
            }
        });
        for expect in 0..items {
            assert_eq!(*pop(&mut consumer).get_ref(), expect);
        }
        thread.join().unwrap();
        assert!(consumer.pop().is_none(), "an item came twice");
    });
}

#[test]
fn items_arrive_once_and_in_order_when_every_slot_is_used_again() {
    pass(1, 3, None);
}

#[test]
fn items_arrive_once_and_in_order_over_the_wrap() {
    pass(2, 3, None);
    // Two rounds are too many for every order; bugs of such rings show with few preemptions.
    pass(2, 5, Some(2));
}

#[test]
fn a_full_ring_refuses_and_room_never_promises_too_much() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring(2);
        let thread = thread::spawn(move || {
            let mut pushed = 0;
            for _ in 0..3 {
                let free = producer.free();
                assert!(free <= 2);
                if free > 0 {
                    producer
                        .push(Track::new(pushed))
                        .map_err(|_| ())
                        .expect("space was promised");
                    pushed += 1;
                }
            }
            pushed
        });
        let mut popped = 0;
        while let Some(item) = consumer.pop() {
            assert_eq!(*item.get_ref(), popped);
            popped += 1;
        }
        let pushed = thread.join().unwrap();
        while let Some(item) = consumer.pop() {
            assert_eq!(*item.get_ref(), popped);
            popped += 1;
        }
        assert_eq!(pushed, popped);
    });
}

#[test]
fn an_end_may_go_while_the_other_works() {
    // `Track` makes a leaked item fail the model.
    loom::model(|| {
        let (mut producer, consumer) = ring(2);
        let thread = thread::spawn(move || {
            for item in 0..2 {
                let _ = producer.push(Track::new(item));
            }
            producer.is_consumer_gone()
        });
        drop(consumer);
        thread.join().unwrap();
    });
    loom::model(|| {
        let (mut producer, mut consumer) = ring(2);
        let thread = thread::spawn(move || {
            producer.push(Track::new(0)).map_err(|_| ()).unwrap();
        });
        let early = consumer.pop().is_some();
        thread.join().unwrap();
        assert!(consumer.is_producer_gone());
        assert_eq!(consumer.pop().is_none(), early);
    });
}

/// The counters of the ring between processes, around slots of plain numbers.
mod between_processes {
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;
    use rackweave_link::shared_memory::protocol::{ReceiveEnd, SendEnd, Words};

    /// The memory that both processes map, and the descriptor that each sleeps on. The slots give
    /// no ordering by themselves: a slot read too early or written too late shows another item.
    struct Segment {
        slots: Vec<AtomicUsize>,
        receiver: Event,
        sender: Event,
    }

    /// Like an eventfd: remembers a write until it is read.
    #[derive(Default)]
    struct Event(Mutex<bool>, Condvar);

    impl Event {
        fn write(&self) {
            *self.0.lock().unwrap() = true;
            self.1.notify_one();
        }

        /// Sleeps until it is written to. If it never is, loom finds the deadlock.
        fn wait(&self) {
            let mut written = self.0.lock().unwrap();
            while !*written {
                written = self.1.wait(written).unwrap();
            }
            *written = false;
        }
    }

    fn push(send: &mut SendEnd<Arc<Words>>, segment: &Segment, item: usize) {
        loop {
            if let Some(slot) = send.reserve().unwrap() {
                segment.slots[slot as usize].store(item, Ordering::Relaxed);
                if send.publish() {
                    segment.receiver.write();
                }
                return;
            }
            if send.prepare_sleep().unwrap() {
                segment.sender.wait();
            }
            send.end_sleep();
        }
    }

    fn pop(receive: &mut ReceiveEnd<Arc<Words>>, segment: &Segment) -> usize {
        loop {
            if let Some(slot) = receive.peek().unwrap() {
                let item = segment.slots[slot as usize].load(Ordering::Relaxed);
                if receive.release() {
                    segment.sender.write();
                }
                return item;
            }
            if receive.settle() {
                segment.sender.write();
            }
            if receive.prepare_sleep().unwrap() {
                segment.receiver.wait();
            }
            receive.end_sleep();
        }
    }

    /// Passes `items` items; an end with nothing to do sleeps until it is woken.
    fn pass(capacity: u32, items: usize, preemptions: Option<usize>) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = preemptions;
        model.check(move || {
            let words = Arc::new(Words::new(u32::MAX));
            let segment = Arc::new(Segment {
                slots: (0..capacity)
                    .map(|_| AtomicUsize::new(usize::MAX))
                    .collect(),
                receiver: Event::default(),
                sender: Event::default(),
            });
            let mut send = SendEnd::new(words.clone(), capacity);
            let mut receive = ReceiveEnd::new(words, capacity);
            let theirs = segment.clone();
            let thread = thread::spawn(move || {
                for item in 0..items {
                    push(&mut send, &theirs, item);
                }
            });
            for expect in 0..items {
                assert_eq!(pop(&mut receive, &segment), expect);
            }
            // Like a process that has nothing more to do.
            let _sender_waits = receive.settle();
            thread.join().unwrap();
            assert_eq!(receive.peek().unwrap(), None, "an item came twice");
        });
    }

    #[test]
    fn a_sleeping_receiver_is_woken() {
        pass(2, 1, None);
        pass(2, 2, Some(3));
    }

    #[test]
    fn a_sender_without_room_is_woken() {
        pass(1, 2, Some(3));
        pass(2, 3, Some(2));
    }
}

#[test]
fn what_a_doorbell_announces_is_found_or_it_still_rings() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring(2);
        let doorbells = Doorbells::new(1);
        let doorbell = doorbells.doorbell(0);
        let thread = thread::spawn(move || {
            for item in 0..2 {
                push(&mut producer, item);
                doorbell.ring();
            }
        });
        let mut found = 0;
        for _ in 0..2 {
            if doorbells.any() {
                doorbells.take(0);
                found += core::iter::from_fn(|| consumer.pop()).count();
            }
        }
        thread.join().unwrap();
        if found < 2 {
            assert!(doorbells.any(), "a ring was lost");
            found += core::iter::from_fn(|| consumer.pop()).count();
        }
        assert_eq!(found, 2);
    });
}
