//! Requirements on every reply.

use super::{Copy, History, name};
use crate::page_store::directory::conformance::{World, stamped};
use crate::page_store::directory::fake::PAGE;
use crate::page_store::directory::{Answer, Mode, Op, Reply};
use rackweave_wire::fabric::page::{LatchWord, PageId};

impl History {
    /// Checks a reply and records it.
    pub(super) fn replied(&mut self, node: usize, reply: Reply) {
        let under_way = self.nodes[node].under_way.remove(&reply.ticket);
        let (op, committed) = under_way.expect("a reply to what was asked");
        *self.counts.entry(name(reply.answer)).or_default() += 1;
        let latch = reply.latch;
        match op {
            Op::Quiesce => self.quiesced(node, reply.answer == Answer::Done),
            Op::ReadHome { .. } | Op::Own { .. } | Op::Disown { .. } => {
                unreachable!("nothing is in doubt here")
            }
            Op::Flush { .. } => assert_eq!(reply.answer, Answer::Done, "{op:?}"),
            Op::Verify { .. } => {
                if reply.answer == Answer::Done {
                    assert!(latch.version() >= committed, "{op:?}: {latch}");
                } else {
                    assert_eq!(reply.answer, Answer::Gone, "{op:?}");
                }
            }
            Op::Fetch { .. } => self.fetched(node, op, reply, committed),
            Op::Unfix { page, .. } => {
                assert_eq!(reply.answer, Answer::Done, "{op:?}");
                let copy = self.copy(node, page);
                copy.version += 1;
                copy.dirty = true;
                copy.latched = false;
                assert_eq!(latch, LatchWord::open(copy.version), "{op:?}");
                let committed = &mut self.committed[page.index() as usize];
                // Other nodes may have changed it again before this reply.
                *committed = (*committed).max(latch.version());
            }
            Op::Release { page } => {
                assert_eq!(reply.answer, Answer::Done, "{op:?}");
                let copy = self.copy(node, page);
                copy.latched = false;
                assert_eq!(latch, LatchWord::open(copy.version), "{op:?}");
            }
            Op::Evict { page, .. } => {
                let entry = self.world.model.borrow().entry(page);
                let copy = self.copy(node, page);
                // The place may become another node's a moment before the version counts its
                // change.
                let moved = !entry.place.is_at(node as u16, copy.frame);
                let overtaken = entry.latch.version() > copy.version || moved;
                match reply.answer {
                    Answer::Done => copy.dirty = false,
                    Answer::Superseded if overtaken => copy.dirty = false,
                    Answer::Gone => {}
                    answer => panic!("{op:?}: {answer:?} of {copy:?}, {entry:?}"),
                }
            }
        }
    }

    fn copy(&mut self, node: usize, page: PageId) -> &mut Copy {
        self.nodes[node].copies.get_mut(&page.number()).unwrap()
    }

    fn fetched(&mut self, node: usize, op: Op, reply: Reply, committed: u64) {
        let Op::Fetch {
            page,
            mode,
            frame,
            have,
        } = op
        else {
            return;
        };
        let latch = reply.latch;
        let index = page.index() as usize;
        match reply.answer {
            Answer::Fetched(_) => {}
            Answer::Unchanged => assert_eq!(have, Some(latch.version()), "{op:?}"),
            Answer::Locked | Answer::Gone => return self.failed(node, page, frame),
            answer => panic!("{op:?}: {answer:?}"),
        }
        let version = latch.version();
        assert!(version >= committed, "{op:?}: {latch}, {committed} before");
        let mut bytes = vec![0; PAGE];
        let frames = self.world.frames(node);
        frames.read(frame as usize * PAGE, &mut bytes);
        assert!(bytes == stamped(page, version, PAGE), "{op:?}: not {latch}");
        let latched = mode == Mode::Exclusive;
        assert_eq!(latch.is_locked(), latched, "{op:?}");
        if latched {
            let before = self.holder[index].replace(node);
            assert_eq!(before, None, "{op:?} of node {node}: two holders");
        }
        let before = self.nodes[node].copies.get(&page.number());
        let dirty = before.is_some_and(|copy| copy.dirty && copy.version == version);
        let copy = Copy {
            frame,
            version,
            dirty,
            latched,
        };
        self.nodes[node].copies.insert(page.number(), copy);
    }

    /// The content of the buffer frame is now unknown, unless it is a copy that only this node has.
    fn failed(&mut self, node: usize, page: PageId, frame: u32) {
        let entry = self.world.model.borrow().entry(page);
        let copy = self.nodes[node].copies.get(&page.number()).copied();
        if copy.is_some_and(|copy| copy.version == entry.latch.version()) {
            return;
        }
        self.nodes[node].copies.remove(&page.number());
        self.retire(node, frame);
    }

    fn quiesced(&mut self, node: usize, done: bool) {
        let node = &mut self.nodes[node];
        let asked = node.quiescing.take().unwrap();
        if !done {
            return;
        }
        for (frame, count) in &mut node.voided {
            *count += u8::from(asked.contains(frame));
        }
        let ready = |&(_, count): &(u32, u8)| count >= 2;
        node.free
            .extend(node.voided.iter().filter(|it| ready(it)).map(|it| it.0));
        node.voided.retain(|it| !ready(it));
    }
}
