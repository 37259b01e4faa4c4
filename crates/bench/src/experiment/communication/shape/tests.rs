//! Shares of threads, and sizes in words.

use super::*;

#[test]
fn shares_are_whole_packages_and_leave_nothing_out() {
    for threads in 1..=7 {
        let shape = Shape {
            way: Way::Raw,
            threads,
            buffers: threads,
            bytes: 1024,
        };
        for data in [0, 1, 991, 992, 993, 10_000, 123_456] {
            let shares: Vec<_> = (0..threads).map(|at| shape.share(at, data)).collect();
            assert_eq!(
                (shares[0].start, shares[threads as usize - 1].end),
                (0, data)
            );
            for pair in shares.windows(2) {
                assert_eq!(pair[0].end, pair[1].start);
                let is_whole = pair[0].end.is_multiple_of(shape.payload());
                assert!(is_whole || pair[0].end == data);
            }
            let packages = |share: &Range<u64>| (share.end - share.start).div_ceil(992);
            let counts: Vec<_> = shares.iter().map(packages).collect();
            let (least, most) = (counts.iter().min(), counts.iter().max());
            assert!(most.unwrap() - least.unwrap() <= 1, "{counts:?}");
            if data <= 992 {
                assert_eq!(shares[0], 0..data, "one package is the first thread's");
            }
        }
    }
}

#[test]
fn bytes_are_told_in_the_largest_unit_that_divides_them() {
    let texts = [8, 1024, 1536, 3 << 20, 4 << 30].map(|bytes| Bytes(bytes).to_string());
    assert_eq!(texts, ["8 B", "1 KiB", "1536 B", "3 MiB", "4 GiB"]);
}
