//! An index server, compared with a model of its keys.

use rackweave_base::{Instant, Memory};
use rackweave_endpoint::btree::{Direction, Tree, TreeConfig};
use rackweave_endpoint::index::message::{self, Method, Outcome, Page, Request};
use rackweave_endpoint::index::{EndpointId, IndexServer, PartitionMap, Shard};
use rackweave_endpoint::rpc::{Service, Status, Writer};
use std::collections::BTreeMap;
use std::sync::Arc;

type Model = BTreeMap<u64, Vec<u8>>;

pub struct Index {
    server: IndexServer,
    /// The server's entries; `None` once a range of keys has been moved.
    model: Option<Model>,
}

impl Index {
    pub fn new() -> Self {
        let memory = Memory::new(1 << 20);
        let config = TreeConfig::for_keys(64, 512, 64).with_fan_out(4);
        let config = TreeConfig {
            // Small, so that an input can fill it.
            heap_bytes: 4096,
            ..config
        };
        let block = memory.allocate(config.bytes() as usize);
        let block = block.expect("the memory is large enough");
        let tree = Tree::create(block, &config).expect("the configuration is sound");
        let map = PartitionMap::whole(2, EndpointId(0)).expect("two endpoints");
        let shard = Shard::new(&memory, EndpointId(0), tree, map).expect("it is the map's");
        Self {
            server: IndexServer::new(Arc::new(shard)),
            model: Some(Model::new()),
        }
    }

    /// Serves one request, and compares reply and model. The reply has at most `reply_max` bytes.
    pub fn serve(&mut self, method: u16, request: &[u8], reply_max: usize) {
        let mut bytes = b"before".to_vec();
        let mut reply = Writer::new(&mut bytes, reply_max);
        let status = self
            .server
            .serve(Instant::from_nanos(1), 0, method, request, &mut reply);
        let overflowed = reply.has_overflowed();
        assert_eq!(bytes[..6], b"before"[..], "the bytes before the reply stay");
        let bytes = &bytes[6..];
        assert!(bytes.len() <= reply_max);
        let request = match Request::decode(method, request) {
            Ok(request) => request,
            Err(_) => {
                let known = Method::from_number(method).is_some();
                let expected = if known {
                    Status::MALFORMED
                } else {
                    Status::UNKNOWN_METHOD
                };
                return assert_eq!(status, expected);
            }
        };
        assert_eq!(status, Status::OK, "{request:?}");
        let answer = message::reply(bytes).filter(|_| !overflowed);
        match &answer {
            Some((outcome, rest)) => self.check_answer(&request, *outcome, rest),
            None => assert!(overflowed, "{request:?}: {bytes:?}"),
        }
        self.apply(&request, answer.map(|(outcome, _)| outcome));
    }

    /// Panics unless this is a correct answer to the request.
    fn check_answer(&self, request: &Request<'_>, outcome: Outcome, rest: &[u8]) {
        let Some(model) = &self.model else {
            return;
        };
        let done = matches!(outcome, Outcome::Done | Outcome::Absent);
        let was_there = outcome == Outcome::Done;
        match request {
            Request::Get { key } => {
                assert!(done, "{request:?}: {outcome:?}");
                assert_eq!(was_there.then_some(rest), model.get(key).map(Vec::as_slice));
            }
            Request::Delete { key } => {
                assert!(done, "{request:?}: {outcome:?}");
                assert_eq!(was_there, model.contains_key(key));
            }
            Request::Insert { key, .. }
            | Request::Update { key, .. }
            | Request::Put { key, .. }
                if done =>
            {
                assert_eq!(was_there, model.contains_key(key));
            }
            Request::Scan {
                low,
                last,
                direction,
                limit,
            } if was_there => {
                let page = Page::decode(rest).expect("a scan has a page");
                check_page(model, (*low, *last), *direction, *limit, &page);
            }
            _ => {}
        }
    }

    /// Applies to the model what the server reports as done.
    fn apply(&mut self, request: &Request<'_>, outcome: Option<Outcome>) {
        let Some(model) = &mut self.model else {
            return;
        };
        let done = matches!(outcome, Some(Outcome::Done | Outcome::Absent));
        match request {
            Request::Get { .. } | Request::Scan { .. } => {}
            Request::Map | Request::Statistics | Request::State | Request::Export { .. } => {}
            Request::Insert { key, value } if done => {
                model.entry(*key).or_insert_with(|| value.to_vec());
            }
            Request::Update { key, value } if done => {
                if let Some(old) = model.get_mut(key) {
                    *old = value.to_vec();
                }
            }
            Request::Put { key, value } if done => {
                model.insert(*key, value.to_vec());
            }
            Request::Delete { key } if done => {
                model.remove(key);
            }
            Request::Load { entries } if done => {
                model.extend(entries.iter().map(|(key, value)| (key, value.to_vec())));
            }
            // Refused: nothing has changed.
            Request::Insert { .. } | Request::Update { .. } | Request::Put { .. }
                if outcome.is_some() => {}
            // Part of it may have been done, or keys move to another server.
            _ => self.model = None,
        }
    }

    /// Checks that the tree is valid, and that its entries are those of the model.
    pub fn check(&self) {
        let tree = self.server.shard().tree();
        let summary = tree.check().expect("the tree is sound");
        let Some(model) = &self.model else {
            return;
        };
        assert_eq!(summary.entries, model.len() as u64);
        let mut held = model.iter();
        tree.scan(0..=u64::MAX, Direction::Forward, &mut |key, value| {
            let expected = held.next().map(|(key, value)| (*key, &value[..]));
            assert_eq!(Some((key, value)), expected);
            true
        });
        assert_eq!(held.next(), None);
    }
}

/// A page has the next entries of the range, without a gap, up to the key at which to continue.
fn check_page(
    model: &Model,
    (low, last): (u64, u64),
    direction: Direction,
    limit: u32,
    page: &Page<'_>,
) {
    let forward = direction == Direction::Forward;
    let in_range = |key: u64| low <= key && key <= last;
    let not_yet = |key: u64| match page.next {
        None => true,
        Some(next) if forward => key < next,
        Some(next) => key > next,
    };
    let mut expected: Vec<_> = model
        .iter()
        .filter(|(key, _)| in_range(**key) && not_yet(**key))
        .map(|(key, value)| (*key, &value[..]))
        .collect();
    if !forward {
        expected.reverse();
    }
    let found: Vec<_> = page.entries.iter().collect();
    assert_eq!(found, expected);
    assert!(found.len() <= limit as usize);
}
