//! A compute node's housekeeper: a thread that frees frames and notifies the owner of evicted
//! pages.

use super::cache::Cache;
use super::channel::{Channel, RECEIVED, kind};
use super::message::Message;
use super::next;
use crate::baseline::requests::poll;
use crate::harness::drive::{Failure, Program};
use core::cell::RefCell;
use rackweave_sim::Category;
use rackweave_sim::world::{Context, Step};
use rackweave_verbs::CqId;
use std::collections::VecDeque;
use std::rc::Rc;

/// Maximum requests to the owner in flight.
pub const TAGS: u32 = 64;

/// Completions taken in one step.
const POLL: usize = 8;

/// A housekeeper.
pub struct Housekeeper {
    /// Its node's cache.
    pub cache: Rc<RefCell<Cache>>,
    /// The completion queue of its requests.
    pub cq: CqId,
    /// The connection to the owner.
    pub channel: Channel,
    /// Tags without a request in flight.
    pub free: Vec<u16>,
    /// Drops that wait for a free tag.
    pub waiting: VecDeque<Message>,
}

impl Program for Housekeeper {
    fn turn(&mut self, context: &mut Context<'_>) -> Result<Step, Failure> {
        let completions = poll(context, self.cq, POLL)?;
        for completion in completions.iter().filter(|one| kind(one.id) == RECEIVED) {
            match self.channel.receive(context, completion)? {
                (tag, Message::Dropped) => self.free.push(tag),
                (_, other) => return Err(format!("the owner sent a housekeeper {other:?}")),
            }
        }
        let mut cache = self.cache.borrow_mut();
        let (looks, dropped) = cache.evict();
        self.waiting.extend(dropped);
        let cost = context.cpu().cache_latency * u64::from(looks);
        context.charge(Category::Communication, cost);
        while let Some(&tag) = self.free.last()
            && let Some(message) = self.waiting.pop_front()
        {
            self.free.pop();
            self.channel.send(context, tag, &message)?;
        }
        if cache.take_stirred() {
            context.wake_neighbours();
        }
        Ok(next(looks > 0 || !completions.is_empty()))
    }
}
