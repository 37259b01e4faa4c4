//! Metrics from a peer's bytes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use datafusion::physical_plan::metrics::{
    Count, CustomMetricValue, Gauge, Label, Metric, MetricCategory, MetricType, MetricValue,
    MetricsSet, PruningMetrics, RatioMergeStrategy, RatioMetrics, Time, Timestamp,
};
use datafusion_distributed::{
    AvgLatencyMetric, BytesCounterMetric, FirstLatencyMetric, MaxGaugeMetric, MaxLatencyMetric,
    MinLatencyMetric, P50LatencyMetric, P75LatencyMetric, P95LatencyMetric, P99LatencyMetric,
};

use super::{Category, Kind, MetricWire, MetricsWire};
use crate::codec::{CodecError, sketch, to_u64, to_usize};

pub(in crate::codec) fn decode(wire: MetricsWire) -> Result<MetricsSet, CodecError> {
    let mut metrics = MetricsSet::new();
    let mut kinds = HashMap::new();
    for wire in wire.metrics {
        let Some(metric) = decode_metric(wire)? else {
            continue;
        };
        // A set sums metrics of one name, and panics if they are of different kinds.
        let kind = discriminant(metric.value());
        if *kinds
            .entry(metric.value().name().to_owned())
            .or_insert(kind)
            == kind
        {
            metrics.push(Arc::new(metric));
        }
    }
    Ok(metrics)
}

/// `None`: a kind that this version doesn't know.
fn decode_metric(mut wire: MetricWire) -> Result<Option<Metric>, CodecError> {
    let Some(value) = decode_value(&mut wire)? else {
        return Ok(None);
    };
    let partition = wire
        .partition
        .map(|partition| to_usize(partition, "partition"))
        .transpose()?;
    let labels = wire
        .labels
        .into_iter()
        .map(|label| Label::new(label.name, label.value))
        .collect();
    let metric = Metric::new_with_labels(value, partition, labels);
    let metric = metric.with_type(if wire.summary {
        MetricType::Summary
    } else {
        MetricType::Dev
    });
    let category = match Category::try_from(wire.category).unwrap_or(Category::None) {
        Category::None => return Ok(Some(metric)),
        Category::Rows => MetricCategory::Rows,
        Category::Bytes => MetricCategory::Bytes,
        Category::Timing => MetricCategory::Timing,
        Category::Uncategorized => MetricCategory::Uncategorized,
    };
    Ok(Some(metric.with_category(category)))
}

fn decode_value(wire: &mut MetricWire) -> Result<Option<MetricValue>, CodecError> {
    let kind = Kind::try_from(wire.kind).unwrap_or(Kind::Unknown);
    let name: Cow<'static, str> = Cow::Owned(std::mem::take(&mut wire.name));
    let number = |index: usize| wire.number(index);
    Ok(Some(match kind {
        Kind::Unknown => return Ok(None),
        Kind::OutputRows => MetricValue::OutputRows(count(number(0)?)),
        Kind::ElapsedCompute => MetricValue::ElapsedCompute(time(number(0)?)),
        Kind::SpillCount => MetricValue::SpillCount(count(number(0)?)),
        Kind::SpilledBytes => MetricValue::SpilledBytes(count(number(0)?)),
        Kind::OutputBytes => MetricValue::OutputBytes(count(number(0)?)),
        Kind::OutputBatches => MetricValue::OutputBatches(count(number(0)?)),
        Kind::SpilledRows => MetricValue::SpilledRows(count(number(0)?)),
        Kind::CurrentMemoryUsage => MetricValue::CurrentMemoryUsage(gauge(number(0)?)),
        Kind::Count => MetricValue::Count {
            name,
            count: count(number(0)?),
        },
        Kind::Gauge => MetricValue::Gauge {
            name,
            gauge: gauge(number(0)?),
        },
        Kind::PeakMemoryUsage => MetricValue::PeakMemoryUsage {
            name,
            gauge: gauge(number(0)?),
        },
        Kind::Time => MetricValue::Time {
            name,
            time: time(number(0)?),
        },
        Kind::StartTimestamp => MetricValue::StartTimestamp(timestamp(&wire.values)),
        Kind::EndTimestamp => MetricValue::EndTimestamp(timestamp(&wire.values)),
        Kind::Pruning => {
            let pruning_metrics = PruningMetrics::new();
            pruning_metrics.add_pruned(number(0)?);
            pruning_metrics.add_matched(number(1)?);
            pruning_metrics.add_fully_matched(number(2)?);
            MetricValue::PruningMetrics {
                name,
                pruning_metrics,
            }
        }
        Kind::Ratio => MetricValue::Ratio {
            name,
            ratio_metrics: ratio(wire)?,
        },
        _ => MetricValue::Custom {
            name,
            value: decode_custom(kind, wire)?,
        },
    }))
}

