//! The keys of an action: their names, their ranges, and which of them can be combined.

use super::script::{Action, Consumer, Create, Leaver, Producer, ScriptLine, What};
use crate::items::ITEMS_MAX;
use crate::items::stamps::ITEM_MIN;
use crate::measure::Amount;
use rackweave_controller::{FlowShape, LossPolicy};
use rackweave_rack::config::nearest::hint;
use serde::{Deserialize, Serialize};

/// An action as written in the file.
#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct Raw {
    at_ms: Option<u64>,
    at_us: Option<u64>,
    action: Option<String>,
    flow: Option<String>,
    expect_error: Option<bool>,
    shape: Option<String>,
    producers: Option<Vec<String>>,
    consumers: Option<Vec<String>>,
    item_bytes: Option<u32>,
    ring_bytes: Option<u32>,
    weight: Option<RawWeight>,
    on_loss: Option<String>,
    doorbells: Option<bool>,
    poll_interval_us: Option<u64>,
    batch_bytes: Option<u32>,
    items: Option<u64>,
    run_ms: Option<u64>,
    producer_rate_mb_s: Option<f64>,
    consumer_rate_mb_s: Option<RawRates>,
    node: Option<String>,
    consumer: Option<usize>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "a weight is a number, or \"none\"")]
enum RawWeight {
    Number(u32),
    Word(String),
}

#[derive(Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "consumer_rate_mb_s is a number, or a list with one number per consumer"
)]
enum RawRates {
    All(f64),
    Each(Vec<f64>),
}

const ACTIONS: [&str; 7] = [
    "create",
    "weight",
    "add-consumer",
    "remove-consumer",
    "add-producer",
    "close",
    "report",
];
const SHAPES: [(&str, FlowShape); 3] = [
    ("shuffle", FlowShape::Shuffle),
    ("balance", FlowShape::Balance),
    ("replicate", FlowShape::Replicate),
];
const POLICIES: [(&str, LossPolicy); 3] = [
    ("abort", LossPolicy::Abort),
    ("report", LossPolicy::Report),
    ("redeliver", LossPolicy::Redeliver),
];

/// Times and rates above this are mistakes, and sums with them might overflow.
const MILLIS_MAX: u64 = 24 * 3600 * 1000;
const MB_S_MAX: f64 = 1e9;

impl Raw {
    /// Returns the action.
    ///
    /// # Errors
    /// The first key that is missing, unexpected or out of range.
    pub fn understand(mut self, place: ScriptLine) -> Result<Action, String> {
        let at = self.time()?;
        let word = self
            .action
            .take()
            .ok_or_else(|| format!("`action` is missing; known actions: {}", ACTIONS.join(", ")))?;
        let expect_error = self.expect_error.take().unwrap_or(false);
        let flow = self.flow.take();
        if flow.is_none() && word != "report" && ACTIONS.contains(&word.as_str()) {
            return Err(format!("`flow` is missing; say which flow to {word}"));
        }
        let what = match word.as_str() {
            "create" => What::Create(Box::new(self.create()?)),
            "weight" => What::Weight(self.new_weight()?),
            "add-consumer" => What::AddConsumer(Consumer {
                node: needed(self.node.take(), "node", &word)?,
                rate: match self.consumer_rate_mb_s.take() {
                    Some(RawRates::Each(_)) => {
                        return Err("consumer_rate_mb_s is one number here".into());
                    }
                    Some(RawRates::All(rate)) => limit("consumer_rate_mb_s", Some(rate))?,
                    None => None,
                },
            }),
            "remove-consumer" => What::RemoveConsumer(self.leaver()?),
            "add-producer" => What::AddProducer(Producer {
                node: needed(self.node.take(), "node", &word)?,
                amount: self.amount()?,
                rate: limit("producer_rate_mb_s", self.producer_rate_mb_s.take())?,
            }),
            "close" => What::Close,
            "report" => What::Report,
            other => {
                let hint = hint(other, &ACTIONS, "actions");
                return Err(format!("unknown action `{other}`; {hint}"));
            }
        };
        match self.left_over() {
            Some(key) => Err(format!("{word} has no use for `{key}`; leave it out")),
            None => Ok(Action {
                place,
                at,
                flow,
                expect_error,
                what,
            }),
        }
    }

    fn time(&mut self) -> Result<u64, String> {
        let nanos = match (self.at_ms.take(), self.at_us.take()) {
            (Some(millis), None) => millis.saturating_mul(1_000_000),
            (None, Some(micros)) => micros.saturating_mul(1000),
            (None, None) => return Err("`at_ms` is missing; say when, 0 is the start".into()),
            (Some(_), Some(_)) => return Err("at_ms and at_us are both there; keep one".into()),
        };
        if nanos > MILLIS_MAX * 1_000_000 {
            return Err("the time is more than a day; use a smaller one".into());
        }
        Ok(nanos)
    }

