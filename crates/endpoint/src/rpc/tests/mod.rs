//! Clients and a server behind real soft NICs, under a virtual clock.

mod basics;
mod breaking;
mod deferred;
mod garbage;
mod random;
mod raw;
mod rig;
mod windows;
