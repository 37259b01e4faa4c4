//! Outputs of real runs, shortened where they are long.

use super::*;

#[test]
fn ucx_perftest() {
    let latency = "\
iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
100000,0.637,2.037,2.037,29.96,29.96,490867,490867
";
    assert_eq!(ucx(latency, Field::Median), Ok(0.637));
    let rate = "\
[1795995327.341002] [host:4711 :0]        perftest.c:793  UCX  WARN  CPU affinity is not set
iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
1000000,0.291,1.832,8.975,33.31,6.80,545753,111415
";
    assert_eq!(ucx(rate, Field::Rate), Ok(111_415.0));
    let error = "no column overall_mr in the output".to_owned();
    assert_eq!(ucx("", Field::Rate), Err(error));
}

#[test]
fn redis_benchmark() {
    let output = "\
\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"
\"INCR\",\"29779.63\",\"0.027\",\"0.008\",\"0.031\",\"0.031\",\"0.063\",\"16.231\"
";
    assert_eq!(redis(output, Field::Rate), Ok(29779.63));
    assert_eq!(redis(output, Field::Median), Ok(0.031));
    let error = "rps is fast, no number".to_owned();
    let output = output.replace("29779.63", "fast");
    assert_eq!(redis(&output, Field::Rate), Err(error));
}

#[test]
fn objects() {
    let alltoall = "\
--------------------------------------------------------------------------
WARNING: a high-performance Open MPI point-to-point messaging module
was unable to find any relevant network interfaces
--------------------------------------------------------------------------
{\"calls\": 576, \"gigabytes_per_s\": 0.736998}
";
    assert_eq!(json(alltoall, "/gigabytes_per_s"), Ok(0.736998));
    let fio = r#"{"fio version": "fio-3.33", "jobs": [{"jobname": "pages",
        "read": {"io_bytes": 793575424, "bw": 387294, "iops": 6051.474263}}]}"#;
    assert_eq!(json(fio, "/jobs/0/read/iops"), Ok(6051.474263));
    let iperf = r#"{"end": {"sum_received": {"start": 0, "end": 1.006342, "seconds": 1.006342,
        "bytes": 3372220416, "bits_per_second": 26807748586.464638, "sender": true}}}"#;
    let rate = json(iperf, "/end/sum_received/bits_per_second");
    assert_eq!(rate, Ok(26_807_748_586.464_638));
    let error = "no number at /end/sum in the output".to_owned();
    assert_eq!(json(iperf, "/end/sum"), Err(error));
    assert!(json("Segmentation fault", "/end").is_err());
}

#[test]
fn ours() {
    let output = r#"{"schema": "rackweave/perf/1", "test": "messaging", "rack": "embedded",
        "verified": true, "small": {"message_bytes": 64, "messages_per_s": 4301224.15958975},
        "ping_pong": {"one_way_ns": {"p50": 54559.5, "p90": 68479.5}}}"#;
    assert_eq!(verified(output), Ok(()));
    assert_eq!(json(output, "/ping_pong/one_way_ns/p50"), Ok(54559.5));
    let refused = output.replace("true", "false");
    assert!(verified(&refused).is_err());
}