    fn create(&mut self) -> Result<Create, String> {
        let producers = needed(self.producers.take(), "producers", "create")?;
        let consumers = needed(self.consumers.take(), "consumers", "create")?;
        let shape = needed(self.shape.take(), "shape", "create")?;
        let on_loss = self.on_loss.take().unwrap_or_else(|| "abort".into());
        let item_bytes = self.item_bytes.take().unwrap_or(4096);
        if item_bytes < ITEM_MIN {
            return Err(format!(
                "item_bytes is {item_bytes}: the stamp by which items are checked needs {ITEM_MIN}"
            ));
        }
        let consumer_rates = match self.consumer_rate_mb_s.take() {
            None => vec![None; consumers.len()],
            Some(RawRates::All(rate)) => {
                vec![limit("consumer_rate_mb_s", Some(rate))?; consumers.len()]
            }
            Some(RawRates::Each(rates)) if rates.len() == consumers.len() => rates
                .into_iter()
                .map(|rate| limit("consumer_rate_mb_s", Some(rate)))
                .collect::<Result<_, _>>()?,
            Some(RawRates::Each(rates)) => {
                return Err(format!(
                    "consumer_rate_mb_s has {} numbers for {} consumers; give one for each",
                    rates.len(),
                    consumers.len()
                ));
            }
        };
        Ok(Create {
            shape: one_of("shape", &shape, &SHAPES)?,
            producers,
            consumers,
            item_bytes,
            ring_bytes: self.ring_bytes.take().unwrap_or(256 << 10),
            weight: match self.weight {
                Some(_) => self.new_weight()?,
                None => None,
            },
            on_loss: one_of("on_loss", &on_loss, &POLICIES)?,
            doorbells: self.doorbells.take().unwrap_or(false),
            poll_interval_us: self.poll_interval_us.take(),
            batch_bytes: self.batch_bytes.take(),
            amount: self.amount()?,
            producer_rate: limit("producer_rate_mb_s", self.producer_rate_mb_s.take())?,
            consumer_rates,
        })
    }

    fn amount(&mut self) -> Result<Amount, String> {
        match (self.items.take(), self.run_ms.take()) {
            (Some(items), None) if items <= ITEMS_MAX => Ok(Amount::Count(items)),
            (Some(items), None) => Err(format!(
                "items is {items}: at most {} can be told apart",
                ITEMS_MAX
            )),
            (None, Some(millis)) if millis <= MILLIS_MAX => Ok(Amount::Nanos(millis * 1_000_000)),
            (None, Some(_)) => Err("run_ms is more than a day; use a smaller one".into()),
            (None, None) => Err("say how much a producer pushes: items = N, or run_ms = N".into()),
            (Some(_), Some(_)) => Err("items and run_ms are both there; keep one".into()),
        }
    }

    fn new_weight(&mut self) -> Result<Option<u32>, String> {
        match needed(self.weight.take(), "weight", "weight")? {
            RawWeight::Number(weight) => Ok(Some(weight)),
            RawWeight::Word(word) if word == "none" => Ok(None),
            RawWeight::Word(word) => Err(format!(
                "weight is {word:?}: use a number from 1 to 65536, or \"none\""
            )),
        }
    }

    fn leaver(&mut self) -> Result<Leaver, String> {
        match (self.consumer.take(), self.node.take()) {
            (Some(index), None) => Ok(Leaver::Index(index)),
            (None, Some(node)) => Ok(Leaver::Node(node)),
            (None, None) => Err("say who leaves: consumer = N (its number), or node".into()),
            (Some(_), Some(_)) => Err("consumer and node are both there; keep one".into()),
        }
    }

    /// A key that was not used.
    fn left_over(&self) -> Option<String> {
        let raw = serde_json::to_value(self).ok()?;
        let mut left = raw
            .as_object()?
            .iter()
            .filter(|(_, value)| !value.is_null());
        left.next().map(|(key, _)| key.clone())
    }
}

fn needed<T>(value: Option<T>, key: &str, action: &str) -> Result<T, String> {
    value.ok_or_else(|| format!("`{key}` is missing; {action} needs it"))
}

fn one_of<T: Copy>(key: &str, word: &str, known: &[(&str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(name, _)| *name == word);
    found.map(|&(_, value)| value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|&(name, _)| name).collect();
        let hint = hint(word, &names, &format!("values of {key}"));
        format!("unknown {key} `{word}`; {hint}")
    })
}

/// Converts megabytes per second to bytes per second; zero means no limit.
fn limit(key: &str, rate: Option<f64>) -> Result<Option<f64>, String> {
    match rate {
        None => Ok(None),
        Some(0.0) => Ok(None),
        Some(rate) if (0.001..=MB_S_MAX).contains(&rate) => Ok(Some(rate * 1e6)),
        Some(rate) => Err(format!(
            "{key} is {rate}: use megabytes per second from 0.001 on, or 0 for no limit"
        )),
    }
}
