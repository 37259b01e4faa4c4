//! What tests share.

/// Where random input starts: from `RACKWEAVE_SEED`, or another one each time. A test that fails
/// has printed it.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("RACKWEAVE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(rand::random);
    println!("RACKWEAVE_SEED={seed}");
    seed
}
