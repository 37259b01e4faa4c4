//! Sets of metrics.
//!
//! All kinds of `DataFusion` and of `datafusion-distributed` cross, with their labels, partition,
//! level and category. A metric of a type that another crate defines doesn't: only that crate can
//! make one. Nor does a time outside the years 1677 to 2262, nor a metric whose name another one
//! of the set has that is of another kind.

use datafusion::physical_plan::metrics::{
    CustomMetricValue, Label, Metric, MetricCategory, MetricType, MetricValue, MetricsSet,
    RatioMergeStrategy, Timestamp,
};
use datafusion_distributed::{
    AvgLatencyMetric, BytesCounterMetric, FirstLatencyMetric, MaxGaugeMetric, MaxLatencyMetric,
    MinLatencyMetric, P50LatencyMetric, P75LatencyMetric, P95LatencyMetric, P99LatencyMetric,
};

mod decode;
#[cfg(test)]
pub(super) mod tests;

pub(super) use decode::decode;

use super::to_u64;

/// [`MetricsSet`].
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MetricsWire {
    #[prost(message, repeated, tag = "1")]
    metrics: Vec<MetricWire>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct MetricWire {
    #[prost(enumeration = "Kind", tag = "1")]
    kind: i32,
    /// Empty for kinds which have one name.
    #[prost(string, tag = "2")]
    name: String,
    /// What the numbers are depends on the kind.
    #[prost(uint64, repeated, tag = "3")]
    values: Vec<u64>,
    /// Of percentiles: all samples, roughly.
    #[prost(bytes = "vec", tag = "4")]
    sketch: Vec<u8>,
    #[prost(uint64, optional, tag = "5")]
    partition: Option<u64>,
    #[prost(message, repeated, tag = "6")]
    labels: Vec<LabelWire>,
    #[prost(bool, tag = "7")]
    summary: bool,
    #[prost(enumeration = "Category", tag = "8")]
    category: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LabelWire {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
enum Kind {
    Unknown = 0,
    OutputRows = 1,
    ElapsedCompute = 2,
    SpillCount = 3,
    SpilledBytes = 4,
    OutputBytes = 5,
    OutputBatches = 6,
    SpilledRows = 7,
    CurrentMemoryUsage = 8,
    Count = 9,
    Gauge = 10,
    PeakMemoryUsage = 11,
    Time = 12,
    StartTimestamp = 13,
    EndTimestamp = 14,
    Pruning = 15,
    Ratio = 16,
    MinLatency = 17,
    MaxLatency = 18,
    AvgLatency = 19,
    FirstLatency = 20,
    P50Latency = 21,
    P75Latency = 22,
    P95Latency = 23,
    P99Latency = 24,
    BytesCounter = 25,
    MaxGauge = 26,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
enum Category {
    None = 0,
    Rows = 1,
    Bytes = 2,
    Timing = 3,
    Uncategorized = 4,
}

pub(super) fn encode(metrics: &MetricsSet) -> MetricsWire {
    MetricsWire {
        metrics: metrics
            .iter()
            .filter_map(|metric| encode_metric(metric))
            .collect(),
    }
}

fn encode_metric(metric: &Metric) -> Option<MetricWire> {
    let mut wire = encode_value(metric.value())?;
    let label = |label: &Label| LabelWire {
        name: label.name().to_owned(),
        value: label.value().to_owned(),
    };
    let category = match metric.metric_category() {
        None => Category::None,
        Some(MetricCategory::Rows) => Category::Rows,
        Some(MetricCategory::Bytes) => Category::Bytes,
        Some(MetricCategory::Timing) => Category::Timing,
        Some(MetricCategory::Uncategorized) => Category::Uncategorized,
    };
    wire.partition = metric.partition().map(to_u64);
    wire.labels = metric.labels().iter().map(label).collect();
    wire.summary = metric.metric_type() == MetricType::Summary;
    wire.category = category.into();
    Some(wire)
}

fn wire(kind: Kind, name: &str, values: &[usize]) -> MetricWire {
    MetricWire {
        kind: kind.into(),
        name: name.to_owned(),
        values: values.iter().copied().map(to_u64).collect(),
        ..MetricWire::default()
    }
}

fn encode_value(value: &MetricValue) -> Option<MetricWire> {
    Some(match value {
        MetricValue::OutputRows(count) => wire(Kind::OutputRows, "", &[count.value()]),
        MetricValue::ElapsedCompute(time) => wire(Kind::ElapsedCompute, "", &[time.value()]),
        MetricValue::SpillCount(count) => wire(Kind::SpillCount, "", &[count.value()]),
        MetricValue::SpilledBytes(count) => wire(Kind::SpilledBytes, "", &[count.value()]),
        MetricValue::OutputBytes(count) => wire(Kind::OutputBytes, "", &[count.value()]),
        MetricValue::OutputBatches(count) => wire(Kind::OutputBatches, "", &[count.value()]),
        MetricValue::SpilledRows(count) => wire(Kind::SpilledRows, "", &[count.value()]),
        MetricValue::CurrentMemoryUsage(gauge) => {
            wire(Kind::CurrentMemoryUsage, "", &[gauge.value()])
        }
        MetricValue::Count { name, count } => wire(Kind::Count, name, &[count.value()]),
        MetricValue::Gauge { name, gauge } => wire(Kind::Gauge, name, &[gauge.value()]),
        MetricValue::PeakMemoryUsage { name, gauge } => {
            wire(Kind::PeakMemoryUsage, name, &[gauge.value()])
        }
        MetricValue::Time { name, time } => wire(Kind::Time, name, &[time.value()]),
        MetricValue::StartTimestamp(time) => encode_timestamp(Kind::StartTimestamp, time)?,
        MetricValue::EndTimestamp(time) => encode_timestamp(Kind::EndTimestamp, time)?,
        MetricValue::PruningMetrics {
            name,
            pruning_metrics: of,
        } => wire(
            Kind::Pruning,
            name,
            &[of.pruned(), of.matched(), of.fully_matched()],
        ),
        MetricValue::Ratio {
            name,
            ratio_metrics: of,
        } => {
            let strategy = match of.merge_strategy() {
                RatioMergeStrategy::AddPartAddTotal => 0,
                RatioMergeStrategy::AddPartSetTotal => 1,
                RatioMergeStrategy::SetPartAddTotal => 2,
            };
            let raw = usize::from(of.display_raw_values());
            wire(Kind::Ratio, name, &[of.part(), of.total(), strategy, raw])
        }
        MetricValue::Custom { name, value } => encode_custom(name, value.as_ref())?,
    })
}

/// Nanoseconds since 1970 as the bits of an `i64`; no value where nothing was recorded.
fn encode_timestamp(kind: Kind, timestamp: &Timestamp) -> Option<MetricWire> {
    let values = match timestamp.value() {
        None => Vec::new(),
        Some(time) => vec![time.timestamp_nanos_opt()?.cast_unsigned()],
    };
    Some(MetricWire {
        values,
        ..wire(kind, "", &[])
    })
}

fn encode_custom(name: &str, value: &dyn CustomMetricValue) -> Option<MetricWire> {
    let value = value.as_any();
    macro_rules! number {
        ($($of:ty => $kind:ident),* $(,)?) => {$(
            if let Some(metric) = value.downcast_ref::<$of>() {
                return Some(wire(Kind::$kind, name, &[metric.value()]));
            }
        )*};
    }
    macro_rules! percentile {
        ($($of:ty => $kind:ident),* $(,)?) => {$(
            if let Some(metric) = value.downcast_ref::<$of>() {
                let sketch = metric.serialize_sketch().ok()?;
                return Some(MetricWire { sketch, ..wire(Kind::$kind, name, &[]) });
            }
        )*};
    }
    number!(
        MinLatencyMetric => MinLatency,
        MaxLatencyMetric => MaxLatency,
        FirstLatencyMetric => FirstLatency,
        BytesCounterMetric => BytesCounter,
        MaxGaugeMetric => MaxGauge,
    );
    percentile!(
        P50LatencyMetric => P50Latency,
        P75LatencyMetric => P75Latency,
        P95LatencyMetric => P95Latency,
        P99LatencyMetric => P99Latency,
    );
    let average = value.downcast_ref::<AvgLatencyMetric>()?;
    Some(wire(
        Kind::AvgLatency,
        name,
        &[average.nanos_sum(), average.count()],
    ))
}
