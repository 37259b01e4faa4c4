//! A search for the shortest way to a violation, through all states.

use super::protocol::Model;
use super::state::{State, Step, Work};
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

/// What a search has found.
pub(super) struct Found {
    pub(super) states: usize,
    /// The steps to a violation, and what it is.
    pub(super) violation: Option<Vec<String>>,
}

/// States are hashed field by field: std's hasher takes half of the time of a test that is not
/// optimised.
#[derive(Default)]
struct FieldHasher(u64);

impl Hasher for FieldHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u8(byte));
    }

    fn write_u8(&mut self, field: u8) {
        // FxHash of rustc.
        let mixed = self.0.rotate_left(5) ^ u64::from(field);
        self.0 = mixed.wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_isize(&mut self, discriminant: isize) {
        self.write_u8(discriminant as u8);
    }

    fn write_usize(&mut self, length: usize) {
        self.write_u8(length as u8);
    }

    fn finish(&self) -> u64 {
        // Tables take their index from the lower bits, into which no multiplication carries.
        self.0 ^ (self.0 >> 32)
    }
}

fn all_steps<const N: usize>(model: &Model) -> Vec<Step> {
    let mut steps = vec![Step::Tick, Step::Restart];
    for i in 0..N {
        for slot in 0..model.verifies {
            steps.extend([Step::Verify(i, slot), Step::Granted(i, slot)]);
        }
        let of_node: [fn(usize) -> Step; 17] = [
            Step::Ask,
            Step::Ping,
            Step::Fetch,
            Step::Latch,
            Step::Latched,
            Step::Revoked,
            Step::Commit,
            Step::Committed,
            Step::Release,
            Step::Read,
            Step::Write,
            Step::Executed,
            Step::Acknowledged,
            Step::StaleExecuted,
            Step::StaleAcknowledged,
            Step::Death,
            Step::NodeTick,
        ];
        steps.extend(of_node.map(|step| step(i)));
    }
    steps
}

/// Exchanges nodes such that states which differ only in their names are the same.
fn canonical<const N: usize>(mut state: State<N>) -> State<N> {
    for node in &mut state.nodes {
        node.verifies.sort_unstable_by(|a, b| b.cmp(a));
    }
    state.nodes.sort_unstable();
    state
}

/// Explores all states, breadth first, up to the first violation.
pub(super) fn search<const N: usize>(model: &Model) -> Found {
    let steps = all_steps::<N>(model);
    let first = State::<N>::first();
    // Each state, and the index of the one from which it was reached.
    let mut reached = vec![(first, 0)];
    let mut seen = HashSet::<_, BuildHasherDefault<FieldHasher>>::from_iter([first]);
    let mut index = 0;
    while index < reached.len() {
        let state = reached[index].0;
        for &step in &steps {
            let Some(next) = model.apply(&state, step).map(canonical) else {
                continue;
            };
            if !seen.insert(next) {
                continue;
            }
            reached.push((next, index));
            if model.check(&next).is_some() {
                let mut way = vec![reached.len() - 1];
                while way[way.len() - 1] != 0 {
                    way.push(reached[way[way.len() - 1]].1);
                }
                let way: Vec<_> = way.iter().rev().skip(1).map(|&i| reached[i].0).collect();
                return Found {
                    states: reached.len(),
                    violation: Some(trace(model, &steps, &way)),
                };
            }
        }
        index += 1;
    }
    Found {
        states: reached.len(),
        violation: None,
    }
}

/// Goes the way again, since the nodes change their names in it.
fn trace<const N: usize>(model: &Model, steps: &[Step], way: &[State<N>]) -> Vec<String> {
    let mut state = State::<N>::first();
    let mut newest = 0;
    let mut lines = Vec::new();
    for target in way {
        let next = |&step: &Step| {
            let next = model.apply(&state, step)?;
            (canonical(next) == *target).then_some((step, next))
        };
        let (step, next) = steps.iter().find_map(next).expect("the way leads there");
        lines.push(describe(step, &state, &next, newest));
        newest += usize::from(matches!(step, Step::Commit(i) if state.nodes[i].holder));
        state = next;
    }
    lines.extend(model.check(&state).map(String::from));
    lines
}

fn describe<const N: usize>(
    step: Step,
    before: &State<N>,
    after: &State<N>,
    newest: usize,
) -> String {
    let name = |i: usize| char::from(b'A' + i as u8);
    let copy = |i: usize| newest - usize::from(before.nodes[i].copy);
    match step {
        Step::Ask(i) => format!(
            "{} stores a token, asks for a lease of v{}",
            name(i),
            copy(i)
        ),
        Step::Verify(i, _) if after.nodes[i].leasing => {
            format!("switch: {} is granted a lease", name(i))
        }
        Step::Verify(i, _) => format!("switch: {} is refused a lease", name(i)),
        Step::Granted(i, _) => format!("{} receives the grant", name(i)),
        Step::Ping(i) => format!("{} sends another request and receives its answer", name(i)),
        Step::Fetch(i) => format!("{} reads v{newest} through the switch", name(i)),
        Step::Latch(i) => format!("switch: {} is the holder of v{newest}", name(i)),
        Step::Latched(i) if after.nodes[i].work == Work::Revoke => {
            format!(
                "{} receives the latch, and sends Revoke: others have leases",
                name(i)
            )
        }
        Step::Latched(i) => format!("{} receives the latch, and has the guard", name(i)),
        Step::Revoked(i) => format!("{}: its revocation is finished, it has the guard", name(i)),
        Step::Commit(i) if before.nodes[i].holder => {
            format!("switch: {} commits v{}", name(i), newest + 1)
        }
        Step::Commit(i) => format!("switch: a commit of {} is refused", name(i)),
        Step::Committed(i) => format!("{}: the commit returns", name(i)),
        Step::Release(i) => format!("{} releases the latch without a change", name(i)),
        Step::Read(i) => format!("{} reads v{} under its lease", name(i), copy(i)),
        Step::Write(i) => format!("switch: a WRITE of 0 to {} is sent", name(i)),
        Step::Executed(i) => format!("{}: the WRITE of 0 is executed", name(i)),
        Step::Acknowledged(i) => format!("switch: {} acknowledges the WRITE", name(i)),
        Step::StaleExecuted(i) => format!("{}: an earlier WRITE of 0 is executed", name(i)),
        Step::StaleAcknowledged(i) => format!("switch: {} acknowledges an earlier WRITE", name(i)),
        Step::Death(i) => format!("controller: {} is declared dead", name(i)),
        Step::NodeTick(i) => format!("{}: its clock ticks", name(i)),
        Step::Tick => "the global clock ticks".into(),
        Step::Restart => "the switch restarts".into(),
    }
}
