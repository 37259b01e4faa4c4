//! Where pages are stored: drives of the simulator's model.

use rackweave_base::{Duration, Instant, Rng};
use rackweave_sim::{Ssd, SsdAccess, SsdModel};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Commands that a drive has under way at a time. Source: seamless, section 3 ("The queue depths of
/// NVMe and RDMA are 128").
pub const QUEUE_DEPTH: usize = 128;

/// Drives over which pages are striped by their number, with a queue each.
pub struct Drives {
    page_size: u32,
    drives: Vec<Drive>,
    /// What is under way: when it ends, the how many-th command it is, its drive, its token.
    under_way: BinaryHeap<Reverse<(Instant, u64, usize, u32)>>,
    commands: u64,
}

struct Drive {
    ssd: Ssd,
    under_way: usize,
    waiting: VecDeque<(SsdAccess, u32)>,
}

impl Drives {
    /// `count` idle drives, at least one, for pages of `page_size` bytes.
    pub fn new(count: u32, page_size: u32, rng: &mut Rng) -> Self {
        let mut drive = |at: u32| Drive {
            ssd: Ssd::new(SsdModel::default(), rng.fork(&format!("drive {at}"))),
            under_way: 0,
            waiting: VecDeque::new(),
        };
        Self {
            page_size,
            drives: (0..count.max(1)).map(&mut drive).collect(),
            under_way: BinaryHeap::new(),
            commands: 0,
        }
    }

    fn start(&mut self, at: Instant, drive: usize) {
        let one = &mut self.drives[drive];
        while one.under_way < QUEUE_DEPTH
            && let Some((access, token)) = one.waiting.pop_front()
        {
            one.under_way += 1;
            let ends = one.ssd.submit(at, self.page_size, access);
            let command = Reverse((ends, self.commands, drive, token));
            self.under_way.push(command);
            self.commands += 1;
        }
    }

    /// Begins a command, which `token` names.
    pub fn submit(&mut self, now: Instant, page: u64, access: SsdAccess, token: u32) {
        let drive = (page % self.drives.len() as u64) as usize;
        self.drives[drive].waiting.push_back((access, token));
        self.start(now, drive);
    }

    /// A command that has ended.
    pub fn poll(&mut self, now: Instant) -> Option<u32> {
        let &Reverse((ends, _, drive, token)) = self.under_way.peek()?;
        if ends > now {
            return None;
        }
        self.under_way.pop();
        self.drives[drive].under_way -= 1;
        // What waited for the queue entered it when there was room, whenever that is noticed.
        self.start(ends, drive);
        Some(token)
    }

    /// When the next command ends, if there is one under way.
    pub fn due(&self) -> Option<Instant> {
        self.under_way.peek().map(|Reverse((ends, ..))| *ends)
    }
}

/// The longest time for which the end of a command goes unnoticed in the simulator.
pub const NOTICE: Duration = Duration::from_nanos(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_drives_read_four_times_what_one_does() {
        let rate = |count: u32| {
            let mut drives = Drives::new(count, 64 << 10, &mut Rng::new(3));
            (0..2000).for_each(|at| drives.submit(Instant::ZERO, at, SsdAccess::Read, at as u32));
            let (mut last, mut ended) = (Instant::ZERO, vec![false; 2000]);
            while let Some(due) = drives.due() {
                let token = drives.poll(due).expect("it is due");
                assert!(!core::mem::replace(&mut ended[token as usize], true));
                last = due;
            }
            assert!(ended.iter().all(|&ended| ended));
            2000.0 * 65536.0 / last.since(Instant::ZERO).as_secs_f64()
        };
        let (one, four) = (rate(1), rate(4));
        assert!((5.8e9..6.5e9).contains(&one), "{one}");
        assert!((3.5 * one..4.1 * one).contains(&four), "{four} {one}");
    }

    #[test]
    fn a_drive_takes_no_more_than_its_queue_holds() {
        let mut drives = Drives::new(1, 4096, &mut Rng::new(3));
        let count = QUEUE_DEPTH + 10;
        (0..count).for_each(|at| drives.submit(Instant::ZERO, 0, SsdAccess::Write, at as u32));
        assert_eq!(drives.under_way.len(), QUEUE_DEPTH);
        let due = drives.due().unwrap();
        assert!(drives.poll(due).is_some());
        assert_eq!(drives.under_way.len(), QUEUE_DEPTH);
    }
}
