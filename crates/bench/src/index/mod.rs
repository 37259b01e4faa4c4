//! YCSB over the B+tree index.
