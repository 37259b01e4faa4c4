//! Tests of metrics as bytes.

use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::metrics::{
    Count, CustomMetricValue, Gauge, Label, Metric, MetricCategory, MetricType, MetricValue,
    MetricsSet, PruningMetrics, RatioMergeStrategy, RatioMetrics, Time, Timestamp,
};
use datafusion_distributed::{
    AvgLatencyMetric, BytesCounterMetric, FirstLatencyMetric, MaxGaugeMetric, MaxLatencyMetric,
    MinLatencyMetric, P50LatencyMetric, P75LatencyMetric, P95LatencyMetric, P99LatencyMetric,
    TaskMetrics, WorkerToCoordinatorMsg,
};

use crate::codec::{FromWorker, decode_from_worker, encode_to_coordinator};

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

fn time(ns: u64) -> Time {
    let time = Time::new();
    time.add_duration(Duration::from_nanos(ns));
    time
}

/// One of each kind of `DataFusion`.
fn values() -> Vec<MetricValue> {
    let now = Timestamp::new();
    now.record();
    let pruning_metrics = PruningMetrics::new();
    pruning_metrics.add_pruned(1);
    pruning_metrics.add_matched(2);
    pruning_metrics.add_fully_matched(3);
    let ratio_metrics = RatioMetrics::new()
        .with_merge_strategy(RatioMergeStrategy::SetPartAddTotal)
        .with_display_raw_values(true);
    ratio_metrics.set_part(3);
    ratio_metrics.set_total(4);
    let name = |name: &'static str| name.into();
    vec![
        MetricValue::OutputRows(count(1)),
        MetricValue::ElapsedCompute(time(2)),
        MetricValue::SpillCount(count(3)),
        MetricValue::SpilledBytes(count(4)),
        MetricValue::OutputBytes(count(5)),
        MetricValue::OutputBatches(count(6)),
        MetricValue::SpilledRows(count(7)),
        MetricValue::CurrentMemoryUsage(gauge(8)),
        MetricValue::Count {
            name: name("c"),
            count: count(9),
        },
        MetricValue::Gauge {
            name: name("g"),
            gauge: gauge(10),
        },
        MetricValue::PeakMemoryUsage {
            name: name("p"),
            gauge: gauge(11),
        },
        MetricValue::Time {
            name: name("t"),
            time: time(12),
        },
        MetricValue::Time {
            name: name("none"),
            time: Time::new(),
        },
        MetricValue::StartTimestamp(now),
        MetricValue::EndTimestamp(Timestamp::new()),
        MetricValue::PruningMetrics {
            name: name("pr"),
            pruning_metrics,
        },
        MetricValue::Ratio {
            name: name("r"),
            ratio_metrics,
        },
    ]
}

/// One of each kind of `datafusion-distributed`.
fn custom_values() -> impl Iterator<Item = MetricValue> {
    let custom: [Arc<dyn CustomMetricValue>; 10] = [
        Arc::new(MinLatencyMetric::from_nanos(1)),
        Arc::new(MaxLatencyMetric::from_nanos(2)),
        Arc::new(AvgLatencyMetric::from_raw(30, 4)),
        Arc::new(FirstLatencyMetric::from_nanos(5)),
        Arc::new(BytesCounterMetric::from_value(6)),
        Arc::new(MaxGaugeMetric::from_value(7)),
        Arc::new(percentile(
            P50LatencyMetric::default(),
            P50LatencyMetric::add_nanos,
        )),
        Arc::new(percentile(
            P75LatencyMetric::default(),
            P75LatencyMetric::add_nanos,
        )),
        Arc::new(percentile(
            P95LatencyMetric::default(),
            P95LatencyMetric::add_nanos,
        )),
        Arc::new(percentile(
            P99LatencyMetric::default(),
            P99LatencyMetric::add_nanos,
        )),
    ];
    let value = |value| MetricValue::Custom {
        name: "custom".into(),
        value,
    };
    custom.into_iter().map(value)
}

fn percentile<T>(metric: T, add: impl Fn(&T, usize)) -> T {
    (1..100).for_each(|sample| add(&metric, sample * sample * 1000));
    metric
}

/// Metrics of all kinds.
pub(in crate::codec) fn task_metrics() -> TaskMetrics {
    let mut all = MetricsSet::new();
    for value in values().into_iter().chain(custom_values()) {
        all.push(Arc::new(Metric::new(value, None)));
    }
    let mut labelled = MetricsSet::new();
    let value = MetricValue::OutputRows(Count::new());
    let labels = vec![Label::new("task_id", "0"), Label::new("x", "")];
    let metric = Metric::new_with_labels(value, Some(8), labels)
        .with_type(MetricType::Summary)
        .with_category(MetricCategory::Bytes);
    labelled.push(Arc::new(metric));
    TaskMetrics {
        pre_order_plan_metrics: vec![all, MetricsSet::new()],
        task_metrics: labelled,
    }
}

#[test]
fn metrics_arrive() {
    let bytes = encode_to_coordinator(WorkerToCoordinatorMsg::TaskMetrics(task_metrics()));
    let Ok(FromWorker::Message(WorkerToCoordinatorMsg::TaskMetrics(back))) =
        decode_from_worker(&bytes)
    else {
        panic!("another message");
    };
    assert_eq!(back.pre_order_plan_metrics.len(), 2);
    let received: Vec<_> = back.pre_order_plan_metrics[0].iter().collect();
    let expected: Vec<_> = values().into_iter().chain(custom_values()).collect();
    assert_eq!(received.len(), expected.len());
    for (metric, expected) in received.into_iter().zip(expected) {
        // Times are taken anew.
        if !matches!(expected, MetricValue::StartTimestamp(_)) {
            assert_eq!(format!("{}", metric.value()), format!("{expected}"));
        }
        assert_eq!(metric.value().name(), expected.name());
    }
    let labelled = back.task_metrics.iter().next().unwrap();
    assert_eq!(labelled.partition(), Some(8));
    let labels: Vec<_> = labelled.labels().iter().map(ToString::to_string).collect();
    assert_eq!(labels, ["task_id=0", "x="]);
    assert_eq!(labelled.metric_type(), MetricType::Summary);
    assert_eq!(labelled.metric_category(), Some(MetricCategory::Bytes));
}

#[test]
fn metrics_of_one_name_are_of_one_kind() {
    let mut set = MetricsSet::new();
    let named = |value| Arc::new(Metric::new(value, None));
    for n in [1, 2] {
        let (name, count) = ("same".into(), count(n));
        set.push(named(MetricValue::Count { name, count }));
        let (name, gauge) = ("same".into(), gauge(n));
        set.push(named(MetricValue::Gauge { name, gauge }));
    }
    let back = super::decode(super::encode(&set)).unwrap();
    assert_eq!(back.aggregate_by_name().to_string(), "same=3");
}
