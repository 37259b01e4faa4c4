//! Election by etcd, for switch processes on several machines.
//!
//! The leader has a key with a lease. Its epoch is the revision at which etcd has created the key.
//! Everything that it stores is part of a transaction that requires this revision: a leader whose
//! lease has ended stores nothing. Each transaction also changes the version of the key, and
//! requires the one before: a request that timed out and was repeated cannot take effect late, over
//! what was stored since. The leader counts its own time from before it asks for the lease, so its
//! term is over before etcd gives the key to another process.
//!
//! etcd is reached by its JSON gateway (`/v3/`, from release 3.4 on), without TLS.

use super::{Elector, ElectorError, Part};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How often a process that does not lead asks for the key.
const CAMPAIGN_EVERY: Duration = Duration::from_millis(100);

/// Interval between two attempts to store something.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// A key in an etcd cluster, and the state beside it.
pub struct EtcdElector {
    agent: ureq::Agent,
    urls: Vec<String>,
    /// The URL that has answered last.
    url: AtomicUsize,
    /// The beginning of all keys of the rack.
    prefix: String,
    /// Duration of a lease, in seconds.
    lease_s: u64,
    term: Mutex<Option<Term>>,
}

/// The term of this process.
#[derive(Clone, Copy)]
struct Term {
    lease: i64,
    epoch: u64,
    until: Instant,
    /// The version of the key: one more with each transaction.
    version: u64,
}

/// Why a request has no reply.
enum Failure {
    /// etcd cannot be reached, or cannot answer now.
    Unreachable(String),
    /// It refuses the request.
    Refused(String),
}

impl From<Failure> for ElectorError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unreachable(why) | Failure::Refused(why) => Self::Failed(why),
        }
    }
}

