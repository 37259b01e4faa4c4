//! A small rack of the microbenchmarks.
