//! Message exchange between a running job and the command that started it. Both identify the
//! meeting by a number that the command chose.

use super::STOPPED;
use rackweave_rack::hosted::Job;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// The job that waits for a message of another job, and returns it. Its argument is the number.
pub const ASK: &str = "meeting-ask";

/// The job that sends another job a message: [`Notice`].
pub const TELL: &str = "meeting-tell";

/// Interval at which a waiting job checks whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A message to a job.
#[derive(Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Notice {
    /// The number of its meeting.
    pub meeting: u64,
    /// The content.
    pub what: Value,
}

/// The meetings of a node.
#[derive(Default)]
pub struct Meetings(Mutex<BTreeMap<u64, Mailbox>>);

struct Mailbox {
    /// What the job has said and has not been read yet.
    said: Option<Value>,
    to_job: Sender<Value>,
}

/// A job's inbox at a meeting, which closes when this is dropped.
pub struct Inbox<'a> {
    meetings: &'a Meetings,
    number: u64,
    heard: Receiver<Value>,
}

impl Meetings {
    fn places(&self) -> MutexGuard<'_, BTreeMap<u64, Mailbox>> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// Opens a meeting.
    ///
    /// # Errors
    /// If this number is in use.
    pub fn open(&self, number: u64) -> Result<Inbox<'_>, String> {
        let (to_job, heard) = mpsc::channel();
        let mut places = self.places();
        if places.contains_key(&number) {
            return Err(format!(
                "there is a meeting {number} already; choose another"
            ));
        }
        places.insert(number, Mailbox { said: None, to_job });
        Ok(Inbox {
            meetings: self,
            number,
            heard,
        })
    }

    /// The job [`ASK`].
    ///
    /// # Errors
    /// If it is stopped before a message arrives.
    pub fn ask(&self, number: u64, job: &Job) -> Result<Value, String> {
        while !job.is_stopped() {
            let said = self
                .places()
                .get_mut(&number)
                .and_then(|place| place.said.take());
            if let Some(said) = said {
                return Ok(said);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Err(STOPPED.into())
    }

    /// The job [`TELL`].
    ///
    /// # Errors
    /// If the meeting does not exist.
    pub fn tell(&self, notice: Notice) -> Result<(), String> {
        let places = self.places();
        let place = places.get(&notice.meeting);
        let heard = place.is_some_and(|place| place.to_job.send(notice.what).is_ok());
        let nobody = || format!("nobody is at meeting {}: the job has ended", notice.meeting);
        heard.then_some(()).ok_or_else(nobody)
    }
}

impl Inbox<'_> {
    /// Sends a message, which the next `ask` returns.
    pub fn say(&self, what: Value) {
        if let Some(place) = self.meetings.places().get_mut(&self.number) {
            place.said = Some(what);
        }
    }

    /// The received message, if there is one.
    pub fn hear(&self) -> Option<Value> {
        self.heard.try_recv().ok()
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// If the job is stopped meanwhile.
    pub fn wait(&self, job: &Job) -> Result<Value, String> {
        while !job.is_stopped() {
            match self.heard.recv_timeout(LOOK_EVERY) {
                Ok(notice) => return Ok(notice),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Err(STOPPED.into())
    }
}

impl Drop for Inbox<'_> {
    fn drop(&mut self) {
        self.meetings.places().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(meeting: u64, what: &str) -> Notice {
        Notice {
            meeting,
            what: what.into(),
        }
    }

    #[test]
    fn what_is_told_is_heard_in_order_and_by_nobody_else() {
        let meetings = Meetings::default();
        let (one, other) = (meetings.open(1).unwrap(), meetings.open(2).unwrap());
        meetings.tell(notice(1, "first")).unwrap();
        meetings.tell(notice(1, "second")).unwrap();
        assert_eq!(one.hear(), Some("first".into()));
        assert_eq!(one.hear(), Some("second".into()));
        assert_eq!((one.hear(), other.hear()), (None, None));
    }

    #[test]
    fn a_number_is_taken_until_its_job_ends() {
        let meetings = Meetings::default();
        let inbox = meetings.open(7).unwrap();
        let error = meetings.open(7).err().unwrap();
        assert!(error.contains("choose another"), "{error}");
        drop(inbox);
        let error = meetings.tell(notice(7, "too late")).unwrap_err();
        assert!(error.contains("the job has ended"), "{error}");
        assert!(meetings.open(7).is_ok());
    }
}