fn encoded(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

/// A number, which etcd writes as a text.
fn number<T: core::str::FromStr>(value: &Value) -> Option<T> {
    value.as_str()?.parse().ok()
}

fn nonsense() -> ElectorError {
    ElectorError::Failed("the answer of etcd makes no sense".into())
}

impl EtcdElector {
    /// An elector for the rack of this name, by the cluster at these URLs.
    pub fn new(urls: &[String], rack: &str, lease: Duration) -> Self {
        let lease_s = lease.as_millis().div_ceil(1000) as u64;
        let config = ureq::Agent::config_builder()
            // Several attempts fit into a lease.
            .timeout_global(Some(Duration::from_secs(lease_s) / 4))
            .http_status_as_error(false)
            .build();
        Self {
            agent: config.into(),
            urls: urls.to_vec(),
            url: AtomicUsize::new(0),
            prefix: format!("rackweave/{rack}/"),
            lease_s,
            term: Mutex::new(None),
        }
    }

    fn ask_at(&self, url: &str, path: &str, body: &Value) -> Result<Value, Failure> {
        let url = format!("{}{path}", url.trim_end_matches('/'));
        let unreachable = |error: &dyn core::fmt::Display| {
            Failure::Unreachable(format!("etcd at {url}: {error}"))
        };
        let sent = self.agent.post(&url).send(body.to_string());
        let mut reply = sent.map_err(|error| unreachable(&error))?;
        let text = reply.body_mut().read_to_string();
        let text = text.map_err(|error| unreachable(&error))?;
        match reply.status().as_u16() {
            200 => serde_json::from_str(&text).map_err(|error| unreachable(&error)),
            // 408, 429 and those of the server may pass.
            status @ 400..=499 if ![408, 429].contains(&status) => {
                Err(Failure::Refused(format!("etcd at {url}: {}", text.trim())))
            }
            _ => Err(unreachable(&text.trim())),
        }
    }

    /// Sends a request to the first URL that answers, beginning with the one that did last.
    fn ask(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let first = self.url.load(Ordering::Relaxed);
        let mut last = Failure::Unreachable("there is no URL of etcd".into());
        for at in (0..self.urls.len()).map(|at| (first + at) % self.urls.len()) {
            match self.ask_at(&self.urls[at], path, body) {
                Err(failure @ Failure::Unreachable(_)) => last = failure,
                reply => {
                    self.url.store(at, Ordering::Relaxed);
                    return reply;
                }
            }
        }
        Err(last)
    }

    fn term(&self) -> Result<Term, ElectorError> {
        let term = self.term.lock().expect("no holder panics");
        term.filter(|term| Instant::now() < term.until)
            .ok_or(ElectorError::Lost)
    }

    /// Repeats a request while this process leads.
    fn insist(&self, path: &str, body: &Value) -> Result<Value, ElectorError> {
        loop {
            self.term()?;
            match self.ask(path, body) {
                Ok(reply) => return Ok(reply),
                Err(Failure::Refused(why)) => return Err(ElectorError::Failed(why)),
                Err(Failure::Unreachable(_)) => std::thread::sleep(RETRY_AFTER),
            }
        }
    }

    fn leader_key(&self) -> String {
        encoded(&format!("{}leader", self.prefix))
    }

    /// What makes a process the leader, or keeps it.
    fn put_leader(&self, lease: i64) -> Value {
        let lease = lease.to_string();
        json!({"request_put": {"key": self.leader_key(), "value": encoded("leads"), "lease": lease}})
    }

    /// Changes the term of this process, unless it has resigned.
    fn change_term(&self, change: impl FnOnce(&mut Term)) {
        self.term
            .lock()
            .expect("no holder panics")
            .as_mut()
            .map(change);
    }

    /// The keys of the state: the first one, and the first one after them.
    fn state_keys(&self) -> (String, String) {
        let keys = |last| encoded(&format!("{}state{last}", self.prefix));
        // '0' follows '/'.
        (keys('/'), keys('0'))
    }

    /// Does this, if this process leads.
    fn transact(&self, mut does: Vec<Value>) -> Result<(), ElectorError> {
        let (key, term) = (self.leader_key(), self.term()?);
        let (epoch, version) = (term.epoch.to_string(), term.version.to_string());
        does.push(self.put_leader(term.lease));
        let body = json!({
            "compare": [
                {"key": key, "target": "CREATE", "result": "EQUAL", "create_revision": epoch},
                {"key": key, "target": "VERSION", "result": "EQUAL", "version": version},
            ],
            "success": does,
            "failure": [{"request_range": {"key": key}}],
        });
        let reply = self.insist("/v3/kv/txn", &body)?;
        // An attempt whose reply was lost may have succeeded.
        let found = &reply["responses"][0]["response_range"]["kvs"][0];
        let is_done = number(&found["create_revision"]) == Some(term.epoch)
            && number(&found["version"]) == Some(term.version + 1);
        if reply["succeeded"] != true && !is_done {
            return Err(ElectorError::Lost);
        }
        self.change_term(|term| term.version += 1);
        Ok(())
    }

    fn revoke(&self, lease: i64) {
        // If it fails, the lease ends by itself.
        let _later = self.ask("/v3/lease/revoke", &json!({"ID": lease.to_string()}));
    }
}

impl Elector for EtcdElector {
    fn campaign_every(&self) -> Duration {
        CAMPAIGN_EVERY
    }

    fn campaign(&self) -> Result<Option<u64>, ElectorError> {
        let key = self.leader_key();
        let leader = self.ask("/v3/kv/range", &json!({"key": key, "keys_only": true}))?;
        if leader["kvs"]
            .as_array()
            .is_some_and(|found| !found.is_empty())
        {
            return Ok(None);
        }
        let asked = Instant::now();
        let granted = self.ask("/v3/lease/grant", &json!({"TTL": self.lease_s.to_string()}))?;
        let lease: i64 = number(&granted["ID"]).ok_or_else(nonsense)?;
        let span: u64 = number(&granted["TTL"]).ok_or_else(nonsense)?;
        let body = json!({
            "compare": [
                {"key": key, "target": "CREATE", "result": "EQUAL", "create_revision": "0"},
            ],
            "success": [self.put_leader(lease)],
        });
        let reply = self
            .ask("/v3/kv/txn", &body)
            .inspect_err(|_| self.revoke(lease))?;
        if reply["succeeded"] != true {
            self.revoke(lease);
            return Ok(None);
        }
        let epoch = number(&reply["header"]["revision"]).ok_or_else(nonsense)?;
        let until = asked + Duration::from_secs(span);
        let term = Term {
            lease,
            epoch,
            until,
            version: 1,
        };
        *self.term.lock().expect("no holder panics") = Some(term);
        Ok(Some(epoch))
    }

    fn renew(&self) -> Result<Option<Instant>, ElectorError> {
        let term = self.term()?;
        let asked = Instant::now();
        let reply = self.ask(
            "/v3/lease/keepalive",
            &json!({"ID": term.lease.to_string()}),
        )?;
        // Without a duration, the lease has ended.
        let span = number(&reply["result"]["TTL"]).filter(|&span: &u64| span > 0);
        let until = asked + Duration::from_secs(span.ok_or(ElectorError::Lost)?);
        self.change_term(|term| term.until = until);
        Ok(Some(until))
    }

    fn load(&self) -> Result<BTreeMap<String, String>, ElectorError> {
        let (first, end) = self.state_keys();
        let found = self.insist("/v3/kv/range", &json!({"key": first, "range_end": end}))?;
        let text = |value: &Value| {
            let bytes = BASE64_STANDARD.decode(value.as_str().unwrap_or_default());
            String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
        };
        let pairs = found["kvs"].as_array().into_iter().flatten();
        let parts = pairs.map(|pair| {
            let key = text(&pair["key"]);
            let name = key.rsplit('/').next().unwrap_or_default();
            (name.to_owned(), text(&pair["value"]))
        });
        Ok(parts.collect())
    }

    fn store(&self, parts: &[Part<'_>]) -> Result<(), ElectorError> {
        let changed = parts.iter().filter(|part| !part.is_stored);
        let put = |part: &Part<'_>| {
            let key = encoded(&format!("{}state/{}", self.prefix, part.name));
            json!({"request_put": {"key": key, "value": encoded(part.text)}})
        };
        let puts: Vec<Value> = changed.map(put).collect();
        self.transact(puts).map_err(|error| {
            let ElectorError::Failed(why) = error else {
                return error;
            };
            // An outdated state would hand out numbers twice.
            let (first, end) = self.state_keys();
            let delete = json!({"request_delete_range": {"key": first, "range_end": end}});
            match self.transact(vec![delete]) {
                Ok(()) => ElectorError::Failed(why),
                Err(_) => ElectorError::Lost,
            }
        })
    }

    fn resign(&self) {
        if let Some(term) = self.term.lock().expect("no holder panics").take() {
            self.revoke(term.lease);
        }
    }
}
