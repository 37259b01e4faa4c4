//! A compute node's housekeeper: a thread that frees frames and notifies the owner of evicted
//! pages.

use super::cache::Cache;
use super::channel::{Channel, RECEIVED, kind};
use super::message::Message;
use super::next;
use crate::baseline::requests::poll;
use crate::harness::drive::{Program, Turn};
use core::cell::RefCell;
use rackweave_sim::Category;
use rackweave_sim::world::Context;
use rackweave_verbs::CqId;
use std::collections::VecDeque;
use std::rc::Rc;

/// Maximum requests to the owner in flight.
pub const TAGS: u32 = 64;

/// Completions taken in one step.
const POLL: usize = 8;

/// A housekeeper: its node's cache, the completion queue of its requests, and the connection to the
/// owner.
pub fn housekeeper(cache: Rc<RefCell<Cache>>, cq: CqId, channel: Channel) -> impl Program {
    // Tags without a request in flight, and drops that wait for one.
    let mut free: Vec<u16> = (0..TAGS as u16).rev().collect();
    let mut waiting: VecDeque<Message> = VecDeque::new();
    move |context: &mut Context<'_>| -> Turn {
        let completions = poll(context, cq, POLL)?;
        for completion in completions.iter().filter(|one| kind(one.id) == RECEIVED) {
            match channel.receive(context, completion)? {
                (tag, Message::Dropped) => free.push(tag),
                (_, other) => return Err(format!("the owner sent a housekeeper {other:?}")),
            }
        }
        let mut cache = cache.borrow_mut();
        let (looks, dropped) = cache.evict();
        waiting.extend(dropped);
        let cost = context.cpu().cache_latency * u64::from(looks);
        context.charge(Category::Communication, cost);
        while let Some(&tag) = free.last()
            && let Some(message) = waiting.pop_front()
        {
            free.pop();
            channel.send(context, tag, &message)?;
        }
        if cache.take_stirred() {
            context.wake_neighbours();
        }
        Ok(next(looks > 0 || !completions.is_empty()))
    }
}
