//! The examples run, terminate, and are as short as promised.

#[path = "../../examples/exchange.rs"]
mod exchange;
#[path = "../../examples/index.rs"]
mod index;
#[path = "../../examples/kv.rs"]
pub mod kv;
#[path = "../../examples/messages.rs"]
mod messages;
#[path = "../../examples/page_store.rs"]
mod page_store;
#[path = "../../examples/sequencer.rs"]
mod sequencer;
#[path = "../../examples/shuffle.rs"]
mod shuffle;

use rackweave::{Rack, RackBuilder};
use std::error::Error;

/// Maximum lines of an example of one system.
const LINES_MAX: usize = 49;
/// Maximum lines of the example of an operator over streams.
const OPERATOR_LINES_MAX: usize = 150;
/// Maximum lines of the example engine.
const ENGINE_LINES_MAX: usize = 200;

type Main = fn() -> Result<(), Box<dyn Error>>;
type Run = fn(RackBuilder) -> Result<(), Box<dyn Error>>;

/// Runs an example on a rack in this process, as users do, on one in virtual time, and as all nodes
/// of a rack whose switch is elsewhere.
fn check(main: Main, run: Run, source: &str) {
    check_length(LINES_MAX, source);
    for (kind, result) in [
        ("embedded", main()),
        ("simulated", run(Rack::builder().simulated())),
    ] {
        if let Err(error) = result {
            panic!("{kind}: it ended with: {error}");
        }
    }
    #[cfg(feature = "hosted")]
    hosted::with_rack(|builder| {
        if let Err(error) = run(builder) {
            panic!("hosted: it ended with: {error}");
        }
    });
}

#[cfg(feature = "hosted")]
mod hosted {
    use super::{Rack, RackBuilder};
    use core::sync::atomic::{AtomicBool, AtomicU16, Ordering};
    use rackweave::RackConfig;
    use rackweave_rack::config::{HostedSection, SecurityKind};
    use rackweave_rack::hosted::{SwitchOptions, SwitchProcess};
    use std::net::{SocketAddr, TcpListener};

    static RACKS: AtomicU16 = AtomicU16::new(0);

    /// Calls `act` with a builder that joins a rack, whose switch runs on a thread of its own.
    pub fn with_rack(act: impl FnOnce(RackBuilder)) {
        let number = RACKS.fetch_add(1, Ordering::Relaxed);
        let name = format!("rackweave-examples-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let free = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)));
        let control = free.and_then(|free| free.local_addr()).unwrap();
        let mut config = RackConfig::with_all_programs();
        config.hosted = Some(HostedSection {
            control,
            security: SecurityKind::Plain,
            directory: Some(folder.clone()),
            ..HostedSection::default()
        });
        let names: Vec<&str> = config.node.iter().map(|node| node.name.as_str()).collect();
        let options = SwitchOptions {
            config: config.clone(),
            listen: None,
            is_standby: false,
            elector: None,
        };
        let switch = SwitchProcess::new(options).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| switch.run(&stop, &|_| {}));
            let builder = Rack::builder().config(config.clone()).join_as(&names);
            let run = || act(builder);
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            stop.store(true, Ordering::Relaxed);
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
        let _ = std::fs::remove_dir_all(&folder);
    }
}

fn check_length(lines_max: usize, source: &str) {
    let lines = source.lines().count();
    assert!(lines <= lines_max, "{lines} lines");
}

macro_rules! examples {
    ($($name:ident),*) => {$(
        #[test]
        fn $name() {
            let source = include_str!(concat!("../../examples/", stringify!($name), ".rs"));
            check($name::main, $name::run, source);
        }
    )*};
}

examples!(page_store, index, shuffle, messages, sequencer);

#[test]
fn exchange() {
    let source = include_str!("../../examples/exchange.rs");
    check_length(OPERATOR_LINES_MAX, source);
    if let Err(error) = exchange::main() {
        panic!("it ended with: {error}");
    }
    // In virtual time there is no exchange.
    #[cfg(feature = "hosted")]
    hosted::with_rack(|builder| {
        if let Err(error) = exchange::run(builder) {
            panic!("hosted: it ended with: {error}");
        }
    });
}

#[test]
fn kv() {
    check_length(ENGINE_LINES_MAX, include_str!("../../examples/kv.rs"));
    if let Err(error) = kv::main() {
        panic!("it ended with: {error}");
    }
}
