//! The encoding of a partition map in a message.

use super::{EndpointId, MapError, Part, PartitionMap};

/// Bytes of an encoded map before the data of endpoints and parts.
const HEADER: usize = 16;

/// Bytes of an encoded part.
const PART: usize = 24;

impl PartitionMap {
    /// Encodes the map.
    pub fn encode(&self) -> Vec<u8> {
        let len = HEADER + 8 * self.since.len() + PART * self.parts.len();
        let mut bytes = Vec::with_capacity(len);
        bytes.extend(self.version.to_le_bytes());
        bytes.extend((self.since.len() as u32).to_le_bytes());
        bytes.extend((self.parts.len() as u32).to_le_bytes());
        for since in &self.since {
            bytes.extend(since.to_le_bytes());
        }
        for part in &self.parts {
            bytes.extend(part.low.to_le_bytes());
            bytes.extend(part.last.to_le_bytes());
            bytes.extend(u64::from(part.endpoint.0).to_le_bytes());
        }
        bytes
    }

    /// Decodes a map.
    ///
    /// # Errors
    /// If the bytes are not a map, or its parts are not a partition.
    pub fn decode(bytes: &[u8]) -> Result<Self, MapError> {
        let malformed = MapError::Malformed(bytes.len());
        let (words, rest) = bytes.as_chunks::<8>();
        let mut words = words.iter().map(|&word| u64::from_le_bytes(word));
        let (version, sizes) = words.next().zip(words.next()).ok_or(malformed)?;
        let (endpoints, count) = (sizes as u32 as usize, (sizes >> 32) as usize);
        let expected = endpoints.saturating_add(count.saturating_mul(PART / 8));
        if !rest.is_empty() || words.len() != expected {
            return Err(malformed);
        }
        let endpoints = u16::try_from(endpoints).map_err(|_| malformed)?;
        let since: Vec<u64> = words.by_ref().take(usize::from(endpoints)).collect();
        let mut parts = Vec::with_capacity(count);
        while let (Some(low), Some(last), Some(endpoint)) =
            (words.next(), words.next(), words.next())
        {
            let endpoint = EndpointId(u16::try_from(endpoint).map_err(|_| malformed)?);
            parts.push(Part {
                low,
                last,
                endpoint,
            });
        }
        let map = Self::new(version, endpoints, parts)?;
        let possible = since.iter().all(|&since| since <= version);
        possible.then_some(Self { since, ..map }).ok_or(malformed)
    }
}
