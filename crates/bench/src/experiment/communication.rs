//! The communication tier's experiments: "Remote Direct Memory Access as Communication Tier for
//! Disaggregated Database Systems", figures 4 to 6.
//!
//! A storage unit sends data to a compute unit, once, and the time is taken from when it has the
//! data to when all of it is where it should be. The effective bandwidth is the data over that
//! time; what is copied on the way and what headers take does not count (section 4).
//!
//! * The *throughput test* copies packages from memory into the send buffer and writes them to
//!   receive buffers that nobody reads; it ends with the last acknowledgement.
//! * In the *consuming test* the receiver copies every package to memory that is not registered,
//!   clears it, and gives the receive buffer back; it ends when the last package is cleared.
//!
//! A thread is a core of its own. What it copies and clears, posts, polls and looks at is charged
//! (`testbed`); the bytes are real, and every byte that is consumed is compared with what was sent.
//! The real protocol needs no clearing, since words tell what is new; it is charged as the paper
//! has it. With several threads the storage unit starts them one after the other, and packages are
//! dealt to them as evenly as there are packages: data that fits one package is one thread's
//! (section 4.1.1: each thread has a part "if the data has to be split").
//!
//! What the paper leaves open and is chosen here: every measurement is made once, since virtual
//! time gives the same again; the data lies in memory and not in a cache; with one thread the send
//! buffer has as many parts as there are receive buffers and the thread copies the next package
//! while the one before is on its way; the compute unit's threads run already.
//!
//! `figures` has the rows, `shape` what is measured, `ends` makes the two units' ends and `ways`
//! says what threads do with them. `units` measures, with the threads of `actors`; `sweep` goes
//! through sizes and chooses the best, `claims` sets that beside the paper, `embedded` does the
//! same in real time on this machine.

mod actors;
mod claims;
mod data;
pub mod embedded;
mod ends;
pub mod figures;
mod shape;
mod sweep;
mod testbed;
#[cfg(test)]
mod tests;
mod units;
mod ways;
