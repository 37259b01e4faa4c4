//! The judge of a flow: finds lost, duplicated and reordered items from what was pushed and what
//! each consumer saw. It is independent of rings and switches.

use super::Sink;
use super::stamps::Run;
use rackweave_controller::FlowShape;

/// What is known about a flow.
pub struct Evidence<'a> {
    /// How items find their consumers.
    pub shape: FlowShape,
    /// Number of items of each producer, by its rings.
    pub pushed: Vec<Vec<u64>>,
    /// What each consumer saw.
    pub seen: Vec<Seen<'a>>,
    /// Whether the flow was aborted, so that items may be missing at the end.
    pub is_cut: bool,
}

/// What a consumer saw.
#[derive(Clone, Copy, Default)]
pub struct Seen<'a> {
    /// Runs of items, in the order in which it saw them.
    pub runs: &'a [Run],
    /// Whether it joined a running flow.
    pub joined: bool,
    /// Whether it left before the flow's end.
    pub left: bool,
}

impl<'a> From<&'a Sink> for Seen<'a> {
    /// The record of a consumer that was present all the time.
    fn from(sink: &'a Sink) -> Self {
        Self {
            runs: &sink.runs,
            ..Self::default()
        }
    }
}

/// Everything that is wrong with a flow, in words.
pub fn judge(evidence: &Evidence<'_>) -> Vec<String> {
    let mut problems = Vec::new();
    for (consumer, seen) in evidence.seen.iter().enumerate() {
        if let Some(problem) = disorder(seen.runs) {
            problems.push(format!("consumer {consumer}: {problem}"));
        }
    }
    // The following checks assume order.
    if problems.is_empty() {
        match evidence.shape {
            FlowShape::Shuffle => shuffled(evidence, &mut problems),
            FlowShape::Balance => balanced(evidence, &mut problems),
            FlowShape::Replicate => replicated(evidence, &mut problems),
        }
    }
    problems
}

/// The first item that did not come after all earlier ones of its producer.
fn disorder(runs: &[Run]) -> Option<String> {
    let mut next: Vec<u64> = Vec::new();
    for run in runs {
        let at = run.producer as usize;
        next.resize(next.len().max(at + 1), 0);
        if run.first < next[at] {
            return Some(format!(
                "item {} of producer {at} came after item {}",
                run.first,
                next[at] - 1
            ));
        }
        next[at] = run.end;
    }
    None
}

/// The items of one producer that a consumer saw.
fn of(runs: &[Run], producer: usize) -> impl Iterator<Item = &Run> {
    runs.iter()
        .filter(move |run| run.producer as usize == producer)
}

/// Whether `runs`, sorted, are the items from `first` up to `pushed`, each once; otherwise the
/// error.
fn tiled<'a>(
    runs: impl Iterator<Item = &'a Run>,
    (first, pushed, is_cut): (u64, u64, bool),
) -> Result<(), String> {
    let mut next = first;
    for run in runs {
        if run.first < next {
            return Err(format!("item {} came twice", run.first));
        }
        if run.first > next && !is_cut {
            return Err(format!("items {next} to {} are lost", run.first - 1));
        }
        next = run.end;
    }
    if next > pushed {
        return Err(format!("item {pushed} came, and was never pushed"));
    }
    if next < pushed && !is_cut {
        return Err(format!("items {next} to {} are lost", pushed - 1));
    }
    Ok(())
}

fn shuffled(evidence: &Evidence<'_>, problems: &mut Vec<String>) {
    for (consumer, seen) in evidence.seen.iter().enumerate() {
        for (producer, pushed) in evidence.pushed.iter().enumerate() {
            let pushed = pushed.get(consumer).copied().unwrap_or(0);
            // In a consumer's own ring no item may be missing in the middle, even if the flow was
            // aborted.
            let runs: Vec<&Run> = of(seen.runs, producer).collect();
            let end = match evidence.is_cut {
                true => runs.last().map_or(0, |run| run.end.min(pushed)),
                false => pushed,
            };
            if let Err(problem) = tiled(runs.into_iter(), (0, end, false)) {
                problems.push(format!(
                    "from producer {producer} to consumer {consumer}: {problem}"
                ));
            }
        }
    }
}

