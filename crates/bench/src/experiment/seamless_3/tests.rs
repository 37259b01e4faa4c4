//! A small run of each system.
