//! For those who test on a rack: what a checker may see and a program must not use.

use crate::Flow;
use rackweave_endpoint::flow::{Consumer, Producer, RingError};

/// The ring of consumer `index` as its end sees it. Only to be looked at: the owner of the end
/// relies on being alone.
///
/// # Errors
/// If there is no such consumer, or it is at a node that is not here.
pub fn consumer_view(flow: &Flow, index: usize) -> Result<Consumer, RingError> {
    flow.consumer_view(index)
}

/// As [`consumer_view`], the rings of producer `index`.
///
/// # Errors
/// If there is no such producer, or it is at a node that is not here.
pub fn producer_views(flow: &Flow, index: usize) -> Result<Vec<Producer>, RingError> {
    flow.producer_views(index)
}