fn balanced(evidence: &Evidence<'_>, problems: &mut Vec<String>) {
    for (producer, pushed) in evidence.pushed.iter().enumerate() {
        let all = evidence.seen.iter();
        let mut runs: Vec<&Run> = all.flat_map(|seen| of(seen.runs, producer)).collect();
        runs.sort_by_key(|run| (run.first, run.end));
        if let Err(problem) = tiled(runs.into_iter(), (0, pushed[0], evidence.is_cut)) {
            problems.push(format!("of producer {producer}: {problem}"));
        }
    }
}

fn replicated(evidence: &Evidence<'_>, problems: &mut Vec<String>) {
    for (consumer, seen) in evidence.seen.iter().enumerate() {
        for (producer, pushed) in evidence.pushed.iter().enumerate() {
            let runs: Vec<&Run> = of(seen.runs, producer).collect();
            let last = runs.last().map_or(0, |run| run.end);
            // One that saw nothing of a producer joined after its last item, or left before its
            // first.
            let (first, end) = match (seen.joined, seen.left || evidence.is_cut) {
                (true, _) if runs.is_empty() => continue,
                (joined, cut) => (
                    if joined { runs[0].first } else { 0 },
                    if cut { last.min(pushed[0]) } else { pushed[0] },
                ),
            };
            if let Err(problem) = tiled(runs.into_iter(), (first, end, false)) {
                problems.push(format!(
                    "replica {consumer}, of producer {producer}: {problem}"
                ));
            }
        }
    }
    for (a, one) in evidence.seen.iter().enumerate() {
        for (b, other) in evidence.seen.iter().enumerate().skip(a + 1) {
            if !agree(one.runs, other.runs) {
                problems.push(format!("replicas {a} and {b} saw different orders"));
            }
        }
    }
}

/// Whether two replicas saw the same items while both were present: two pieces of one sequence, in
/// which every item occurs once.
fn agree(one: &[Run], other: &[Run]) -> bool {
    match (laid(one, other), laid(other, one)) {
        (Some(agree), _) | (None, Some(agree)) => agree,
        // One had left before the other joined.
        (None, None) => are_apart(one, other),
    }
}

/// Aligns the beginning of `late` with the same item of `early`. Returns whether they agree from
/// there on, and whether the rest of `late` after the end of `early` is new to it.
fn laid(early: &[Run], late: &[Run]) -> Option<bool> {
    let first = late.first()?;
    let at = early.iter().position(|run| {
        run.producer == first.producer && (run.first..run.end).contains(&first.first)
    })?;
    let (mut ours, mut theirs) = (early[at..].to_vec(), late.to_vec());
    ours[0].first = first.first;
    let (mut a, mut b) = (0, 0);
    while let (Some(x), Some(y)) = (ours.get_mut(a), theirs.get_mut(b)) {
        if (x.producer, x.first) != (y.producer, y.first) {
            return Some(false);
        }
        let end = x.end.min(y.end);
        (x.first, y.first) = (end, end);
        a += usize::from(x.first == x.end);
        b += usize::from(y.first == y.end);
    }
    Some(are_apart(early, &theirs[b..]))
}

/// Whether the two have no item in common.
fn are_apart(one: &[Run], other: &[Run]) -> bool {
    let mut all: Vec<&Run> = one.iter().chain(other).collect();
    all.sort_by_key(|run| (run.producer, run.first));
    let mut pairs = all.windows(2);
    pairs.all(|two| two[0].producer != two[1].producer || two[0].end <= two[1].first)
}

#[cfg(test)]
mod tests;
