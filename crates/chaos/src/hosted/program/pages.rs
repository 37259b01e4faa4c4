//! Reads and changes pages, flushes, and checks every byte.

use super::super::journal::{Event, PageEvent, System, Version, worker_of};
use super::super::shared::{PAGES_FILE, page_options, published};
use super::{AGAIN_AFTER, Phase, Program, give_up};
use rackweave_base::Rng;
use rackweave_endpoint::page_store::FixError;
use rackweave_rack::services::{CommitError, PageError, PageService, PageWorker, ReadGuard};
use rackweave_sim::checkers::page_history::{PageStamp, check_page, fill_page};
use rackweave_wire::fabric::page::PageId;
use std::time::Duration;

/// Longest pause between two calls, and longest time for which a page is held.
const PAUSE_MAX: Duration = Duration::from_millis(3);
const HOLD_MAX: Duration = Duration::from_micros(300);

/// Share of calls that change a page, and that flush.
const WRITE_SHARE: f64 = 0.4;
const FLUSH_SHARE: f64 = 0.02;

pub fn run(program: &Program) {
    let mut rng = program.rng("pages");
    let service = match PageService::new(&program.rack, &page_options()) {
        Ok(service) => service,
        Err(error) => {
            program.failed(System::Pages, &error);
            if program.phase() == Phase::Last {
                program.wrong(format!("after the repair, there are no pages: {error}"));
            }
            // A process has one service.
            give_up(&program.journal, program.life);
        }
    };
    let take = || service.worker(program.node);
    let Some(worker) = program.attempt(System::Pages, take) else {
        return;
    };
    let find = || published::<Vec<PageId>>(&program.folder, PAGES_FILE);
    let Some(pages) = program.attempt(System::Pages, find) else {
        return;
    };
    let mut user = User {
        program,
        service: &service,
        worker,
        number: 0,
    };
    user.begin_worker();
    while program.phase() == Phase::Work {
        let page = *rng.pick(&pages);
        if rng.chance(FLUSH_SHARE) {
            user.flush();
        } else if rng.chance(WRITE_SHARE) {
            user.change(page, &mut rng);
        } else {
            _ = user.read(page);
        }
        user.note_losses();
        user.come_back();
        Program::pause(&mut rng, PAUSE_MAX);
    }
    if program.phase() == Phase::Last {
        for &page in &pages {
            program.attempt(System::Pages, || {
                let read = user.read(page);
                user.come_back();
                read
            });
        }
        program.done();
        while program.phase() == Phase::Last {
            // A directory may ask this node about its pages.
            user.worker.poll();
            std::thread::sleep(AGAIN_AFTER);
        }
    }
    user.flush();
}

struct User<'a> {
    program: &'a Program,
    service: &'a PageService,
    worker: PageWorker,
    /// The number of the worker.
    number: u16,
}

impl User<'_> {
    /// Takes another worker if the program was declared dead.
    fn come_back(&mut self) {
        if !self.worker.is_fenced() {
            return;
        }
        let take = || self.service.worker(self.program.node);
        if let Some(worker) = self.program.attempt(System::Pages, take) {
            self.worker = worker;
            self.begin_worker();
        }
    }

    /// Records that the program has a worker that it has not used yet.
    fn begin_worker(&mut self) {
        self.number += 1;
        self.note(0, PageEvent::Worker(self.number));
    }

    fn note(&self, call: u32, event: PageEvent) {
        self.program.note(Event::Pages(call, event));
    }

    fn ask(&self, page: PageId) -> u32 {
        let asked = PageEvent::Asked(page.number());
        self.program.journal.begin(|call| Event::Pages(call, asked))
    }

    fn read(&self, page: PageId) -> Result<(), PageError> {
        let call = self.ask(page);
        let read = self.worker.read(page);
        let guard = read.inspect_err(|&error| self.failed(call, error))?;
        if let Some(version) = self.look(&guard) {
            self.note(call, PageEvent::Shared(version));
            let again = self.look(&guard);
            if again.is_some_and(|again| again.1 != version.1) {
                self.program
                    .wrong(format!("{page} changed while it was fixed"));
            }
        }
        Ok(())
    }

    fn change(&self, page: PageId, rng: &mut Rng) {
        let call = self.ask(page);
        let mut guard = match self.worker.write(page) {
            Ok(guard) => guard,
            Err(error) => return self.failed(call, error),
        };
        if let Some(version) = self.look(&guard) {
            self.note(call, PageEvent::Exclusive(version));
        }
        let stamp = PageStamp {
            page: page.number(),
            version: guard.version() + 1,
            writer: worker_of(self.program.life, self.number),
        };
        let changes = rng.chance(0.8);
        if changes {
            let mut bytes = vec![0; guard.data().len()];
            fill_page(&mut bytes, stamp, self.program.seed);
            let half = bytes.len() / 2;
            // A reader in between would see a torn page.
            guard.data_mut().write(0, &bytes[..half]);
            Program::pause(rng, HOLD_MAX);
            guard.data_mut().write(half, &bytes[half..]);
        }
        let changed = changes.then_some(stamp.version);
        self.note(call, PageEvent::Released(page.number(), changed));
        match guard.commit() {
            Ok(()) => self.note(call, PageEvent::Committed(page.number())),
            Err(
                CommitError::Superseded(_) | CommitError::Fenced(_) | CommitError::NotMember(_),
            ) if changes => {
                let refused = PageEvent::NotTaken(page.number(), stamp.version);
                self.note(call, refused);
            }
            Err(error) => {
                self.program.failed(System::Pages, &error);
                // Its outcome is unknown.
                self.note(call, PageEvent::Failed);
            }
        }
    }

    fn look(&self, guard: &ReadGuard) -> Option<Version> {
        match check_page(&guard.data().to_vec(), self.program.seed) {
            Ok(stamp) => Some(Version::new(guard.version(), stamp)),
            Err(torn) => {
                let (page, version) = (guard.page(), guard.version());
                self.program
                    .wrong(format!("{page}, version {version}: {torn}"));
                None
            }
        }
    }

    fn failed(&self, call: u32, error: PageError) {
        let mut event = PageEvent::Failed;
        match error {
            PageError::Fix(FixError::Lost(_)) => {
                // The directory has reported a loss before any call finds it. If the directory does
                // not answer, the refusal shows nothing.
                if let Ok(lost) = self.program.rack.lost_pages() {
                    let lost = lost.iter().map(|it| (it.page.number(), it.version));
                    self.note(call, PageEvent::LostPages(lost.collect()));
                    event = PageEvent::Lost;
                }
            }
            PageError::Fix(error) if error.is_damage() => {
                self.program
                    .wrong(format!("nothing damages pages: {error}"));
            }
            _ => self.program.failed(System::Pages, &error),
        }
        self.note(call, event);
    }

    fn flush(&self) {
        let asked = |call| Event::Pages(call, PageEvent::FlushAsked);
        let call = self.program.journal.begin(asked);
        match self.worker.flush() {
            Ok(_) => self.note(call, PageEvent::Flushed),
            Err(error) => {
                self.program.failed(System::Pages, &error);
                self.note(call, PageEvent::Failed);
            }
        }
    }

    /// Reports changes that were not taken after their commit had timed out.
    fn note_losses(&self) {
        for loss in self.worker.losses() {
            self.note(0, PageEvent::NotTaken(loss.page.number(), loss.version));
        }
    }
}
