//! A storage unit answers a compute unit's questions: `cargo run --example messages`.
//!
//! The compute unit dials over TCP; from then on both write into each other's receive buffers,
//! one-sided. A question is a message up, an answer one down, and long ones go in pieces.

use rackweave::messaging::{EmbeddedConnection, Listener, MessagingConfig, dial};
use rackweave::{Duration, EmbeddedRack, RackConfig};
use std::error::Error;

const SCAN: u32 = 1; // Opcodes are for both units to choose.
const ROWS: u32 = 2;
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs the example.
pub fn main() -> Result<(), Box<dyn Error>> {
    let rack = EmbeddedRack::new(&RackConfig::default())?;
    let node = |name: &str| rack.config().node_named(name).ok_or("no such node");
    let (storage, compute) = (node("storage0")?, node("compute0")?);
    let config = MessagingConfig::default();
    let mut listener = Listener::bind(&rack, storage, "127.0.0.1:0".parse()?, config.clone())?;
    let address = listener.local_addr();
    std::thread::scope(|scope| {
        let serving = scope.spawn(move || {
            let connection = listener.accept(PATIENCE).expect("somebody dials");
            serve(connection).expect("the compute unit stays until it has its answers")
        });
        let (mut senders, mut receivers) = dial(&rack, compute, address, config, PATIENCE)?.split();
        let mut answer = Vec::new();
        for rows in [1u64, 1000, 1_000_000] {
            senders[0].send(SCAN, &rows.to_le_bytes())?;
            let came = receivers[0].receive(&mut answer)?.ok_or("nobody there")?;
            println!(
                "{rows} rows: {} bytes of opcode {}",
                came.length, came.opcode
            );
        }
        // Nothing follows: the storage unit's `receive` says so, and so does ours.
        senders[0].finish_wait()?;
        println!("no more: {}", receivers[0].receive(&mut answer)?.is_none());
        println!("{} answered", serving.join().expect("no panic"));
        Ok(())
    })
}

/// Answers each question with as many rows of eight bytes as it asks for.
fn serve(connection: EmbeddedConnection) -> Result<u32, Box<dyn Error + Send + Sync>> {
    let (mut senders, mut receivers) = connection.split();
    let (mut question, mut answered) = (Vec::new(), 0);
    while let Some(asked) = receivers[0].receive(&mut question)? {
        if let (SCAN, Some(&rows)) = (asked.opcode, question.first_chunk()) {
            let rows = 0..u64::from_le_bytes(rows);
            let answer: Vec<u8> = rows.flat_map(u64::to_le_bytes).collect();
            senders[0].send(ROWS, &answer)?;
            answered += 1;
        }
    }
    senders[0].finish_wait()?;
    Ok(answered)
}
