//! Tests of wire formats: captured packets, properties, and the guide.

mod properties;
mod protocol_guide;
mod vectors;
