//! The rows of all figures.

use super::*;
use rackweave_wire::fabric::message::RECEIVE_BUFFERS_MAX;

#[test]
fn every_layout_is_possible_and_the_papers_is_among_them() {
    for row in &*ROWS {
        for scale in Scale::ALL {
            let layouts = row.layouts(scale);
            assert!(layouts.contains(&row.paper), "{}", row.name);
            for &(threads, buffers) in layouts {
                assert!(threads <= buffers && buffers <= RECEIVE_BUFFERS_MAX);
            }
            let shapes = row.shapes(scale, &[2048, 4096]);
            assert_eq!(shapes.len(), 2 * layouts.len());
        }
    }
}

#[test]
fn a_single_buffer_is_halved() {
    let [shape] = ROWS[1]
        .shapes(Scale::Quick, &[2 << 20])
        .try_into()
        .expect("one");
    assert_eq!((shape.way, shape.bytes), (Way::Single, 1 << 20));
    assert_eq!(ROWS[1].name(&shape), "2 MiB");
}
