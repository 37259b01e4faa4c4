//! Whether the calls on one key can be put in a sequence.
//!
//! A key is a register: absent, or present with a value. A call is taken at one moment between its
//! beginning and its end; it requires a state and may make another. The calls are consistent if
//! such moments can be chosen (linearizability, Herlihy and Wing 1990). This is decided exactly:
//! the events are processed in order, with all *configurations* that are possible so far, each a
//! state of the key and the set of pending calls that have been taken; when a call ends, only those
//! are kept in which it is taken, after whichever pending calls are needed to get there (Wing and
//! Gong 1993, in the just-in-time form of Lowe 2017).
//!
//! These rules keep configurations few. Values that no call requires make no difference, so one
//! value is used for all. Of pending calls that need never be taken and are alike but for their
//! ends, the one that ends first is taken first: one that ends later can be taken in its place. A
//! call that only observes is taken as soon as possible, which excludes nothing later. And a
//! configuration is dropped if another one with the same state has taken the same changes, no fewer
//! observations and no more of the changes that need never be taken.

use super::ValueStamp;
use std::collections::{HashMap, HashSet};

/// The state of a key: absent, or a value.
pub(super) type State = Option<ValueStamp>;

/// Maximum calls on one key that may be pending at a time.
const PENDING_MAX: usize = 128;

/// Maximum configurations at a time. Correct histories have some dozens; one in a hundred thousand,
/// of many calls on one key that crashes left open, has had a million.
const CONFIGURATIONS_MAX: usize = 1 << 21;

/// The same when the states of a failure are searched for again, with all values as they are.
const CONFIGURATIONS_REPORTED: usize = 1 << 10;

/// The state required to take a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Needs {
    Any,
    Absent,
    Present,
    Exactly(ValueStamp),
}

/// A call on a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Call {
    /// Numbers of the events, all distinct: a call that ends before another begins was taken before
    /// it.
    pub begun: u64,
    /// `None`: it may be taken at any later time.
    pub ended: Option<u64>,
    /// Whether it was taken for certain. If not, it may have been.
    pub certain: bool,
    pub needs: Needs,
    /// The state that it makes; `None`: it only observes.
    pub makes: Option<State>,
}

/// Why calls cannot be put in a sequence, or why this is not decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Failure {
    /// This call cannot have been taken: the state was one of these whenever it was possible. If
    /// the search was hard, one value is listed for all that no call requires.
    Impossible { call: usize, states: Vec<State> },
    /// Too many calls or configurations at a time.
    TooHard { call: usize },
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Configuration {
    state: State,
    /// Pending calls that have been taken, by slot.
    taken: u128,
}

/// The bits of calls that are alike but for their ends, the first to end first.
type Class = Vec<u128>;

struct Search<'a> {
    calls: &'a [Call],
    /// Maximum configurations.
    limit: usize,
    /// The pending call in each slot.
    pending: Vec<Option<usize>>,
    configurations: Vec<Configuration>,
}

impl Needs {
    fn met_by(self, state: State) -> bool {
        match self {
            Needs::Any => true,
            Needs::Absent => state.is_none(),
            Needs::Present => state.is_some(),
            Needs::Exactly(stamp) => state == Some(stamp),
        }
    }
}

/// Searches for a sequence of all calls, starting from the state `first`.
pub(super) fn search(first: State, calls: &[Call]) -> Result<(), Failure> {
    let (one, alike) = merged(first, calls);
    match decide(one, &alike, CONFIGURATIONS_MAX) {
        Err(failure @ Failure::Impossible { .. }) => {
            match decide(first, calls, CONFIGURATIONS_REPORTED) {
                Err(detailed @ Failure::Impossible { .. }) => Err(detailed),
                _ => Err(failure),
            }
        }
        decided => decided,
    }
}

