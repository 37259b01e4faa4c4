//! Gives the shared library its name for the dynamic linker: programs ask for this one, so that a
//! version with another interface is never taken for it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let system = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if system == "linux" {
        let major = env!("CARGO_PKG_VERSION_MAJOR");
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,librackweave.so.{major}");
    }
}
