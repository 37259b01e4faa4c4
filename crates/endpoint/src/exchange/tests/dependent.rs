//! Consumers that depend on each other.

use super::*;

/// A consumer that takes the second stream to its end before it looks at the first, whose sender
/// is faster: with one bounded queue for both, the messages of the first would fill it, and those
/// of the second would never arrive.
#[test]
fn a_stream_that_nobody_reads_does_not_stop_another() {
    let mut pair = Pair::new(small(), 1);
    let (first, second) = (pair.stream(), pair.stream());
    let (mut sent, mut read) = ([0u32; 2], [0u32; 2]);
    const MESSAGES: u32 = 1000;
    let streams = [first, second];
    let mut order = vec![1, 0];
    while let Some(&reading) = order.first() {
        let mut progress = false;
        pair.settle();
        for (at, &stream) in streams.iter().enumerate() {
            while sent[at] < MESSAGES {
                let message = sent[at].to_le_bytes().to_vec();
                if pair.ends[ACCEPTOR].try_send(stream, message).is_err() {
                    break;
                }
                sent[at] += 1;
                progress = true;
            }
        }
        pair.settle();
        let (messages, _) = pair.messages(DIALER, streams[reading]);
        for message in messages {
            assert_eq!(message, read[reading].to_le_bytes());
            read[reading] += 1;
            progress = true;
        }
        if read[reading] == MESSAGES {
            order.remove(0);
        }
        assert!(progress, "stuck: sent {sent:?}, read {read:?}");
        let unread = pair.budgets[DIALER].used();
        assert!(unread <= 2 * 16, "{unread} bytes wait");
    }
}
