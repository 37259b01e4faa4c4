//! Control connections through a proxy, which can hold back what nodes send.

use super::Time;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

/// An address that leads to the controller at `control`. `hold` is called before anything that a
/// node sends is forwarded.
pub fn proxy(control: SocketAddr, hold: impl Fn() + Clone + Send + 'static) -> SocketAddr {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = proxy.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((node, _)) = proxy.accept() {
            let hold = hold.clone();
            std::thread::spawn(move || {
                // Without a switch there is no peer to connect to.
                if let Ok(controller) = TcpStream::connect(control) {
                    pass_on(node, controller, hold);
                }
            });
        }
    });
    address
}

fn pass_on(mut node: TcpStream, mut controller: TcpStream, hold: impl Fn()) {
    std::thread::scope(|scope| {
        let (mut from, mut to) = (controller.try_clone().unwrap(), node.try_clone().unwrap());
        scope.spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        });
        let mut bytes = [0; 4096];
        while let Ok(len @ 1..) = node.read(&mut bytes) {
            hold();
            if controller.write_all(&bytes[..len]).is_err() {
                break;
            }
        }
        let _ = controller.shutdown(Shutdown::Both);
    });
}

/// Forwards a node's replies, or holds them back.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<GateState>, Condvar)>);

#[derive(Default)]
struct GateState {
    /// How many replies may still pass, if the gate is about to close.
    left: Option<u64>,
    /// Whether a reply is held back.
    is_keeping: bool,
}

impl Gate {
    pub fn pass(&self) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        loop {
            match &mut state.left {
                None => break,
                Some(0) => {
                    state.is_keeping = true;
                    changed.notify_all();
                    state = changed.wait(state).unwrap();
                }
                Some(left) => {
                    *left -= 1;
                    break;
                }
            }
        }
    }

    /// Closes after `answers` replies.
    pub fn close_after(&self, answers: u64) {
        let mut state = self.0.0.lock().unwrap();
        state.left = Some(answers);
        state.is_keeping = false;
    }

    /// Waits until a reply is held back.
    pub fn wait_until_it_keeps(&self) {
        let (state, changed) = &*self.0;
        let limit = Time::from_secs(15);
        let state = state.lock().unwrap();
        let waited = changed.wait_timeout_while(state, limit, |state| !state.is_keeping);
        assert!(!waited.unwrap().1.timed_out(), "no answer is due");
    }

    pub fn open(&self) {
        let (state, changed) = &*self.0;
        state.lock().unwrap().left = None;
        changed.notify_all();
    }
}
