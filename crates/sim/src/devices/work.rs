//! The cost of index and RPC work to a core.

use super::constant::constants;
use super::*;

constants! {
    // ---- Work of an index and of RPC, in cycles of a Xeon beside the loads -------------------
    group "Work of an index and of RPC, in cycles of a Xeon beside the loads";

    /// One step of a binary search without branches, as in `endpoint::btree`: address, comparison,
    /// conditional move. Assumed, one cycle for each and one for the loop.
    #[listed("cycles", Assumed, &[Bluefield, FatBtreeRdma, FatBtreeEthernet])]
    pub const SEARCH_STEP_CYCLES: u64 = 4;

    /// Entering and leaving a tree node: latch, level, number of entries and fences before, the
    /// latch again after. Assumed, 20 instructions in a chain of about as many cycles.
    #[listed("cycles", Assumed, &[Bluefield, FatBtreeRdma, FatBtreeEthernet])]
    pub const TREE_NODE_CYCLES: u64 = 20;

    /// Starting and ending an operation on a tree: calls, arguments, result. Assumed.
    #[listed("cycles", Assumed, &[Bluefield, FatBtreeRdma, FatBtreeEthernet])]
    pub const TREE_OPERATION_CYCLES: u64 = 50;

    /// Cost of an update of a leaf, besides finding it. Source: two atomic operations on the
    /// latch's line, which is cached, of 18 cycles each (Agner Fog's instruction tables,
    /// unchecked), and the stores of value and check with the check's arithmetic, assumed 24.
    #[listed("cycles", Assumed, &[Bluefield, FatBtreeEthernet])]
    pub const TREE_UPDATE_CYCLES: u64 = 60;

    /// Verifying one entry of a tree node fetched by a READ: two products of 128 bits, one of 64
    /// and some exclusive ors, which overlap between entries. Assumed, an entry in four cycles.
    #[listed("cycles", Assumed, &[Bluefield, FatBtreeRdma, FatBtreeEthernet])]
    pub const TREE_CHECK_ENTRY_CYCLES: u64 = 4;

    /// Verifying a word of a record: a product of 128 bits that depends on the previous one, and
    /// two exclusive ors. Source: Intel optimisation manual, 4 and 1 cycles (unchecked).
    #[listed("cycles", Unchecked, &[FatBtreeRdma])]
    pub const RECORD_CHECK_WORD_CYCLES: u64 = 6;

    /// Building one work request of up to 64 bytes, inlined. Assumed: the smaller part of the 220
    /// cycles of [`HOST_POST_COST`]; the doorbell takes the rest.
    #[listed("cycles", Assumed, &[Bluefield, FatBtreeRdma, FatBtreeEthernet, Communication])]
    pub const WORK_REQUEST_CYCLES: u64 = 60;

    /// Ringing a doorbell: a fence and a store to the device. Once for all requests of a batch to
    /// one queue pair (bluefield, section 4: doorbell batching). Assumed: the 220 cycles of
    /// [`HOST_POST_COST`] less [`WORK_REQUEST_CYCLES`].
    #[listed("cycles", Assumed, &[Bluefield, FatBtreeRdma, FatBtreeEthernet, Communication])]
    pub const DOORBELL_CYCLES: u64 = 160;

    /// Posting one receive request: an address in a ring; the doorbell record is in memory.
    /// Assumed.
    #[listed("cycles", Assumed, &[Bluefield, FatBtreeRdma, FatBtreeEthernet, Communication])]
    pub const RECEIVE_REQUEST_CYCLES: u64 = 30;

    /// Decoding and dispatching a request, or matching a reply with its request. Assumed.
    #[listed("cycles", Assumed, &[Bluefield, FatBtreeRdma, FatBtreeEthernet])]
    pub const RPC_DISPATCH_CYCLES: u64 = 50;

    /// An atomic operation on a word that all server threads increment. Source: the line comes from
    /// another core's cache, modelled as a load from the last level, and the operation itself, 18
    /// cycles (Agner Fog's instruction tables, unchecked).
    #[listed("cycles", Unchecked, &[Bluefield])]
    pub const ATOMIC_CYCLES: u64 = 18;

    /// Fill factor of the tree nodes of a tree grown by inserting keys in random order: ln 2.
    /// Source: Yao, On random 2-3 trees, 1978, and bluefield, section 4.1.1: between 16 and 32 MB
    /// for 1 M keys.
    #[listed("", Checked, &[Bluefield])]
    pub const TREE_FILL: f64 = core::f64::consts::LN_2;
}
