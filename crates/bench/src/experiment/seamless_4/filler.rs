//! The program that fills a passive node's buffer frames.

use crate::harness::drive::{Failure, Program};
use rackweave_base::{Block, Instant};
use rackweave_endpoint::page_store::directory::{Answer, Channel, Directory, Mode, Op};
use rackweave_sim::world::{Context, Step};
use rackweave_verbs::Verbs;
use rackweave_wire::fabric::page::PageId;
use rackweave_wire::fabric::page::header::VOID;

/// Fetches pages 0, 1, … into buffer frames 0, 1, …: the initial contents of a passive node.
pub struct Filler {
    pub channel: Channel,
    pub next: u32,
    pub count: u32,
    pub ended: u32,
    pub frames: Block,
    pub page_bytes: usize,
}

impl Filler {
    fn fetch(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Result<(), String> {
        while let Some(reply) = self.channel.poll(now, verbs) {
            match reply.answer {
                Answer::Fetched(_) => self.ended += 1,
                answer => return Err(format!("a buffer frame was not filled: {answer:?}")),
            }
        }
        while self.next < self.count && self.channel.capacity() > 0 {
            let page = PageId::new(0, u64::from(self.next)).ok_or("there is no such page")?;
            let at = self.next as usize * self.page_bytes;
            self.frames.write(at, &VOID.to_le_bytes());
            let op = Op::Fetch {
                page,
                mode: Mode::Shared,
                frame: self.next,
                have: None,
            };
            if self.channel.begin(now, verbs, op).is_some() {
                self.next += 1;
            }
        }
        Ok(())
    }
}

impl Program for Filler {
    fn turn(&mut self, context: &mut Context<'_>) -> Result<Step, Failure> {
        self.fetch(context.now(), context.nic())?;
        Ok(match self.channel.poll_timeout() {
            _ if self.ended == self.count => Step::Done,
            Some(at) => Step::WaitUntil(at),
            None => Step::WaitForPacket,
        })
    }
}
