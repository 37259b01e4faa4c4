//! The code shared by the tests of control connections: directories with keys, and a server to talk
//! to.

use rackweave_control::keys::keygen;
use rackweave_control::{
    CONTROLLER_NAME, Connection, ControlError, Hello, Identity, Introduction, Listener, Security,
};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Long enough for anything that should happen, on a busy machine.
pub const LONG: Duration = Duration::from_secs(60);

/// Long enough to show that something does not happen.
pub const SHORT: Duration = Duration::from_millis(300);

/// A new directory's path for the test `name`, without the directory.
pub fn dir(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("control-{name}"));
    match std::fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
        _ => dir,
    }
}

/// A directory with the keys of a rack: the controller, `n0` and `N_1`.
pub fn keys(name: &str) -> PathBuf {
    let dir = dir(name);
    keygen(&dir, &[CONTROLLER_NAME, "n0", "N_1"]).expect("keys are made");
    dir
}

pub fn tls(dir: &Path, name: &str) -> Security {
    Security::Tls(Identity::load(dir, name).expect("the keys are good"))
}

pub fn plain(name: &str) -> Security {
    Security::Plain {
        name: name.to_string(),
    }
}

pub fn introduction(body: Value) -> Introduction {
    Introduction {
        purpose: "join".to_string(),
        rack: "r".to_string(),
        body,
    }
}

pub fn connect(addr: SocketAddr, security: &Security) -> Result<(Connection, Value), ControlError> {
    Connection::connect(addr, security, introduction(json!(null)), LONG)
}

pub fn listen(security: Security) -> (Listener, SocketAddr) {
    let listener = Listener::bind("127.0.0.1:0", security).expect("a free port");
    let addr = listener.local_addr().expect("it is bound");
    (listener, addr)
}

/// Takes one connection on a separate thread, up to the hello, and welcomes it.
pub fn serve_one(
    listener: Listener,
    limit: Duration,
) -> JoinHandle<Result<(Hello, Connection), ControlError>> {
    std::thread::spawn(move || {
        let incoming = listener.accept(LONG).expect("accept works");
        let incoming = incoming.expect("somebody connects");
        let (hello, pending) = incoming.handshake(Instant::now() + limit)?;
        Ok((hello, pending.welcome(json!({"hi": true}))?))
    })
}

/// A client and the server's end of its connection.
pub fn pair(server: Security, client: &Security) -> (Connection, Connection) {
    let (listener, addr) = listen(server);
    let server = serve_one(listener, LONG);
    let (client, _) = connect(addr, client).expect("the client is let in");
    let (_, server) = server.join().unwrap().expect("the handshake succeeds");
    (client, server)
}
