//! How queues end: closed by their owner, broken by their queue pair, or with their controller.
//!
//! In every case transfer buffers are freed, except those still at the backend: requests handed to
//! it are carried out, and until then neither the buffer nor the queue's own memory is reused.
//! Newer requests for the same blocks wait meanwhile (`namespace`). A flush uses neither, and does
//! not hold a queue.

use super::Target;
use super::flow::{Command, Stage};
use super::queue::{QueueState, WorkId, untag};
use crate::TargetError;
use rackweave_base::Qpn;
use rackweave_verbs::{QpModify, Verbs};

impl Target {
    /// Ends a queue and removes its queue pair. Its commands are dropped; requests already at the
    /// backend are carried out. The end of an admin queue ends its controller and breaks the
    /// controller's other queues.
    ///
    /// # Errors
    /// If there is no such queue.
    pub fn close_queue(&mut self, verbs: &mut dyn Verbs, qpn: Qpn) -> Result<(), TargetError> {
        let index = self.find(qpn).ok_or(TargetError::UnknownQueue(qpn))?;
        // A queue pair that was never connected cannot be broken, and need not be.
        let _still_reset = verbs.modify_qp(qpn, QpModify::Error);
        self.abandon(index);
        self.condemned.retain(|condemned| *condemned != index);
        // Its leftovers in the completion queue must not be attributed to a successor.
        self.take_completions(verbs);
        // Its owner may have removed it already.
        let _gone = verbs.destroy_qp(qpn);
        self.queues[index].state = QueueState::Draining;
        self.settle(index);
        self.catch_up(verbs);
        self.grant(verbs);
        Ok(())
    }

    /// Ends all queues of a host, and those that no host has connected yet.
    pub fn close_queues_of(&mut self, verbs: &mut dyn Verbs, host: &str) {
        for index in 0..self.queues.len() {
            let queue = &self.queues[index];
            let is_open = !matches!(queue.state, QueueState::Free | QueueState::Draining);
            let controller = queue.connected.as_ref().map(|it| it.controller);
            let of = controller.and_then(|controller| self.controllers.get(&controller));
            if is_open && of.is_none_or(|of| of.host == host) {
                let _known = self.close_queue(verbs, queue.qpn);
            }
        }
    }

    /// Ends the target: its queue pairs, completion queue and regions are destroyed. Its backends
    /// complete the requests that they have and are dropped.
    pub fn destroy(mut self, verbs: &mut dyn Verbs) {
        for index in 0..self.queues.len() {
            if !matches!(
                self.queues[index].state,
                QueueState::Free | QueueState::Draining
            ) {
                let _gone = self.close_queue(verbs, self.queues[index].qpn);
            }
        }
        // It is unused now; if the NIC does not know it, nothing has to be done.
        let _gone = verbs.destroy_cq(self.cq);
        verbs.deregister(&self.capsules);
        verbs.deregister(&self.buffers.region);
    }

    /// Number of held commands of a queue.
    pub(crate) fn held(&self, queue: usize) -> usize {
        let commands = self.queues[queue].commands.iter().flatten();
        let held = commands.filter(|command| command.stage == Stage::Held);
        held.count()
    }

    /// Drops the held commands of a queue: they end without an answer when a controller is reset
    /// (Base 5.2).
    pub(crate) fn release_held(&mut self, index: usize) {
        let commands = self.queues[index].commands.iter_mut();
        for (command, slot) in commands.zip(0..) {
            if command.as_ref().is_some_and(|it| it.stage == Stage::Held) {
                *command = None;
                self.released.push((index, slot));
            }
        }
    }

    /// Schedules a queue to be broken at the next call that has the NIC.
    pub(crate) fn condemn(&mut self, queue: usize) {
        if self.queues[queue].state == QueueState::Open {
            self.queues[queue].state = QueueState::Condemned;
            self.condemned.push(queue);
        }
    }

    /// Does the work that was deferred until the NIC was available.
    pub(crate) fn catch_up(&mut self, verbs: &mut dyn Verbs) {
        while let Some((index, slot)) = self.released.pop() {
            let id = WorkId::Receive(slot).pack(index);
            let request = self.layout.receive(&self.capsules, id, index, slot);
            let queue = &self.queues[index];
            if queue.state == QueueState::Open && verbs.post_receive(queue.qpn, request).is_err() {
                self.condemn(index);
            }
        }
        while let Some(index) = self.condemned.pop() {
            // One that is still in Reset has nothing in flight.
            let _still_reset = verbs.modify_qp(self.queues[index].qpn, QpModify::Error);
            self.counters.queues_broken += 1;
            self.abandon(index);
        }
    }

    /// The queue pair has failed: the queue's commands are dropped and its buffers freed. Requests
    /// at the backend stay until they complete.
    pub(crate) fn abandon(&mut self, index: usize) {
        let queue = &mut self.queues[index];
        if queue.state == QueueState::Broken {
            return;
        }
        queue.state = QueueState::Broken;
        queue.unanswered.clear();
        let giving = core::mem::take(&mut queue.giving);
        let connected = queue.connected;
        for buffer in giving {
            self.buffers.give(buffer);
        }
        self.waiting.retain(|(queue, _)| *queue != index);
        let mut recalled = Vec::new();
        for namespace in &mut self.namespaces {
            let mine = |tag| untag(tag).1 == index;
            namespace.recall(mine, |tag| recalled.push(untag(tag).2));
        }
        for slot in 0..self.config.queue_entries {
            let command = &self.queues[index].commands[usize::from(slot)];
            let uses_memory = command.as_ref().is_some_and(Command::is_read_or_written);
            if !uses_memory || recalled.contains(&slot) {
                self.drop_command(index, slot);
            }
        }
        if let Some(connected) = connected
            && connected.queue_id == 0
        {
            self.end_controller(connected.controller, Some(index));
        }
    }

    /// Frees a queue without queue pair once the backend has completed its commands.
    pub(crate) fn settle(&mut self, index: usize) {
        let queue = &mut self.queues[index];
        let idle = queue.commands.iter().all(Option::is_none);
        if queue.state == QueueState::Draining && idle {
            queue.state = QueueState::Free;
            queue.connected = None;
        }
    }

    /// Ends associations whose hosts exceeded their keep-alive timeout.
    pub(crate) fn keep_alive(&mut self) {
        let now = self.now;
        let controllers = self.controllers.iter_mut();
        let expired = controllers.filter_map(|(id, it)| it.expired(now).then_some(*id));
        for id in expired.collect::<Vec<u16>>() {
            self.end_controller(id, None);
        }
    }
}
