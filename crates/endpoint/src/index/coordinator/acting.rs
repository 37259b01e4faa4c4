//! Requests of a coordinator, and the handling of replies.

use super::{Coordinator, CoordinatorEvent, Doing, is_there};
use crate::index::map::{EndpointId, PartitionMap};
use crate::index::message::{Outcome, Request, reply};
use crate::index::mover::{Moved, Mover, Progress};
use crate::index::rebalancer::{EndpointSample, Step};
use crate::index::server::EndpointReport;
use crate::index::shard::ShardState;
use rackweave_base::Instant;
use rackweave_verbs::Verbs;

impl Coordinator {
    pub(super) fn advance(&mut self, now: Instant, verbs: &mut dyn Verbs) {
        let due = self.rebalancer.is_some() && now >= self.sample_at;
        if due && matches!(self.doing, Doing::Waiting) && self.links.iter().all(is_there) {
            let count = self.links.len();
            self.turn_to(Doing::Sampling {
                asked: vec![false; count],
                reports: vec![None; count],
            });
        }
        if self.unasked {
            self.ask();
        }
        for at in 0..self.links.len() {
            self.listen(now, verbs, at);
        }
        if self.unasked {
            self.ask();
            for link in self.links.iter_mut().flatten() {
                link.advance(now, verbs);
            }
        }
    }

    /// Handles the replies from an endpoint.
    fn listen(&mut self, now: Instant, verbs: &mut dyn Verbs, at: usize) {
        let Some(link) = self.links[at].as_mut() else {
            return;
        };
        link.advance(now, verbs);
        let mut answers = Vec::new();
        while let Some(reply) = link.take() {
            if self.asked[at][reply.ticket.slot()] == self.asking {
                answers.push(reply.result.ok().map(<[u8]>::to_vec));
            }
        }
        let broken = link.is_broken();
        for answer in answers {
            self.answered(now, at, answer.as_deref());
        }
        if broken && !core::mem::replace(&mut self.gone_reported[at], true) {
            let endpoint = EndpointId(at as u16);
            self.events.push_back(CoordinatorEvent::Gone(endpoint));
        }
    }

