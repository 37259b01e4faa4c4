//! The search against an exhaustive one, on small histories of all kinds.

use super::super::search::{Call, Failure, Needs, State, search};
use super::value;
use rackweave_base::Rng;

/// Whether a sequence exists, by exhaustion: tries each call that nothing must precede as the next.
fn exists(state: State, left: &[Call]) -> bool {
    let must_precede = |one: &Call, other: &Call| one.ended.is_some_and(|end| end < other.begun);
    if left.iter().all(|call| !call.certain) {
        return true;
    }
    (0..left.len()).any(|at| {
        let call = left[at];
        // A call that need not be taken does not hold back others.
        let mut others = left.iter();
        if others.any(|other| other.certain && must_precede(other, &call)) {
            return false;
        }
        let fits = match call.needs {
            Needs::Any => true,
            Needs::Absent => state.is_none(),
            Needs::Present => state.is_some(),
            Needs::Exactly(stamp) => state == Some(stamp),
        };
        if !fits {
            return false;
        }
        // A call taken too late for those that it should have preceded is not taken at all.
        let rest = left
            .iter()
            .enumerate()
            .filter(|(other, next)| *other != at && (next.certain || !must_precede(next, &call)));
        let rest: Vec<Call> = rest.map(|(_, call)| *call).collect();
        exists(call.makes.unwrap_or(state), &rest)
    })
}

/// A few calls that overlap, with results that may or may not be possible.
fn history(rng: &mut Rng) -> Vec<Call> {
    let count = rng.between(1, 7);
    let mut events: Vec<u64> = (0..2 * count).collect();
    for at in (1..events.len()).rev() {
        events.swap(at, rng.below(at as u64 + 1) as usize);
    }
    // Mostly short ones, so that order matters.
    if rng.chance(0.5) {
        events.sort_unstable();
        for _ in 0..count {
            let at = rng.below(2 * count - 1) as usize;
            events.swap(at, at + 1);
        }
    }
    let certainty = *rng.pick(&[0.8, 0.3]);
    let pairs = events.chunks_exact(2).zip(0..);
    let calls = pairs.map(|(pair, number)| {
        let (begun, ended) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
        let other = value(rng.below(count) as u32);
        let needs = *rng.pick(&[
            Needs::Any,
            Needs::Absent,
            Needs::Present,
            Needs::Present,
            Needs::Exactly(other),
        ]);
        let makes = match rng.below(4) {
            0 => None,
            1 => Some(None),
            _ => Some(Some(value(number))),
        };
        let needs = match makes {
            Some(_) if matches!(needs, Needs::Exactly(_)) => Needs::Any,
            _ => needs,
        };
        let certain = makes.is_none() || rng.chance(certainty);
        let open = !certain && rng.chance(0.5);
        Call {
            begun,
            ended: (!open).then_some(ended),
            certain,
            needs,
            makes,
        }
    });
    calls.collect()
}

#[test]
fn the_search_is_exact() {
    let mut rng = Rng::new(0x1d);
    let (mut possible, mut impossible) = (0, 0);
    for round in 0..20_000 {
        let calls = history(&mut rng);
        let expect = exists(None, &calls);
        match search(None, &calls) {
            Ok(()) => assert!(expect, "round {round}: {calls:#?}"),
            Err(Failure::Impossible { call, states }) => {
                assert!(
                    !expect,
                    "round {round}, call {call}, {states:?}: {calls:#?}"
                );
            }
            Err(failure) => panic!("round {round}: {failure:?}"),
        }
        *(if expect {
            &mut possible
        } else {
            &mut impossible
        }) += 1;
    }
    assert!(
        possible > 3000 && impossible > 3000,
        "{possible} {impossible}"
    );
}

/// Writes and removals whose outcome nobody knows are as many as a stopped endpoint leaves.
#[test]
fn many_open_changes_are_judged() {
    for seed in 0..10 {
        let calls = honest(&mut Rng::new(seed), 300, 6);
        let open = (0..100u32).map(|number| Call {
            begun: 0,
            ended: None,
            certain: false,
            needs: Needs::Any,
            makes: Some((number % 3 > 0).then(|| value(1_000_000 + number))),
        });
        let calls: Vec<Call> = open.chain(calls).collect();
        assert_eq!(search(None, &calls), Ok(()), "seed {seed}");
    }
}

/// A register with concurrent users, each call taking effect at some moment of its own: never a
/// violation, however much overlaps; with one result changed there nearly always is one.
#[test]
fn long_histories_are_judged() {
    let mut missed = 0;
    for seed in 0..40 {
        let mut calls = honest(&mut Rng::new(seed), 1500, 8);
        assert_eq!(search(None, &calls), Ok(()), "seed {seed}");
        let mut rng = Rng::new(seed).fork("damage");
        let reads = calls
            .iter()
            .positions(|call| matches!(call.needs, Needs::Exactly(_)));
        let read = *rng.pick(&reads);
        let Needs::Exactly(stamp) = calls[read].needs else {
            unreachable!("chosen for it");
        };
        // A value from some time before.
        let older = calls.iter().filter(|call| {
            call.certain && call.ended.is_some_and(|end| end + 40 < calls[read].begun)
        });
        let mut older = older.filter_map(|call| call.makes.flatten());
        match older.rfind(|other| *other != stamp) {
            Some(other) => calls[read].needs = Needs::Exactly(other),
            None => continue,
        }
        missed += u32::from(search(None, &calls).is_ok());
    }
    assert!(missed <= 2, "{missed} changed results were not noticed");
}

trait Positions: Iterator + Sized {
    fn positions(self, wanted: impl Fn(Self::Item) -> bool) -> Vec<usize> {
        let found = self
            .enumerate()
            .filter_map(|(at, item)| wanted(item).then_some(at));
        found.collect()
    }
}

impl<I: Iterator> Positions for I {}

fn honest(rng: &mut Rng, count: u32, at_once: usize) -> Vec<Call> {
    let (mut calls, mut state) = (Vec::<Call>::new(), None);
    // Begun but without effect yet; with effect but not ended.
    let (mut waiting, mut done): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut event = 0;
    while calls.len() < count as usize || !waiting.is_empty() || !done.is_empty() {
        event += 1;
        match rng.below(3) {
            0 if calls.len() < count as usize && waiting.len() + done.len() < at_once => {
                waiting.push(calls.len());
                calls.push(Call {
                    begun: event,
                    ended: None,
                    certain: true,
                    needs: Needs::Any,
                    makes: None,
                });
            }
            1 if !waiting.is_empty() => {
                let at = waiting.swap_remove(rng.below(waiting.len() as u64) as usize);
                let call = &mut calls[at];
                let is = match state {
                    None => Needs::Absent,
                    Some(stamp) => Needs::Exactly(stamp),
                };
                let holds = if state.is_some() {
                    Needs::Present
                } else {
                    Needs::Absent
                };
                (call.needs, call.makes) = match rng.below(4) {
                    0 => (Needs::Any, Some(Some(value(at as u32)))),
                    1 => (holds, Some(state.is_none().then(|| value(at as u32)))),
                    _ => (is, None),
                };
                state = call.makes.unwrap_or(state);
                done.push(at);
            }
            2 if !done.is_empty() => {
                let at = done.swap_remove(rng.below(done.len() as u64) as usize);
                // Some callers never get a result.
                if calls[at].makes.is_some() && rng.chance(0.01) {
                    calls[at].certain = false;
                    if calls[at].needs == Needs::Any && rng.chance(0.3) {
                        continue;
                    }
                }
                calls[at].ended = Some(event);
            }
            _ => {}
        }
    }
    calls
}
