//! Computes the RDMA MTU that fits a link.

use crate::Properties;

/// The smallest RDMA MTU in bytes, and the largest: InfiniBand specification 1.4, 9.7.5.1.
const RDMA_MTU_MIN: usize = 256;
const RDMA_MTU_MAX: usize = 4096;

/// Bytes of Ethernet payload reserved for the headers and trailer around the RDMA payload. IPv4 20,
/// UDP 8, BTH 12, RETH 16, immediate 4 and ICRC 4 make 64; Linux's rxe reserves 80, and this crate
/// must do the same, because both ends of a cable must compute the same RDMA MTU.
const HEADERS_MAX: usize = 80;

/// The smallest MTU of a link that carries RDMA packets.
pub const MTU_MIN: usize = RDMA_MTU_MIN + HEADERS_MAX;

/// The largest RDMA MTU (256 to 4096, in powers of two) whose packets fit an Ethernet payload of
/// `mtu` bytes; `None` if not even the smallest does.
pub const fn rdma_mtu(mtu: usize) -> Option<u32> {
    let mut rdma_mtu = RDMA_MTU_MAX;
    while rdma_mtu >= RDMA_MTU_MIN {
        if rdma_mtu + HEADERS_MAX <= mtu {
            return Some(rdma_mtu as u32);
        }
        rdma_mtu /= 2;
    }
    None
}

impl Properties {
    /// The largest RDMA MTU whose packets the link carries, as computed by [`rdma_mtu`].
    pub const fn rdma_mtu(&self) -> Option<u32> {
        rdma_mtu(self.mtu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rdma_mtu_is_the_one_that_linux_finds() {
        let expect = [
            (335, None),
            (336, Some(256)),
            (576, Some(256)),
            (592, Some(512)),
            (1103, Some(512)),
            (1104, Some(1024)),
            (1500, Some(1024)),
            (4175, Some(2048)),
            (4176, Some(4096)),
            (4200, Some(4096)),
            (9000, Some(4096)),
            (65_535, Some(4096)),
        ];
        for (mtu, rdma) in expect {
            let properties = Properties {
                mtu,
                lossless: true,
                check_needed: true,
            };
            assert_eq!(properties.rdma_mtu(), rdma, "{mtu} bytes");
        }
        assert_eq!(rdma_mtu(MTU_MIN - 1), None);
        assert!(rdma_mtu(MTU_MIN).is_some());
    }
}
