//! The verdict at the end of a flow: missing items, and violations that only the whole run can
//! show.

use super::order::{Owed, RingKey};
use super::seen::{Ring, Seen};
use super::{Consumer, FlowHistory, Member, Shape, Violation};

impl FlowHistory {
    /// Ends the flow and checks for missing items, too.
    ///
    /// # Errors
    /// All violations, the first ones in full.
    pub fn finish(mut self) -> Result<(), Vec<Violation>> {
        let mut found = self.still_wrong();
        let owed: Vec<Owed> = (0..self.consumers.len())
            .map(|consumer| self.orders.owed(consumer))
            .collect();
        for (&key, ring) in &self.rings {
            match self.shape {
                Shape::Routed => found.extend(self.judge_routed(key, ring)),
                Shape::Balanced => found.extend(self.judge_balanced(key, ring)),
                Shape::Replicated => found.extend(self.judge_replicated(key, ring, &owed)),
            }
        }
        found.extend(self.judge_losses());
        found.extend(self.judge_orders());
        found.extend(self.judge_ends());
        for violation in found {
            self.violations.push(violation);
        }
        self.violations.judge(())
    }

    /// Violations that would have been excused if a suspect had been given up, which did not
    /// happen.
    fn still_wrong(&mut self) -> Vec<Violation> {
        let doubtful = core::mem::take(&mut self.doubtful);
        let given_up = |member: &Option<Member>| match *member {
            Some(Member::Producer(at)) => self.abandoned_producers.contains(&at),
            Some(Member::Consumer(at)) => self.consumers[usize::from(at)].abandoned,
            None => false,
        };
        let wrong = doubtful.into_iter();
        let wrong = wrong.filter(|(_, members)| !members.iter().any(given_up));
        wrong.map(|(violation, _)| violation).collect()
    }

    /// Whether a consumer has to see everything to the end.
    fn stays(&self, consumer: &Consumer) -> bool {
        !(consumer.abandoned || consumer.left || self.aborted)
    }

    fn judge_routed(&self, key: RingKey, ring: &Ring) -> Option<Violation> {
        let (producer, destination) = key;
        let stays = match self.consumers.get(usize::from(destination)) {
            Some(consumer) => self.stays(consumer),
            None => !self.aborted,
        };
        let stays = stays && !self.abandoned_producers.contains(&producer);
        let to = if stays { Some(ring.len()) } else { None };
        judge_range(key, ring, ring.seen(0), destination, 0, to)
    }

    /// Each balanced consumer pops at its own pace, so gaps prove nothing until the end.
    fn judge_balanced(&self, (producer, destination): RingKey, ring: &Ring) -> Option<Violation> {
        if self.losses_excused() || self.aborted || self.abandoned_producers.contains(&producer) {
            return None;
        }
        let pushed = ring.len();
        let (first, count) = ring.seen(0).missing(0, pushed)?;
        Some(Violation::Lost {
            producer,
            destination,
            whom: None,
            first,
            count,
            pushed,
        })
    }

    /// Whether dead consumers may take items with them, up to the reported number.
    fn losses_excused(&self) -> bool {
        let excuses =
            |consumer: &Consumer| consumer.abandoned && (!self.redelivers || consumer.excused > 0);
        self.shape == Shape::Balanced && self.consumers.iter().any(excuses)
    }

    fn judge_replicated(&self, key: RingKey, ring: &Ring, owed: &[Owed]) -> Vec<Violation> {
        let gone = self.abandoned_producers.contains(&key.0);
        // Items of a dead producer that one consumer saw must be seen by all.
        let staying = || {
            let all = self.consumers.iter().enumerate();
            all.filter(|(_, consumer)| self.stays(consumer))
        };
        let to = if gone {
            staying().map(|(at, _)| ring.seen(at).end).max()
        } else {
            Some(ring.len())
        };
        let judge = |(at, consumer): (usize, &Consumer)| {
            let to = if self.stays(consumer) { to } else { None };
            let from = self.owed_from(at, &owed[at], key, ring.len());
            judge_range(key, ring, ring.seen(at), at as u16, from, to)
        };
        let consumers = self.consumers.iter().enumerate();
        consumers.filter_map(judge).collect()
    }

    /// The first item of a ring that a consumer of a replicated flow must see.
    pub(super) fn owed_from(&self, consumer: usize, owed: &Owed, key: RingKey, pushed: u64) -> u64 {
        let from = owed.from(key, pushed);
        let joined = self.consumers[consumer].joined_at.as_ref();
        // A ring that did not exist then is owed from its first item on.
        let promised = joined.map(|rings| rings.get(&key).copied().unwrap_or(0));
        from.min(promised.unwrap_or(pushed))
    }

    fn judge_losses(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut reported = 0;
        for (at, consumer) in self.consumers.iter().enumerate() {
            if consumer.abandoned {
                reported += consumer.excused;
                reported += if self.redelivers { 0 } else { consumer.lost };
            } else if consumer.lost > 0 {
                found.push(Violation::LossWithoutDeath {
                    consumer: at as u16,
                    count: consumer.lost,
                });
            }
        }
        if self.losses_excused() && !self.aborted {
            let alive = |&(&(producer, _), _): &(&RingKey, &Ring)| {
                !self.abandoned_producers.contains(&producer)
            };
            let missing = |(_, ring): (&RingKey, &Ring)| {
                let missing = ring.seen(0).missing(0, ring.len());
                missing.map_or(0, |(_, count)| count)
            };
            let missing = self.rings.iter().filter(alive).map(missing).sum();
            if missing > reported {
                found.push(Violation::LostUnreported { missing, reported });
            }
        }
        found
    }

    fn judge_orders(&self) -> Vec<Violation> {
        if self.shape != Shape::Replicated {
            return Vec::new();
        }
        let mut found = Vec::new();
        if let Some((consumer, other)) = self.orders.crossed() {
            found.push(Violation::OrdersCross { consumer, other });
        }
        let all = self.consumers.iter().enumerate();
        let mut staying = all
            .filter(|(_, consumer)| self.stays(consumer))
            .filter_map(|(at, _)| Some((at as u16, self.orders.segment(at)?)));
        if let Some((other, segment)) = staying.next()
            && let Some((consumer, _)) = staying.find(|&(_, at)| at != segment)
        {
            found.push(Violation::OrdersApart { consumer, other });
        }
        found
    }

    fn judge_ends(&self) -> Vec<Violation> {
        let mut producers = self.rings.keys().map(|(producer, _)| producer);
        let open = producers.any(|producer| !self.closed.contains(producer));
        if open || self.closed.is_empty() {
            return Vec::new();
        }
        let all = self.consumers.iter().enumerate();
        let waiting = all.filter(|(_, consumer)| self.stays(consumer) && !consumer.ended);
        waiting
            .map(|(at, _)| Violation::NoEnd {
                consumer: at as u16,
            })
            .collect()
    }
}

/// Checks the items that a consumer saw of a ring: no gap from `from` on, and everything up to
/// `to`, if given.
fn judge_range(
    (producer, destination): RingKey,
    ring: &Ring,
    seen: &Seen,
    whom: u16,
    from: u64,
    to: Option<u64>,
) -> Option<Violation> {
    let whom = Some(whom);
    let (first, count) = seen.missing(from, to.unwrap_or(seen.end))?;
    Some(match to {
        Some(_) => Violation::Lost {
            producer,
            destination,
            whom,
            first,
            count,
            pushed: ring.len(),
        },
        None => Violation::NotPrefix {
            producer,
            destination,
            whom,
            first,
            later: seen.end - 1,
        },
    })
}