fn decode_custom(kind: Kind, wire: &MetricWire) -> Result<Arc<dyn CustomMetricValue>, CodecError> {
    let number = |index: usize| wire.number(index);
    let sketch = || sketch::decode(&wire.sketch);
    Ok(match kind {
        Kind::MinLatency => Arc::new(MinLatencyMetric::from_nanos(number(0)?)),
        Kind::MaxLatency => Arc::new(MaxLatencyMetric::from_nanos(number(0)?)),
        Kind::FirstLatency => Arc::new(FirstLatencyMetric::from_nanos(number(0)?)),
        Kind::BytesCounter => Arc::new(BytesCounterMetric::from_value(number(0)?)),
        Kind::MaxGauge => Arc::new(MaxGaugeMetric::from_value(number(0)?)),
        Kind::AvgLatency => Arc::new(AvgLatencyMetric::from_raw(number(0)?, number(1)?)),
        Kind::P50Latency => Arc::new(P50LatencyMetric::from_sketch(sketch()?)),
        Kind::P75Latency => Arc::new(P75LatencyMetric::from_sketch(sketch()?)),
        Kind::P95Latency => Arc::new(P95LatencyMetric::from_sketch(sketch()?)),
        Kind::P99Latency => Arc::new(P99LatencyMetric::from_sketch(sketch()?)),
        _ => {
            let reason = format!("{kind:?} is no custom kind");
            return Err(CodecError::invalid("metric", &reason));
        }
    })
}

impl MetricWire {
    fn number(&self, index: usize) -> Result<usize, CodecError> {
        let value = self
            .values
            .get(index)
            .ok_or_else(|| CodecError::missing("metric value"))?;
        to_usize(*value, "metric value")
    }
}

fn count(value: usize) -> Count {
    let count = Count::new();
    count.add(value);
    count
}

fn gauge(value: usize) -> Gauge {
    let gauge = Gauge::new();
    gauge.set(value);
    gauge
}

/// `Time` takes a duration for at least a nanosecond, so that nothing must stay nothing.
fn time(ns: usize) -> Time {
    let time = Time::new();
    if ns > 0 {
        time.add_duration(Duration::from_nanos(to_u64(ns)));
    }
    time
}

fn timestamp(values: &[u64]) -> Timestamp {
    let timestamp = Timestamp::new();
    if let Some(ns) = values.first() {
        timestamp.set(DateTime::from_timestamp_nanos(ns.cast_signed()));
    }
    timestamp
}

fn ratio(wire: &MetricWire) -> Result<RatioMetrics, CodecError> {
    let strategy = match wire.number(2)? {
        0 => RatioMergeStrategy::AddPartAddTotal,
        1 => RatioMergeStrategy::AddPartSetTotal,
        2 => RatioMergeStrategy::SetPartAddTotal,
        other => return Err(CodecError::invalid("ratio's merge strategy", &other)),
    };
    let ratio = RatioMetrics::new()
        .with_merge_strategy(strategy)
        .with_display_raw_values(wire.number(3)? != 0);
    ratio.set_part(wire.number(0)?);
    ratio.set_total(wire.number(1)?);
    Ok(ratio)
}
