//! A running rack for examples, which join it when they are given its configuration. The switch and
//! the nodes that an example is not are threads of this test.

use core::sync::atomic::{AtomicBool, Ordering};
use rackweave_rack::RackConfig;
use rackweave_rack::config::{HostedSection, SecurityKind, StoreConfig};
use rackweave_rack::hosted::{
    HostedRack, Job, Jobs, NodeOptions, NodeProcess, SwitchOptions, SwitchProcess,
};
use serde_json::Value;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time limit of any step.
const LIMIT: Duration = Duration::from_secs(60);

struct NoJobs;

impl Jobs for NoJobs {
    fn run(&self, _: &str, _: Value, _: &Job) -> Result<Value, String> {
        Err("the nodes of this test run no jobs".into())
    }
}

/// Calls `act` with the configuration of a running rack without the nodes `absent`.
pub fn with_rack(name: &str, absent: &[&str], act: impl FnOnce(&Path)) {
    let folder = format!("rackweave-capi-{name}-{}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let mut config = RackConfig::with_all_programs();
    config.store = vec![StoreConfig::in_memory("pages", "storage0", 64 << 20)];
    config.hosted = Some(HostedSection {
        control: listener.local_addr().expect("it is bound"),
        security: SecurityKind::Plain,
        directory: Some(folder.clone()),
        ..HostedSection::default()
    });
    drop(listener);
    let path = folder.join("rack.toml");
    std::fs::write(&path, config.to_toml()).expect("the folder is writable");
    let config = RackConfig::read(&path).expect("it is as it was written");
    let switch = SwitchProcess::new(SwitchOptions {
        config: config.clone(),
        listen: None,
        is_standby: false,
        elector: None,
    });
    let switch = switch.expect("the switch can be started");
    let names = config.node.iter().map(|node| node.name.clone());
    let nodes = names.filter(|name| !absent.contains(&name.as_str()));
    let nodes = nodes.map(|name| {
        NodeProcess::new(NodeOptions {
            config: config.clone(),
            name,
            controllers: Vec::new(),
            jobs: Arc::new(NoJobs),
            serves_stores: true,
            waits_for_name: false,
        })
    });
    let nodes: Vec<NodeProcess> = nodes.map(|node| node.expect("it can be started")).collect();
    let present = nodes.len();
    let (stop, end) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (stop, end) = (&stop, &end);
        scope.spawn(move || switch.run(end, &|_| {}));
        let nodes = nodes.into_iter();
        let nodes: Vec<_> = nodes
            .map(|node| scope.spawn(move || node.run_serving(stop, &|_| {})))
            .collect();
        let run = || {
            await_nodes(&config, present);
            act(&path);
        };
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        stop.store(true, Ordering::Relaxed);
        for node in nodes {
            let left = node.join();
            assert!(std::thread::panicking() || left.is_ok_and(|left| left.is_ok()));
        }
        end.store(true, Ordering::Relaxed);
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    let _ = std::fs::remove_dir_all(&folder);
}

fn await_nodes(config: &RackConfig, present: usize) {
    let deadline = Instant::now() + LIMIT;
    let joined = || {
        let status = HostedRack::connect(config).ok()?.status().ok()?;
        Some(status.nodes.iter().filter(|node| node.joined).count())
    };
    while joined() != Some(present) {
        assert!(Instant::now() < deadline, "the nodes do not join");
        std::thread::sleep(Duration::from_millis(20));
    }
}