/// The same without a change of the values, with so many configurations at most.
fn decide(first: State, calls: &[Call], limit: usize) -> Result<(), Failure> {
    let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * calls.len());
    for (at, call) in calls.iter().enumerate() {
        events.push((call.begun, false, at));
        events.extend(call.ended.map(|ended| (ended, true, at)));
    }
    events.sort_unstable();
    let mut search = Search {
        calls,
        limit,
        pending: Vec::new(),
        configurations: vec![Configuration {
            state: first,
            taken: 0,
        }],
    };
    for (_, is_end, call) in events {
        match is_end {
            false => search.begin(call)?,
            true => search.end(call)?,
        }
    }
    Ok(())
}

/// The same with one value in place of all that no call requires.
fn merged(first: State, calls: &[Call]) -> (State, Vec<Call>) {
    let required = calls.iter().filter_map(|call| match call.needs {
        Needs::Exactly(stamp) => Some(stamp),
        _ => None,
    });
    let required: HashSet<ValueStamp> = required.collect();
    let made = calls.iter().filter_map(|call| call.makes.flatten());
    let other = made.chain(first).find(|stamp| !required.contains(stamp));
    let merge = |state: State| match state {
        Some(stamp) if !required.contains(&stamp) => other,
        state => state,
    };
    let calls = calls.iter().map(|call| Call {
        makes: call.makes.map(merge),
        ..*call
    });
    (merge(first), calls.collect())
}

impl Search<'_> {
    fn begin(&mut self, call: usize) -> Result<(), Failure> {
        let free = self.pending.iter().position(Option::is_none);
        let place = free.unwrap_or(self.pending.len());
        if place == PENDING_MAX {
            return Err(Failure::TooHard { call });
        }
        if place == self.pending.len() {
            self.pending.push(None);
        }
        self.pending[place] = Some(call);
        let Call { needs, makes, .. } = self.calls[call];
        for configuration in &mut self.configurations {
            if makes.is_none() && needs.met_by(configuration.state) {
                configuration.taken |= 1 << place;
            }
        }
        Ok(())
    }

    fn end(&mut self, call: usize) -> Result<(), Failure> {
        let place = self.pending.iter().position(|&at| at == Some(call));
        let place = place.expect("a call begins before it ends");
        let bit = 1 << place;
        let before = core::mem::take(&mut self.configurations);
        let mut after = Reached::new(self);
        let mut left = Reached::new(self);
        let classes = self.classes();
        for configuration in &before {
            let configuration = configuration.first_taken(&classes);
            let is_taken = configuration.taken & bit != 0;
            if is_taken || !self.calls[call].certain {
                after.enter(configuration.without(bit));
            }
            if !is_taken {
                left.enter(configuration);
            }
        }
        // For the others: all results of pending calls, until this one is taken.
        while let Some(configuration) = left.next() {
            for next in self.steps(configuration) {
                let next = next.first_taken(&classes);
                if next.taken & bit != 0 {
                    after.enter(next.without(bit));
                } else {
                    left.enter(next);
                }
            }
            if left.count + after.count > self.limit {
                return Err(Failure::TooHard { call });
            }
        }
        self.pending[place] = None;
        self.configurations = after.best();
        if self.configurations.is_empty() {
            let mut states: Vec<State> = before.iter().map(|one| one.state).collect();
            states.sort_unstable();
            states.dedup();
            return Err(Failure::Impossible { call, states });
        }
        Ok(())
    }

    /// The results of applying each of the pending changes to a configuration.
    fn steps(&self, from: Configuration) -> impl Iterator<Item = Configuration> {
        let changes = self.pending_calls().filter_map(move |(place, call)| {
            let state = call.makes?;
            let useless = !call.certain && state == from.state;
            let open = from.taken & 1 << place == 0;
            (open && !useless && call.needs.met_by(from.state)).then_some((place, state))
        });
        changes.map(move |(place, state)| {
            let observed = self.observers(state);
            let taken = from.taken | 1 << place | observed;
            Configuration { state, taken }
        })
    }

    /// The slots of pending calls that only observe and can be taken in this state.
    fn observers(&self, state: State) -> u128 {
        let observers = self.pending_calls().filter(|(_, call)| {
            let observes = call.makes.is_none();
            observes && call.needs.met_by(state)
        });
        observers.fold(0, |places, (place, _)| places | 1 << place)
    }

    /// The pending calls that need never be taken, in classes that are alike but for their ends.
    fn classes(&self) -> Vec<Class> {
        let mut classes = HashMap::<_, Vec<(u64, u128)>>::new();
        let changes = self.pending_calls();
        for (place, call) in changes.filter(|(_, call)| call.makes.is_some() && !call.certain) {
            let class = classes.entry((call.needs, call.makes)).or_default();
            class.push((call.ended.unwrap_or(u64::MAX), 1 << place));
        }
        let classes = classes.into_values().filter(|class| class.len() > 1);
        let in_order = classes.map(|mut class| {
            class.sort_unstable();
            class.into_iter().map(|(_, bit)| bit).collect()
        });
        in_order.collect()
    }

    fn pending_calls(&self) -> impl Iterator<Item = (usize, &Call)> {
        let places = self.pending.iter().enumerate();
        places.filter_map(|(place, call)| Some((place, &self.calls[(*call)?])))
    }
}

