//! The communication tier's experiments: "Remote Direct Memory Access as Communication Tier for
//! Disaggregated Database Systems", figures 4 to 6.
//!
//! A storage node sends data to a compute node, once. The measured time starts when the storage
//! node has the data, and ends when all of it is in its final place. The effective bandwidth is the
//! data over that time; copies on the way and headers do not count (section 4).
//!
//! * The *throughput test* copies packages from memory into the send buffer and writes them to
//!   receive buffers that are never read; it ends with the last acknowledgement.
//! * In the *consuming test* the receiver copies every package to memory that is not registered,
//!   clears it, and returns the receive buffer; it ends when the last package is cleared.
//!
//! Each thread has its own core. Its copying, clearing, posting and polling is charged (`ends`);
//! the bytes are real, and every consumed byte is compared with what was sent. The real protocol
//! needs no clearing, since words mark what is new; it is charged because the paper has it. With
//! several threads the storage node starts them one after another, and packages are distributed
//! over them as evenly as possible: data that fits one package is one thread's (section 4.1.1: each
//! thread has a part "if the data has to be split").
//!
//! What the paper leaves open and is chosen here: every measurement is made once, since virtual
//! time is deterministic; the data is in memory and not in a cache; with one thread the send buffer
//! has as many parts as there are receive buffers, and the thread copies the next package while the
//! preceding one is in flight; the compute node's threads are already running.
//!
//! `figures` has the rows and compares with the paper, `ends` creates both nodes' ends and `ways`
//! has the threads' operations on them. `node_pair` measures; `sweep` has what is measured, varies
//! the sizes and chooses the best, `embedded` does the same in real time on this machine.

pub mod embedded;
mod ends;
pub(crate) mod figures;
mod node_pair;
mod sweep;
#[cfg(test)]
mod tests;
mod ways;
