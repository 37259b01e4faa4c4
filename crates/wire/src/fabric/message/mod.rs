//! Messages by one-sided WRITEs: the memory layout at the two nodes of a connection (communication
//! tier, section 3.1).
//!
//! A *message* is sent in *pieces*; a *package* of pieces fills a receive buffer. A node has up to
//! seven receive buffers in a connection, and a *buffer info* of 16 entries of 64 bytes that
//! describes their state. All entries of a node's buffer info are written by its peer, none by
//! itself:
//!
//! | entry | content | word |
//! |---|---|---|
//! | 0 | whether the peer has closed the connection | [`Word::Closed`] |
//! | 1 + j | the package in this node's receive buffer j | [`Word::Filled`] |
//! | 8 | none: the peer writes here to check that it can | – |
//! | 9 + j | whether the peer's receive buffer j is free | [`Word::Free`] |
//!
//! An entry begins with its word, of eight bytes: bits 0 to 7 the state, bits 8 to 31 the package's
//! number modulo 2^24, bits 32 to 63 a length or a reason. The rest of the entry is not used.
//! Everything is little-endian.
//!
//! The paper keeps one status per buffer, which both sides change, and has to lock it. Here each
//! word has one writer, so no side waits for the other in order to write, and the number of the
//! package distinguishes new words from old ones.
//!
//! A package is a sequence of pieces, each with a [`PieceHeader`] and its bytes. The word is
//! written after the package, in a separate WRITE: a receiver must not conclude from a byte of a
//! WRITE that the bytes before it have arrived (InfiniBand specification 1.4, o9-20).
//!
//! **Small packages.** A receiver's NIC may store the last aligned word of a WRITE after all of
//! its other bytes, which the node then says in its terms. Behind the entries, its buffer info has
//! an *inline buffer* of [`INLINE_LEN`] bytes for each receive buffer. A package of at most
//! [`INLINE_MAX`] bytes can be written there together with its word, in one WRITE: the word is at
//! [`INLINE_MAX`], the package ends there, and its length is a multiple of [`PIECE_ALIGN`]. It
//! takes the place of one in the receive buffer, and its word that of one in entry 1 + j.

pub mod column;
pub mod handshake;
mod piece;
mod words;

pub use piece::{FLAG_FINISHED, PIECE_ALIGN, PIECE_HEADER_LEN, PieceHeader, piece_span};
pub use words::{
    BUFFER_INFO_LEN, CONNECTION_ENTRY, CloseReason, ENTRIES, ENTRY_LEN, INLINE_LEN, INLINE_MAX,
    PULSE_ENTRY, RECEIVE_BUFFERS_MAX, Sequence, UnknownWord, Word, buffer_info_len, inline_at,
    own_entry, peer_entry,
};