impl Configuration {
    /// The same when the call at `bit` is no longer pending.
    fn without(self, bit: u128) -> Self {
        Self {
            taken: self.taken & !bit,
            ..self
        }
    }

    /// The same with as many taken of each class, those that end first.
    fn first_taken(mut self, classes: &[Class]) -> Self {
        for class in classes {
            let all = class.iter().fold(0, |all, bit| all | bit);
            let count = (self.taken & all).count_ones() as usize;
            let first = class[..count].iter().fold(0, |first, bit| first | bit);
            self.taken = self.taken & !all | first;
        }
        self
    }
}

/// Configurations reached, without those dominated by another.
struct Reached {
    /// Slots of pending calls that only observe, and of changes that need never be taken.
    observing: u128,
    optional: u128,
    /// By state and certain changes taken: indices into `all`.
    alike: HashMap<(State, u128), Vec<usize>>,
    /// In the order in which they were reached; `None` once dominated by another.
    all: Vec<Option<Configuration>>,
    /// How many of them were returned.
    given: usize,
    count: usize,
}

impl Reached {
    fn new(search: &Search<'_>) -> Self {
        let places = |wanted: &dyn Fn(&Call) -> bool| {
            let found = search.pending_calls().filter(|(_, call)| wanted(call));
            found.fold(0_u128, |places, (place, _)| places | 1 << place)
        };
        Self {
            observing: places(&|call| call.makes.is_none()),
            optional: places(&|call| call.makes.is_some() && !call.certain),
            alike: HashMap::new(),
            all: Vec::new(),
            given: 0,
            count: 0,
        }
    }

    fn enter(&mut self, one: Configuration) {
        let certain = one.taken & !(self.observing | self.optional);
        let alike = self.alike.entry((one.state, certain)).or_default();
        let (observing, optional) = (self.observing, self.optional);
        // Both have the same state and the same certain changes.
        let can_as_much =
            |one: u128, other: u128| other & observing & !one == 0 && one & optional & !other == 0;
        let all = &mut self.all;
        let others = alike.iter().filter_map(|&at| all[at]);
        if others
            .into_iter()
            .any(|other| can_as_much(other.taken, one.taken))
        {
            return;
        }
        alike.retain(|&at| {
            let inferior = all[at].is_none_or(|other| can_as_much(one.taken, other.taken));
            if inferior {
                all[at] = None;
            }
            !inferior
        });
        alike.push(all.len());
        all.push(Some(one));
        self.count += 1;
    }

    /// The next configuration that was not returned before.
    fn next(&mut self) -> Option<Configuration> {
        while self.given < self.all.len() {
            self.given += 1;
            if let Some(configuration) = self.all[self.given - 1] {
                return Some(configuration);
            }
        }
        None
    }

    fn best(self) -> Vec<Configuration> {
        self.all.into_iter().flatten().collect()
    }
}
