//! A storage node answers a compute node's questions: `cargo run --example messages`.
//!
//! The compute node dials over TCP; from then on each writes into the other's receive buffers,
//! one-sided. A question is a message up, an answer one down, and long messages are split. Here one
//! thread plays both nodes; each end may have a thread of its own.

use rackweave::messaging::{Dialing, Listener, MessagingConfig};
use rackweave::{Rack, RackBuilder};
use std::error::Error;
use std::time::Duration;

const SCAN: u32 = 1; // Both nodes agree on the opcodes.
const ROWS: u32 = 2;
const PATIENCE: Duration = Duration::from_secs(60);

/// A rack in this process. `Rack::builder().simulated()` builds one in virtual time.
pub fn main() -> Result<(), Box<dyn Error>> {
    run(Rack::builder())
}

/// Runs the example on the given rack.
pub fn run(builder: RackBuilder) -> Result<(), Box<dyn Error>> {
    let rack = builder.build()?;
    let (storage, compute) = (rack.node("storage0")?, rack.node("compute0")?);
    let config = MessagingConfig::default();
    let mut listener = Listener::bind(&rack, &storage, "127.0.0.1:0".parse()?, config.clone())?;
    listener.set_patience(PATIENCE);
    let dialing = Dialing::start(&rack, &compute, listener.local_addr(), config, PATIENCE)?;
    let (compute, storage) = listener.connect(dialing)?;
    let (mut asking, mut answers) = compute.split();
    let (mut answering, mut questions) = storage.split();

    let (mut question, mut answer) = (Vec::new(), Vec::new());
    for rows in [1u64, 10, 1000] {
        asking[0].send(SCAN, &rows.to_le_bytes())?;
        // The storage node answers with the requested number of eight-byte rows.
        question.clear(); // The message is appended to the buffer.
        answer.clear();
        questions[0].receive(&mut question)?.ok_or("no question")?;
        let rows = 0..u64::from_le_bytes(question[..].try_into()?);
        let bytes: Vec<u8> = rows.flat_map(u64::to_le_bytes).collect();
        answering[0].send(ROWS, &bytes)?;
        let came = answers[0].receive(&mut answer)?.ok_or("no answer")?;
        println!("{} bytes of opcode {}", came.length, came.opcode);
    }
    Ok(())
}
