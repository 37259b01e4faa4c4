//! Sets up flows of broadcasts, and joins those of others. On threads of their own: the controller
//! may not answer.

use super::super::link::Link;
use super::super::{Shared, held};
use super::Broadcasts;
use crate::flow::Flow;
use rackweave_controller::{FlowError, LossPolicy};
use rackweave_endpoint::exchange::Frame;
use rackweave_endpoint::flow::Consumer;
use rackweave_wire::fabric::exchange::{FrameKind, StreamNumber};
use std::collections::BTreeSet;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// Bytes of an item: a broadcast fills whole items, so large ones waste memory bandwidth.
const ITEM_BYTES: u32 = 4 << 10;

/// Bytes of a ring.
const RING_BYTES: u32 = 1 << 20;

/// A consumer of a flow of this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct FlowConsumer {
    pub generation: u64,
    pub consumer: u32,
}

/// Whether the node at the other end of a connection takes this node's broadcasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in super::super) enum Membership {
    /// It has not been asked.
    #[default]
    None,
    /// A consumer is being made for it.
    BeingMade,
    /// It has been asked to take what comes to a consumer.
    Asked(FlowConsumer),
    /// It does.
    Joined(FlowConsumer),
    /// It does not, or there can be no flow to it. Another connection may have better luck.
    Refused,
}

/// A consumer of another node's flow, or that it can't be had.
pub(in super::super) struct Joining {
    pub link: Arc<Link>,
    pub number: u32,
    pub consumer: Option<Consumer>,
}

/// The thread that sets up the flow.
pub(super) struct Worker {
    tasks: mpsc::Sender<Task>,
    thread: JoinHandle<()>,
}

enum Task {
    Add(Arc<Link>),
    Remove(FlowConsumer),
}

impl Worker {
    fn start(shared: &Arc<Shared>) -> std::io::Result<Self> {
        let (tasks, todo) = mpsc::channel();
        let shared = shared.clone();
        let named = std::thread::Builder::new().name("exchange-flows".into());
        let thread = named.spawn(move || {
            let mut flow = None;
            for task in todo {
                handle(&shared, &mut flow, task);
            }
        })?;
        Ok(Self { tasks, thread })
    }

    /// Ends it, and its flow, as soon as the controller has answered.
    pub fn end(self) -> JoinHandle<()> {
        self.thread
    }
}

/// The flow that runs.
struct Running {
    flow: Flow,
    generation: u64,
    consumers: BTreeSet<u32>,
}

fn handle(shared: &Shared, flow: &mut Option<Running>, task: Task) {
    let ended = |running: &Running| !shared.broadcasts.runs(running.generation);
    if flow.as_ref().is_some_and(ended) {
        *flow = None;
    }
    match task {
        Task::Add(link) => match add(shared, flow, &link) {
            Ok((made, name)) => {
                *held(&link.membership) = Membership::Asked(made);
                let payload = [&made.consumer.to_le_bytes()[..], name.as_bytes()].concat();
                link.send_control(Frame {
                    opcode: FrameKind::Join.opcode(StreamNumber::CONNECTION),
                    payload,
                });
                shared.wake();
                // Its end may not have seen the consumer.
                if link.multiplexer().gone().is_some() {
                    remove(shared, flow, made);
                }
            }
            Err(_) => *held(&link.membership) = Membership::Refused,
        },
        Task::Remove(consumer) => remove(shared, flow, consumer),
    }
}

