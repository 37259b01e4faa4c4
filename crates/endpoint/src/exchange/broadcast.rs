//! Broadcasts: from and to the items of a replicated flow.

use super::error::Misbehaviour;
use super::multiplexer::{Disposition, Multiplexer};
use rackweave_base::memory::{SharedBytes, SharedBytesMut};
use rackweave_wire::fabric::exchange::broadcast::{
    BroadcastHeader, HEADER_LEN, ITEM_HEADER_LEN, ItemHeader, MEMBER_LEN, MEMBERS_MAX, Member,
};
use rackweave_wire::fabric::exchange::{FrameKind, StreamNumber};

/// The smallest item that a flow of broadcasts may have: the header of one has to fit.
pub const BROADCAST_ITEM_MIN: u32 =
    (ITEM_HEADER_LEN + HEADER_LEN + MEMBER_LEN * MEMBERS_MAX) as u32;

/// A broadcast on its way into items.
#[derive(Debug)]
pub struct Broadcast {
    header: Vec<u8>,
    payload: Vec<u8>,
    /// Bytes of both that have been written.
    written: usize,
}

impl Broadcast {
    /// A frame for the streams of `members`.
    ///
    /// # Panics
    /// If there are too many members, or the payload has more than 4 GiB.
    pub fn new(kind: FrameKind, members: Vec<Member>, payload: Vec<u8>) -> Self {
        assert!(members.len() <= MEMBERS_MAX, "a flow has fewer consumers");
        let header = BroadcastHeader {
            kind,
            payload: u32::try_from(payload.len()).expect("messages are shorter"),
            members,
        };
        Self {
            header: header.to_bytes(),
            payload,
            written: 0,
        }
    }

    /// Fills an item of at least [`BROADCAST_ITEM_MIN`] bytes. True: the rest was in it.
    pub fn fill(&mut self, item: &mut SharedBytesMut<'_>) -> bool {
        let is_first = self.written == 0;
        let head = if is_first { &self.header[..] } else { &[] };
        let done = self.written.saturating_sub(self.header.len());
        let space = item.len() - ITEM_HEADER_LEN - head.len();
        let part = &self.payload[done..];
        let part = &part[..part.len().min(space)];
        let bytes = (head.len() + part.len()) as u32;
        item.write(0, &ItemHeader { bytes, is_first }.to_bytes());
        item.write(ITEM_HEADER_LEN, head);
        item.write(ITEM_HEADER_LEN + head.len(), part);
        self.written += head.len() + part.len();
        self.written == self.header.len() + self.payload.len()
    }
}

/// Puts the broadcasts together that items have in parts, at one consumer.
#[derive(Debug)]
pub struct Assembler {
    /// The number of this consumer.
    consumer: u32,
    arriving: Option<Arriving>,
}

#[derive(Debug)]
struct Arriving {
    kind: FrameKind,
    stream: StreamNumber,
    /// `None`: it is for others, or nobody wants it.
    payload: Option<Vec<u8>>,
    /// Bytes of the payload that are still to come.
    left: u32,
}

impl Assembler {
    /// Of a consumer of the flow, by its number.
    pub fn new(consumer: u32) -> Self {
        Self {
            consumer,
            arriving: None,
        }
    }

    /// Handles an item. Returns the length of a message that has arrived with it for a stream of
    /// `multiplexer`.
    ///
    /// # Errors
    /// If the protocol does not allow it. The connection must be closed then.
    pub fn handle_item(
        &mut self,
        item: SharedBytes<'_>,
        multiplexer: &mut Multiplexer,
    ) -> Result<Option<u64>, Misbehaviour> {
        let header = ItemHeader::parse(item.array(0)).ok_or(Misbehaviour::Item)?;
        let bytes = item.slice(ITEM_HEADER_LEN..);
        if header.bytes as usize > bytes.len() {
            return Err(Misbehaviour::Item);
        }
        let mut bytes = bytes.slice(..header.bytes as usize);
        if header.is_first {
            if self.arriving.is_some() {
                return Err(Misbehaviour::Item);
            }
            let head_max = HEADER_LEN + MEMBER_LEN * MEMBERS_MAX;
            let head = bytes.slice(..bytes.len().min(head_max)).to_vec();
            let (header, rest) = BroadcastHeader::parse(&head).ok_or(Misbehaviour::Item)?;
            bytes = bytes.slice(head.len() - rest.len()..);
            self.arriving = Some(self.begin(&header, multiplexer)?);
        }
        // A consumer that joined in the middle of a broadcast is no member of it.
        let Some(arriving) = &mut self.arriving else {
            return Ok(None);
        };
        let left = arriving.left.checked_sub(bytes.len() as u32);
        arriving.left = left.ok_or(Misbehaviour::Item)?;
        if let Some(payload) = &mut arriving.payload {
            bytes.append_to(payload);
        }
        if arriving.left > 0 {
            return Ok(None);
        }
        let Some(Arriving {
            kind,
            stream,
            payload: Some(payload),
            ..
        }) = self.arriving.take()
        else {
            return Ok(None);
        };
        let bytes = payload.len() as u64;
        multiplexer.handle_broadcast(kind, stream, payload)?;
        Ok((kind == FrameKind::Data).then_some(bytes))
    }

    fn begin(
        &self,
        header: &BroadcastHeader,
        multiplexer: &mut Multiplexer,
    ) -> Result<Arriving, Misbehaviour> {
        let mut members = header.members.iter();
        let me = members.find(|member| member.consumer == self.consumer);
        let kept = match me {
            None => Disposition::Discard,
            Some(me) => {
                let bytes = header.payload.into();
                multiplexer.begin_broadcast(header.kind, me.stream, bytes)?
            }
        };
        Ok(Arriving {
            kind: header.kind,
            stream: me.map_or(StreamNumber::CONNECTION, |me| me.stream),
            payload: match kept {
                // In one piece of memory: a message of a stream has credit.
                Disposition::Keep => Some(Vec::with_capacity(header.payload as usize)),
                Disposition::Discard => None,
            },
            left: header.payload,
        })
    }
}
