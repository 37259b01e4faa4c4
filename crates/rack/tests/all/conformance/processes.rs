//! A rack whose nodes and switch communicate as processes do, in threads of this one.

use core::ops::Deref;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use rackweave_rack::config::{HostedSection, LinkKind, SecurityKind};
use rackweave_rack::hosted::{SwitchOptions, SwitchProcess};
use rackweave_rack::{Rack, RackConfig};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

static STARTED: AtomicUsize = AtomicUsize::new(0);

/// A rack that ends when it is dropped.
pub struct Running {
    /// `None` once it has ended.
    rack: Option<Rack>,
    stop: Arc<AtomicBool>,
    switch: Option<JoinHandle<()>>,
    folder: PathBuf,
}

impl Running {
    pub fn start(mut config: RackConfig) -> Self {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("rackweave-conformance-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        config.hosted = Some(HostedSection {
            control: listener.local_addr().expect("it is bound"),
            security: SecurityKind::Plain,
            directory: Some(folder.clone()),
            link: LinkKind::Unix,
            heartbeat_ms: 20,
            dead_after_ms: 10_000,
            ..HostedSection::default()
        });
        drop(listener);
        let process = SwitchProcess::new(SwitchOptions {
            config: config.clone(),
            listen: None,
            is_standby: false,
            elector: None,
        });
        let process = process.expect("the switch can be started");
        let stop: Arc<AtomicBool> = Arc::default();
        let stopped = stop.clone();
        let switch = std::thread::spawn(move || process.run(&stopped, &|_| {}));
        let names: Vec<&str> = config.node.iter().map(|node| node.name.as_str()).collect();
        let rack = Rack::join_as(&config, &names).expect("the nodes join");
        Self {
            rack: Some(rack),
            stop,
            switch: Some(switch),
            folder,
        }
    }
}

impl Deref for Running {
    type Target = Rack;

    fn deref(&self) -> &Rack {
        self.rack.as_ref().expect("it runs")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.rack = None;
        self.stop.store(true, Ordering::Relaxed);
        if let Some(switch) = self.switch.take() {
            let ended = switch.join();
            assert!(
                std::thread::panicking() || ended.is_ok(),
                "the switch ended well"
            );
        }
        // Nothing is in it that another test needs.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