/// A consumer for the node at the other end of a connection, and the flow's name.
fn add(
    shared: &Shared,
    flow: &mut Option<Running>,
    link: &Link,
) -> Result<(FlowConsumer, String), FlowError> {
    let peer = link.multiplexer().peer().clone();
    let name = |flow: &Flow| format!("exchange.broadcasts.{}", flow.id().0);
    if let Some(running) = flow {
        let consumer = running.flow.add_consumer(&*peer)? as u32;
        running.consumers.insert(consumer);
        let generation = running.generation;
        let made = FlowConsumer {
            generation,
            consumer,
        };
        return Ok((made, name(&running.flow)));
    }
    let builder = shared.rack.flow([shared.node.id()], [&*peer]).replicated();
    let builder = builder.item_bytes(ITEM_BYTES).ring_bytes(RING_BYTES);
    let made = builder.on_loss(LossPolicy::Report).build()?;
    let name = name(&made);
    made.share(&name)?;
    let producer = made.take_producer(0)?;
    let mut state = held(&shared.broadcasts.0);
    if state.is_closed {
        return Err(FlowError::NotHere);
    }
    state.generation += 1;
    state.is_running = true;
    state.producer = Some(producer);
    let generation = state.generation;
    drop(state);
    *flow = Some(Running {
        flow: made,
        generation,
        consumers: BTreeSet::from([0]),
    });
    let consumer = 0;
    Ok((
        FlowConsumer {
            generation,
            consumer,
        },
        name,
    ))
}

/// Removes a consumer whose connection has ended. A flow without consumers is closed.
fn remove(shared: &Shared, flow: &mut Option<Running>, consumer: FlowConsumer) {
    let Some(running) = flow else { return };
    if running.generation != consumer.generation || !running.consumers.remove(&consumer.consumer) {
        return;
    }
    if running.consumers.is_empty() {
        shared.lose_broadcasts(running.generation);
        *flow = None;
        return;
    }
    // One whose node is dead, or that has left, is lost to the flow already, or will be soon.
    let _ = running.flow.remove_consumer(consumer.consumer as usize);
}

impl Shared {
    /// Asks the node at the other end of a connection to take this node's broadcasts.
    pub(super) fn set_up(self: &Arc<Self>, link: &Arc<Link>) {
        *held(&link.membership) = Membership::BeingMade;
        if !self.queue_task(Task::Add(link.clone())) {
            *held(&link.membership) = Membership::Refused;
        }
    }

    fn queue_task(self: &Arc<Self>, task: Task) -> bool {
        let Broadcasts(state) = &self.broadcasts;
        let mut state = held(state);
        if state.is_closed {
            return false;
        }
        if state.worker.is_none() {
            state.worker = Worker::start(self).ok();
        }
        let worker = state.worker.as_ref();
        worker.is_some_and(|worker| worker.tasks.send(task).is_ok())
    }

    /// A connection has ended: its node gets no broadcasts any more.
    pub(in super::super) fn leave_broadcasts(self: &Arc<Self>, link: &Link) {
        let membership = core::mem::take(&mut *held(&link.membership));
        if let Membership::Asked(consumer) | Membership::Joined(consumer) = membership {
            self.queue_task(Task::Remove(consumer));
        }
    }

    /// The peer's answer.
    pub(in super::super) fn handle_joined(self: &Arc<Self>, link: &Link, takes: bool) {
        let mut membership = held(&link.membership);
        let Membership::Asked(consumer) = *membership else {
            return;
        };
        *membership = match takes {
            true => Membership::Joined(consumer),
            false => Membership::Refused,
        };
        drop(membership);
        if !takes {
            self.queue_task(Task::Remove(consumer));
        }
    }

    /// Joins the flow of a peer's broadcasts, and hands the consumer to the exchange's thread.
    pub(in super::super) fn join_broadcasts(
        self: &Arc<Self>,
        link: &Arc<Link>,
        number: u32,
        name: String,
    ) {
        let joining = {
            let (shared, link) = (self.clone(), link.clone());
            move || {
                let found = shared.rack.shared_flow(&name);
                let consumer = found.and_then(|flow| flow.take_consumer(number as usize));
                let joining = Joining {
                    link,
                    number,
                    consumer: consumer.ok(),
                };
                held(&shared.links).joined.push(joining);
                shared.wake();
            }
        };
        let named = std::thread::Builder::new().name("exchange-joins".into());
        if named.spawn(joining).is_err() {
            let (link, consumer) = (link.clone(), None);
            let joining = Joining {
                link,
                number,
                consumer,
            };
            held(&self.links).joined.push(joining);
        }
    }
}
