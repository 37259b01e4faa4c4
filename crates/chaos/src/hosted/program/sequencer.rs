//! Takes numbers from sequencers of every kind.

use super::super::journal::{Event, SequencerEvent, System};
use super::super::shared::{SEQUENCERS, sequencer_name, sequencer_number};
use super::{Phase, Program};
use rackweave_rack::services::{SequencerClient, SequencerService, SequencerServiceError};
use std::time::Duration;

/// Longest pause between two calls.
const PAUSE_MAX: Duration = Duration::from_millis(3);

/// A call waits for no more than this.
const TIME_LIMIT: Duration = Duration::from_secs(3);

/// How many sequencers may have taken each other's place since the last call.
const NEWER_MAX: u32 = 4;

/// Most numbers of a call.
const NUMBERS_MAX: u64 = 20;

/// A client of the newest known sequencer of a kind.
#[derive(Default)]
struct User {
    kind: usize,
    generation: u32,
    client: Option<SequencerClient>,
}

pub fn run(program: &Program) {
    let mut rng = program.rng("sequencer");
    let mut users: [User; SEQUENCERS] = core::array::from_fn(|kind| User {
        kind,
        ..User::default()
    });
    while program.phase() == Phase::Work {
        let user = rng.pick(&[0, 1, 2]);
        if let Err(error) = users[*user].call(program, rng.between(1, NUMBERS_MAX)) {
            program.failed(System::Sequencer, &error);
            std::thread::sleep(super::AGAIN_AFTER);
        }
        Program::pause(&mut rng, PAUSE_MAX);
    }
    if program.phase() == Phase::Last {
        for user in &mut users {
            program.attempt(System::Sequencer, || user.call(program, 1));
        }
        program.done();
    }
}

impl User {
    /// Takes numbers. After an error the next call takes another client, of the next sequencer if
    /// there is one.
    fn call(&mut self, program: &Program, count: u64) -> Result<(), SequencerServiceError> {
        if self.client.is_none() {
            let find = |generation| {
                let name = sequencer_name(self.kind, generation);
                SequencerService::find(&program.rack, &name)
            };
            let known = self.generation;
            let newer = (known + 1..=known + NEWER_MAX).rev();
            let newest = newer.filter_map(|it| Some((it, find(it).ok()?))).next();
            let (generation, sequencer) = match newest {
                Some(newest) => newest,
                None => (known, find(known)?),
            };
            self.generation = generation;
            let mut client = sequencer.connect(program.node)?;
            client.set_time_limit(TIME_LIMIT);
            self.client = Some(client);
        }
        let asked = SequencerEvent::Asked(sequencer_number(self.kind, self.generation), count);
        let call = program.journal.begin(|call| Event::Sequencer(call, asked));
        let client = self.client.as_mut().expect("it was made above");
        let before = client.repeats();
        let got = client.next(count);
        for _ in before..client.repeats() {
            program.note(Event::Sequencer(call, SequencerEvent::Repeated));
        }
        let event = match &got {
            Ok(range) => SequencerEvent::Got(range.start, range.end),
            Err(_) => SequencerEvent::Failed,
        };
        program.note(Event::Sequencer(call, event));
        if got.is_err() {
            self.client = None;
        }
        got.map(drop)
    }
}
