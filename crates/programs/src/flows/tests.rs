//! Tests of the flows program.