    /// Sends the pending requests, as far as there are connections for them.
    fn ask(&mut self) {
        self.unasked = false;
        let Self {
            links,
            doing,
            request,
            asking,
            asked: asked_at,
            ..
        } = self;
        let mut send = |at: usize, asked: &Request<'_>| {
            let link = links.get_mut(at).and_then(Option::as_mut)?;
            request.clear();
            asked.encode(request);
            let ticket = link.begin_with(asked.method() as u16, request).ok()?;
            asked_at[at][ticket.slot()] = *asking;
            Some(())
        };
        match doing {
            Doing::Asking { asked, .. } => {
                for (at, asked) in asked.iter_mut().enumerate() {
                    *asked = *asked || send(at, &Request::State).is_some();
                }
            }
            Doing::Sampling { asked, .. } => {
                for (at, asked) in asked.iter_mut().enumerate() {
                    *asked = *asked || send(at, &Request::Statistics).is_some();
                }
            }
            Doing::Fetching { states } => {
                let _ = send(newest(states), &Request::Map);
            }
            Doing::Moving { mover, .. } => {
                let Some((side, asked)) = mover.request() else {
                    return;
                };
                let at = mover.endpoint(side).index();
                if send(at, &asked).is_none() {
                    let end = mover.handle_reply(None);
                    self.moved_on(end);
                }
            }
            Doing::Waiting => {}
        }
    }

    fn answered(&mut self, now: Instant, at: usize, answer: Option<&[u8]>) {
        let done = |answer: Option<&[u8]>| match answer.and_then(reply) {
            Some((Outcome::Done, rest)) => Some(rest.to_vec()),
            _ => None,
        };
        match &mut self.doing {
            Doing::Asking { states, .. } => {
                let endpoint = EndpointId(at as u16);
                let state = done(answer).and_then(|rest| ShardState::decode(&rest, endpoint));
                states[at] = state;
                if states.iter().all(Option::is_some) {
                    let states = core::mem::take(states);
                    self.turn_to(Doing::Fetching { states });
                }
            }
            Doing::Fetching { states } => {
                let states = core::mem::take(states);
                let map = done(answer).and_then(|rest| PartitionMap::decode(&rest).ok());
                match map.filter(|map| map.endpoints() == self.map.endpoints()) {
                    Some(map) => self.stands(map, &states),
                    None => self.begin_anew(),
                }
            }
            Doing::Sampling { reports, .. } => {
                reports[at] = done(answer).and_then(|rest| EndpointReport::decode(&rest));
                if answer.is_none() {
                    return self.begin_anew();
                }
                if let Some(reports) = reports.iter().cloned().collect::<Option<Vec<_>>>() {
                    self.sampled(now, reports);
                }
            }
            Doing::Moving { mover, .. } => {
                let progress = mover.handle_reply(answer);
                self.moved_on(progress);
            }
            Doing::Waiting => {}
        }
    }

    /// Handles the states of all endpoints: ends a move that another coordinator has left.
    fn stands(&mut self, map: PartitionMap, states: &[Option<ShardState>]) {
        self.map = map;
        let states: Vec<(EndpointId, &ShardState)> = states
            .iter()
            .enumerate()
            .filter_map(|(at, state)| Some((EndpointId(at as u16), state.as_ref()?)))
            .collect();
        let found = left_over(&states, &self.map);
        match found {
            Some(mover) => {
                let mover = Box::new(mover);
                self.turn_to(Doing::Moving {
                    mover,
                    left: None,
                    chunks: 0,
                    resumed: true,
                });
            }
            None => {
                self.doing = Doing::Waiting;
                self.events.push_back(CoordinatorEvent::Ready);
            }
        }
    }

    fn moved_on(&mut self, progress: Progress) {
        let Progress::End(result) = progress else {
            return self.ask_next();
        };
        let doing = core::mem::replace(&mut self.doing, Doing::Waiting);
        let Doing::Moving {
            left,
            chunks,
            resumed,
            ..
        } = doing
        else {
            return;
        };
        self.before = None;
        if resumed {
            // There may be more moves to end.
            return self.begin_anew();
        }
        let moved = match result {
            Ok(moved) => moved,
            Err(error) => {
                self.events.push_back(CoordinatorEvent::Ended(Err(error)));
                return self.begin_anew();
            }
        };
        self.map = moved.map.clone();
        let left = left.and_then(|step| remaining(step, &moved));
        self.events.push_back(CoordinatorEvent::Moved(moved));
        match left.filter(|_| chunks > 1) {
            Some(step) => self.start(step, chunks - 1),
            None => self.events.push_back(CoordinatorEvent::Ended(Ok(()))),
        }
    }

    fn sampled(&mut self, now: Instant, reports: Vec<EndpointReport>) {
        self.doing = Doing::Waiting;
        self.sample_at = now + self.config.sample_every;
        let before = self.before.replace((now, reports.clone()));
        let Some((since, before)) = before else {
            return;
        };
        let elapsed = now.since(since);
        let pairs = before.iter().zip(&reports);
        let samples: Vec<EndpointSample> = pairs
            .map(|(before, after)| EndpointSample::between(before, after, elapsed))
            .collect();
        let rebalancer = self.rebalancer.as_mut();
        let step = rebalancer.and_then(|rebalancer| rebalancer.decide(&self.map, &samples));
        self.events.push_back(CoordinatorEvent::Sampled(samples));
        if let Some(step) = step {
            self.events.push_back(CoordinatorEvent::Rebalances(step));
            self.start(step, self.config.chunks_max.max(1));
        }
    }
}

fn newest(states: &[Option<ShardState>]) -> usize {
    let version = |at: &usize| states[*at].as_ref().map(|state| state.version);
    (0..states.len()).max_by_key(version).unwrap_or_default()
}

/// A move that another coordinator has left, to be ended. Committed moves come first, since their
/// keys have no owner until they are adopted.
fn left_over(states: &[(EndpointId, &ShardState)], map: &PartitionMap) -> Option<Mover> {
    let got = |to: &&(EndpointId, &ShardState)| {
        let got = to.1.getting;
        got.is_some_and(|(_, keys, _)| map.owner(keys.low) == to.0)
    };
    let decided = states.iter().find(got);
    let gives = states.iter().find(|from| from.1.giving.is_some());
    let gets = states.iter().find(|to| to.1.getting.is_some());
    // If one side has nothing to end, any other endpoint may stand for it.
    let other = |than: EndpointId| states.iter().find(|other| other.0 != than);
    let taker = |id| {
        let mut takers = states.iter();
        takers.find(|to| to.1.getting.is_some_and(|got| got.0 == id))
    };
    let (from, to) = match (decided, gives) {
        (Some(to), _) => (other(to.0)?, to),
        (None, Some(from)) => {
            let (id, _) = from.1.giving?;
            (from, taker(id).or_else(|| other(from.0))?)
        }
        (None, None) => gets.and_then(|to| Some((other(to.0)?, to)))?,
    };
    Mover::resume(*from, *to, map)
}

/// The rest of a step after one of its chunks.
fn remaining(step: Step, moved: &Moved) -> Option<Step> {
    let keys = moved.keys;
    if keys.low > step.low {
        return Some(Step {
            last: keys.low - 1,
            ..step
        });
    }
    let low = keys.last.checked_add(1).filter(|low| *low <= step.last)?;
    Some(Step { low, ..step })
}
