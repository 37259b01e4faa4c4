//! Small trees, short runs.

use super::*;

#[test]
fn threads_do_as_many_operations_as_their_cost_allows() {
    let mut run = Run::quick(2);
    for (server, updates) in [(Server::Host, false), (Server::Dpu, true)] {
        let rate = measure(&mut run, (server, updates), 20_000).expect("it runs");
        let cost = tree::cost(server, 20_000, tree::NODE_BYTES);
        let each = if updates { cost.update } else { cost.lookup };
        let expect = 8e9 / each.as_nanos() as f64;
        assert!((rate / expect - 1.0).abs() < 0.02, "{rate} {expect}");
    }
}
