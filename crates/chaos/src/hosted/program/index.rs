//! Gets, changes and scans keys of the index.

use super::super::journal::{Event, IndexEvent, Point, System};
use super::super::shared::{INDEX, KEYS, VALUE_MAX};
use super::{Phase, Program};
use rackweave_base::Rng;
use rackweave_endpoint::btree::Direction;
use rackweave_endpoint::index::{Access, IndexError};
use rackweave_rack::services::{CallError, IndexConnection, IndexService};
use rackweave_sim::checkers::index_history::{ValueStamp, check_value, fill_value};
use std::time::Duration;

/// Longest pause between two calls.
const PAUSE_MAX: Duration = Duration::from_millis(3);

/// A call waits for no more than this.
const TIME_LIMIT: Duration = Duration::from_secs(3);

/// Share of calls that scan, and that read one key.
const SCAN_SHARE: f64 = 0.05;
const GET_SHARE: f64 = 0.5;

pub fn run(program: &Program) {
    let mut rng = program.rng("index");
    let access = *rng.pick(&[Access::Rpc, Access::OneSided, Access::InNetwork]);
    let connect = || {
        let index = IndexService::find(&program.rack, INDEX)?;
        let mut connection = index.connect(program.node, access)?;
        connection.set_time_limit(TIME_LIMIT);
        Ok::<_, rackweave_rack::services::IndexServiceError>(connection)
    };
    let Some(connection) = program.attempt(System::Index, connect) else {
        return;
    };
    let mut user = User {
        program,
        connection,
        written: 0,
    };
    while program.phase() == Phase::Work {
        if rng.chance(SCAN_SHARE) {
            user.scan(&mut rng);
        } else {
            let (key, point) = user.draw(&mut rng);
            let _noted = user.execute(key, point, &mut rng);
        }
        Program::pause(&mut rng, PAUSE_MAX);
    }
    if program.phase() == Phase::Last {
        for key in 0..KEYS {
            let get = || user.execute(key, Point::Get, &mut rng);
            program.attempt(System::Index, get);
        }
        program.done();
    }
}

struct User<'a> {
    program: &'a Program,
    connection: IndexConnection,
    written: u32,
}

impl User<'_> {
    fn note(&self, call: u32, event: IndexEvent) {
        self.program.note(Event::Index(call, event));
    }

    fn draw(&mut self, rng: &mut Rng) -> (u64, Point) {
        let key = rng.below(KEYS);
        if rng.chance(GET_SHARE) {
            return (key, Point::Get);
        }
        // No two values of a seed have one number: those of lives begin with the life.
        self.written += 1;
        let value = u32::from(self.program.life) << 16 | self.written;
        let point = match rng.below(4) {
            0 => Point::Insert(value),
            1 => Point::Update(value),
            2 => Point::Put(value),
            _ => Point::Remove,
        };
        (key, point)
    }

    fn execute(&mut self, key: u64, point: Point, rng: &mut Rng) -> Result<(), CallError> {
        let mut bytes = vec![0; rng.between(8, VALUE_MAX.into()) as usize];
        if let Point::Insert(value) | Point::Update(value) | Point::Put(value) = point {
            fill_value(&mut bytes, key, ValueStamp::new(value), self.program.seed);
        }
        let asked = IndexEvent::Asked(key, point);
        let call = self.program.journal.begin(|call| Event::Index(call, asked));
        let connection = &mut self.connection;
        let done = match point {
            Point::Get => match connection.get(key) {
                Ok(value) => {
                    self.found(call, key, value.as_deref());
                    return Ok(());
                }
                Err(error) => Err(error),
            },
            Point::Insert(_) => connection.insert(key, &bytes),
            Point::Update(_) => connection.update(key, &bytes),
            // The checker asks whether the key was absent.
            Point::Put(_) => connection.put(key, &bytes).map(|was_there| !was_there),
            Point::Remove => connection.delete(key),
        };
        match done {
            Ok(done) => self.note(call, IndexEvent::Done(done)),
            Err(error) => self.failed(call, (point, error)),
        }
        done.map(drop)
    }

    fn found(&self, call: u32, key: u64, value: Option<&[u8]>) {
        let value = value.map(|bytes| check_value(bytes, key, self.program.seed));
        match value.transpose() {
            Ok(value) => {
                let value = value.map(ValueStamp::number);
                self.note(call, IndexEvent::Found(value));
            }
            Err(torn) => {
                self.program.wrong(format!("key {key}: {torn}"));
                self.note(call, IndexEvent::Refused);
            }
        }
    }

    fn scan(&mut self, rng: &mut Rng) {
        let (low, up) = (rng.below(KEYS), rng.chance(0.5));
        let last = rng.between(low, KEYS - 1);
        let limit = rng.between(1, KEYS) as u32;
        let asked = IndexEvent::Scans(low, last, up);
        let call = self.program.journal.begin(|call| Event::Index(call, asked));
        let direction = match up {
            true => Direction::Forward,
            false => Direction::Backward,
        };
        let found = match self.connection.scan(low..=last, direction, limit) {
            Ok(found) => found,
            Err(error) => return self.failed(call, (Point::Get, error)),
        };
        let whole = found.len() < limit as usize;
        let check = |(key, bytes): &(u64, _)| {
            let bytes: &rackweave_endpoint::index::Value = bytes;
            let value = check_value(bytes, *key, self.program.seed);
            let torn = |torn| self.program.wrong(format!("key {key} in a scan: {torn}"));
            Some((*key, value.map_err(torn).ok()?.number()))
        };
        let entries: Vec<_> = found.iter().filter_map(check).collect();
        match entries.len() == found.len() {
            true => self.note(call, IndexEvent::Scanned(entries, whole)),
            false => self.note(call, IndexEvent::Refused),
        }
    }

    fn failed(&mut self, call: u32, (point, error): (Point, CallError)) {
        let reads = point == Point::Get;
        let event = match error {
            CallError::TimedOut { .. } if !reads => IndexEvent::Unknown,
            CallError::Index(IndexError::OutcomeUnknown(_)) => IndexEvent::Unknown,
            _ => IndexEvent::Refused,
        };
        self.note(call, event);
        match error {
            CallError::Index(
                error @ (IndexError::Refused(_)
                | IndexError::Malformed(_)
                | IndexError::Corrupt(_)
                | IndexError::ValueTooLarge(_)),
            ) => self.program.wrong(error.to_string()),
            CallError::Begin(error) => self.program.wrong(error.to_string()),
            error => self.program.failed(System::Index, &error),
        }
        if let CallError::Index(IndexError::Gone(at) | IndexError::OutcomeUnknown(at)) = error {
            if let Err(error) = self.connection.reconnect(at) {
                self.program.failed(System::Index, &error);
            }
            std::thread::sleep(super::AGAIN_AFTER);
        }
    }
}
