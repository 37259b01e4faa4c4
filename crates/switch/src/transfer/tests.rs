//! Tests of the engine that need no node: what it drops, and why.
