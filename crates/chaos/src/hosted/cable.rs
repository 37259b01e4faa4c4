//! A TCP proxy for a node's control connections that can be cut, like the network between the node
//! and its controller: then nothing arrives in either direction, and no connection closes. When it
//! is mended, what was withheld arrives.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// How often a connection that is cut checks whether it is mended.
const LOOK_EVERY: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum State {
    Whole,
    Cut,
    /// The run is over.
    Gone,
}

/// A listening address that leads to the controller.
pub struct Cable {
    /// Where a process connects to.
    pub address: SocketAddr,
    state: Arc<AtomicU8>,
}

impl Cable {
    /// A cable to the controller at `control`.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn to(control: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let state = Arc::new(AtomicU8::new(State::Whole as u8));
        let seen = Arc::clone(&state);
        std::thread::spawn(move || {
            while let Ok((node, _)) = listener.accept() {
                if is(&seen, State::Gone) {
                    break;
                }
                // Without a switch nobody is there, and the node tries again.
                if let Ok(controller) = TcpStream::connect(control) {
                    let _refused = connect(&node, &controller, &seen);
                }
            }
        });
        Ok(Self { address, state })
    }

    /// Cuts the cable, or mends it.
    pub fn cut(&self, cut: bool) {
        let state = if cut { State::Cut } else { State::Whole };
        self.state.store(state as u8, Ordering::Relaxed);
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.state.store(State::Gone as u8, Ordering::Relaxed);
        // The thread that accepts connections sees it.
        let _ended = TcpStream::connect(self.address);
    }
}

fn is(state: &AtomicU8, other: State) -> bool {
    state.load(Ordering::Relaxed) == other as u8
}

/// Forwards everything between two streams, with two threads, until one of them ends.
fn connect(node: &TcpStream, controller: &TcpStream, state: &Arc<AtomicU8>) -> io::Result<()> {
    for (from, to) in [(node, controller), (controller, node)] {
        let (from, to, state) = (from.try_clone()?, to.try_clone()?, Arc::clone(state));
        to.set_nodelay(true)?;
        std::thread::spawn(move || {
            let _ended = forward(&from, &to, &state);
            wait(&state);
            let _closed = to.shutdown(Shutdown::Both);
            let _closed = from.shutdown(Shutdown::Both);
        });
    }
    Ok(())
}

fn forward(mut from: &TcpStream, mut to: &TcpStream, state: &AtomicU8) -> io::Result<()> {
    let mut bytes = [0; 4096];
    loop {
        let length = from.read(&mut bytes)?;
        if length == 0 {
            return Ok(());
        }
        wait(state);
        to.write_all(&bytes[..length])?;
    }
}

/// Waits until the cable is whole, or of no use any more.
fn wait(state: &AtomicU8) {
    while is(state, State::Cut) {
        std::thread::sleep(LOOK_EVERY);
    }
}
