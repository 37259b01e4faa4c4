//! What the tests of flows say. The fields are described in docs/JSON.md.

use super::flow::FlowMeasured;
use super::report::{Setting, per_second, ratio, scaled, verdict};
use crate::capture::CaptureReport;
use crate::mode::EMBEDDED;
use serde::Serialize;
use std::fmt;

/// What a flow moved, and how fast.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Moved {
    pub items: u64,
    pub bytes: u64,
    pub elapsed_s: f64,
    pub items_per_s: f64,
    pub gigabytes_per_s: f64,
}

/// What the links of a simulated rack did, from the first push to the last item.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Links {
    /// Which part of the time the consumers' wires were busy, on average.
    pub utilisation: f64,
    /// The payload rate over the most that the link's rate allows, on average.
    pub payload_rate: f64,
    /// Packets that full queues dropped, on all links.
    pub drops: u64,
    /// The most bytes that ever waited in the queue to a consumer.
    pub queue_bytes_max: u64,
}

/// What the ends' cores spent on communication in a simulated rack.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Communication {
    pub producers_s: f64,
    pub consumers_s: f64,
}

/// The result of such a test.
#[derive(Clone, Debug, Serialize)]
pub struct FlowReport {
    #[serde(flatten)]
    pub setting: Setting,
    pub parameters: Parameters,
    pub verified: bool,
    pub interrupted: bool,
    #[serde(flatten)]
    pub moved: Moved,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memcpy_gigabytes_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_memcpy: Option<f64>,
    /// What one consumer of several of a balanced or replicated flow got.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer_gigabytes_per_s: Option<f64>,
    /// memcpy over the number of those consumers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memcpy_share_gigabytes_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedded: Option<Moved>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_embedded: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<Links>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub communication_cpu: Option<Communication>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_to_one: Option<Moved>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_linear: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture: Option<CaptureReport>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Parameters {
    pub shape: &'static str,
    pub producers: usize,
    pub consumers: usize,
    pub item_size_bytes: u32,
    pub ring_bytes: u32,
    pub batch_items: u32,
    pub touch: bool,
    pub threads: u8,
    pub mtu_bytes: u32,
}

impl Moved {
    /// What `measured` comes to.
    pub fn new(measured: &FlowMeasured, item_size: u32) -> Self {
        let bytes = measured.items * u64::from(item_size);
        Self {
            items: measured.items,
            bytes,
            elapsed_s: measured.nanos as f64 / 1e9,
            items_per_s: per_second(measured.items, measured.nanos),
            gigabytes_per_s: per_second(bytes, measured.nanos) / 1e9,
        }
    }
}

impl FlowReport {
    /// Puts memcpy beside the flow: the better of what was measured before and after it.
    pub fn compare_to_memcpy(&mut self, before: Option<f64>, after: Option<f64>) {
        let copy = before.zip(after).map(|(before, after)| before.max(after));
        self.memcpy_gigabytes_per_s = copy;
        self.ratio_to_memcpy = copy.map(|copy| ratio(self.moved.gigabytes_per_s, copy));
    }
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} items, {} bytes in {:.6} s: {}items/s, {:.3} GB/s",
            self.items,
            self.bytes,
            self.elapsed_s,
            scaled(self.items_per_s),
            self.gigabytes_per_s
        )
    }
}

impl fmt::Display for FlowReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters = &self.parameters;
        write!(f, "{}", self.setting)?;
        writeln!(
            f,
            "{}: {} producers, {} consumers, items of {} bytes, rings of {} bytes, batches of {}",
            parameters.shape,
            parameters.producers,
            parameters.consumers,
            parameters.item_size_bytes,
            parameters.ring_bytes,
            parameters.batch_items
        )?;
        if self.setting.rack == EMBEDDED {
            let bytes = if parameters.touch {
                "every byte"
            } else {
                "the stamp"
            };
            writeln!(
                f,
                "{} threads at the ends, which touch {bytes}",
                parameters.threads
            )?;
        }
        write!(f, "flow: {}", self.moved)?;
        if let Some(each) = self.consumer_gigabytes_per_s {
            writeln!(f, "each consumer: {each:.3} GB/s")?;
        }
        if let (Some(copy), Some(share), Some(ratio)) = (
            self.memcpy_gigabytes_per_s,
            self.memcpy_share_gigabytes_per_s,
            self.ratio_to_memcpy,
        ) {
            writeln!(
                f,
                "memcpy: {copy:.3} GB/s, {share:.3} GB/s for each of {} consumers; each reaches \
                 {ratio:.2} of its share",
                parameters.consumers
            )?;
        } else if let (Some(copy), Some(ratio)) =
            (self.memcpy_gigabytes_per_s, self.ratio_to_memcpy)
        {
            writeln!(
                f,
                "memcpy: {copy:.3} GB/s; the flow reaches {ratio:.2} of it"
            )?;
        }
        if let (Some(embedded), Some(ratio)) = (&self.embedded, self.ratio_to_embedded) {
            write!(f, "embedded: {embedded}")?;
            writeln!(f, "hosted over embedded: {ratio:.2}")?;
        }
        if let Some(link) = &self.link {
            writeln!(
                f,
                "consumers' links: {:.1} % busy, {:.1} % of the payload rate possible, {} drops, at \
                 most {} bytes waiting",
                link.utilisation * 100.0,
                link.payload_rate * 100.0,
                link.drops,
                link.queue_bytes_max
            )?;
        }
        if let Some(cpu) = &self.communication_cpu {
            writeln!(
                f,
                "CPU time for communication: producers {:.9} s, consumers {:.9} s",
                cpu.producers_s, cpu.consumers_s
            )?;
        }
        if let (Some(alone), Some(ratio)) = (&self.one_to_one, self.ratio_to_linear) {
            write!(f, "1:1 flow: {alone}")?;
            writeln!(f, "scaling: {ratio:.3} of linear")?;
        }
        if let Some(capture) = &self.capture {
            write!(f, "{capture}")?;
        }
        verdict(f, self.verified, self.interrupted)
    }
}
