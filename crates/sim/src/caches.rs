//! The cost of loads to a core: caches, memory and translation buffers, by their capacity.
//!
//! A program is described by [`Area`]s: ranges of bytes from which each operation loads a number of
//! lines, uniformly. Caches are assumed to hold the data that is loaded most often per byte, which
//! approximates least-recently-used replacement; an area that does not fit completely is held in
//! part. Loads of one operation depend on each other, so none overlaps another. The model has no
//! other inputs; nothing here was fitted to a measured result of a program.

use crate::devices;
use rackweave_base::Duration;

/// Bytes of a cache line.
const LINE: f64 = devices::HOST_LINE_BYTES as f64;

/// Bytes of an entry of a page table.
const TABLE_ENTRY_BYTES: f64 = 8.0;

/// The memory hierarchy of one core. Times are nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CacheModel {
    /// Bytes of first, second and last level.
    pub bytes: [u64; 3],
    /// Latency of a hit in each level, and of a load that misses all.
    pub latency_ns: [f64; 4],
    /// Pages in the first and the second translation buffer.
    pub tlb_entries: [u64; 2],
    /// Time that a hit in the second translation buffer adds to a load.
    pub tlb_second_ns: f64,
    /// Time that a page walk adds, beyond the load of a table entry.
    pub walk_ns: f64,
    /// Nanoseconds of a cycle that does the work of a Xeon's cycle.
    pub cycle_ns: f64,
}

/// Memory that operations of one kind load from, uniformly.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Area {
    /// Bytes of all lines that are loaded at all.
    pub bytes: f64,
    /// Different lines that one operation loads.
    pub lines: f64,
    /// Pages that hold them.
    pub pages: f64,
    /// Different pages that one operation touches.
    pub pages_touched: f64,
}

/// Where the loads of an operation were served, and the time that they took.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Loads {
    /// Loads served by first, second and last level and by memory.
    pub served: [f64; 4],
    /// Page walks.
    pub walks: f64,
    /// Total time in nanoseconds.
    pub nanos: f64,
}

impl CacheModel {
    /// A core of the storage node's Xeon Gold 6326.
    pub fn xeon_6326() -> Self {
        Self::xeon(devices::STORAGE_HERTZ, devices::STORAGE_CACHE_BYTES)
    }

    /// A core of the compute node's Xeon Gold 5220.
    pub fn xeon_5220() -> Self {
        Self::xeon(devices::HOST_HERTZ, devices::COMPUTE_CACHE_BYTES)
    }

    fn xeon(hertz: u64, bytes: [u64; 3]) -> Self {
        let cycle = 1e9 / hertz as f64;
        let [first, second] = devices::STORAGE_CACHE_CYCLES;
        Self {
            bytes,
            latency_ns: [
                first as f64 * cycle,
                second as f64 * cycle,
                devices::HOST_CACHE_LATENCY.as_nanos() as f64,
                devices::HOST_MEMORY_LATENCY.as_nanos() as f64,
            ],
            tlb_entries: devices::STORAGE_TLB_ENTRIES,
            tlb_second_ns: devices::TLB_SECOND_CYCLES as f64 * cycle,
            walk_ns: devices::TLB_WALK_CYCLES as f64 * cycle,
            cycle_ns: cycle,
        }
    }

    /// A core of a BlueField-2.
    pub fn bluefield_2() -> Self {
        let cycle = 1e9 / devices::DPU_HERTZ as f64;
        let [first, second] = devices::DPU_CACHE_CYCLES;
        Self {
            bytes: devices::DPU_CACHE_BYTES,
            latency_ns: [
                first as f64 * cycle,
                second as f64 * cycle,
                devices::DPU_CACHE_LATENCY.as_nanos() as f64,
                devices::DPU_MEMORY_LATENCY.as_nanos() as f64,
            ],
            tlb_entries: devices::DPU_TLB_ENTRIES,
            tlb_second_ns: devices::TLB_SECOND_CYCLES as f64 * cycle,
            walk_ns: devices::TLB_WALK_CYCLES as f64 * cycle,
            cycle_ns: cycle * devices::DPU_CYCLES_PER_HOST_CYCLE as f64,
        }
    }

    /// Duration of this many cycles of a Xeon's work, without loads.
    pub fn work(&self, cycles: f64) -> f64 {
        cycles * self.cycle_ns
    }

    /// Cost of one operation's loads from all of `areas`. Repeated loads of a line within the
    /// operation are not included: they cost the first level's latency, which the caller adds.
    pub fn loads(&self, areas: &[Area]) -> Loads {
        let tables = self.tables(areas);
        let mut all: Vec<(Area, f64)> = areas.iter().map(|&area| (area, area.lines)).collect();
        let walks: f64 = tables.iter().map(|table| table.lines).sum();
        all.extend(tables.iter().map(|&table| (table, table.lines)));
        // The data loaded most often per byte first.
        all.sort_by(|(a, _), (b, _)| (b.lines * a.bytes).total_cmp(&(a.lines * b.bytes)));
        let mut loads = Loads {
            walks,
            nanos: walks * self.walk_ns + self.second_hits(areas) * self.tlb_second_ns,
            ..Loads::default()
        };
        let mut hotter = 0.0;
        for (area, lines) in all {
            let shares = self.shares(hotter, area.bytes);
            for ((served, share), latency) in
                loads.served.iter_mut().zip(shares).zip(self.latency_ns)
            {
                *served += share * lines;
                loads.nanos += share * lines * latency;
            }
            hotter += area.bytes;
        }
        loads
    }

    /// The parts of an area that each level serves, after `hotter` bytes that take precedence.
    fn shares(&self, hotter: f64, bytes: f64) -> [f64; 4] {
        let mut shares = [0.0; 4];
        let mut held = 0.0;
        for (share, capacity) in shares.iter_mut().zip(self.bytes) {
            let fits = within(capacity as f64 - hotter, bytes).max(held);
            *share = fits - held;
            held = fits;
        }
        shares[3] = 1.0 - held;
        shares
    }

    /// Touches of pages that only the second translation buffer holds.
    fn second_hits(&self, areas: &[Area]) -> f64 {
        let [first, both] = self.translated(areas);
        first
            .iter()
            .zip(&both)
            .zip(areas)
            .map(|((first, both), area)| (both - first).max(0.0) * area.pages_touched)
            .sum()
    }

    /// The page table entries that walks load, an area for each of `areas`.
    fn tables(&self, areas: &[Area]) -> Vec<Area> {
        let [_, both] = self.translated(areas);
        let table = |(area, held): (&Area, f64)| Area {
            bytes: (area.pages * TABLE_ENTRY_BYTES).max(LINE),
            lines: (1.0 - held) * area.pages_touched,
            pages: 0.0,
            pages_touched: 0.0,
        };
        areas.iter().zip(both).map(table).collect()
    }

    /// The parts of each area's pages that are in the first buffer, and in either.
    fn translated(&self, areas: &[Area]) -> [Vec<f64>; 2] {
        let mut order: Vec<usize> = (0..areas.len()).collect();
        order.sort_by(|&a, &b| {
            let (a, b) = (&areas[a], &areas[b]);
            (b.pages_touched * a.pages).total_cmp(&(a.pages_touched * b.pages))
        });
        let [first, second] = self.tlb_entries.map(|entries| entries as f64);
        [first, first + second].map(|capacity| {
            let mut held = vec![0.0; areas.len()];
            let mut hotter = 0.0;
            for &at in &order {
                held[at] = within(capacity - hotter, areas[at].pages);
                hotter += areas[at].pages;
            }
            held
        })
    }
}

/// The fraction of `size` that fits into `free`.
fn within(capacity: f64, size: f64) -> f64 {
    if size <= 0.0 {
        1.0
    } else {
        (capacity / size).clamp(0.0, 1.0)
    }
}

impl Area {
    /// An area of contiguous lines, as in an array that is loaded at random offsets.
    pub fn array(bytes: f64, lines: f64) -> Self {
        let pages = (bytes / devices::PAGE_BYTES as f64).ceil();
        Self {
            bytes,
            lines,
            pages,
            pages_touched: lines.min(pages),
        }
    }
}

impl Loads {
    /// The time, in whole nanoseconds rounded up.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.nanos.ceil() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> CacheModel {
        CacheModel {
            bytes: [1024, 8192, 65_536],
            latency_ns: [1.0, 10.0, 100.0, 1000.0],
            tlb_entries: [4, 16],
            tlb_second_ns: 2.0,
            walk_ns: 5.0,
            cycle_ns: 0.5,
        }
    }

    /// An area on a page that is always in the translation buffer.
    fn area(bytes: f64, lines: f64) -> Area {
        Area {
            bytes,
            lines,
            pages: 0.0,
            pages_touched: 0.0,
        }
    }

    #[test]
    fn an_area_is_served_by_the_first_level_that_holds_it() {
        let nanos = |bytes: f64| model().loads(&[area(bytes, 1.0)]).nanos;
        assert_eq!(nanos(1024.0), 1.0);
        assert_eq!(nanos(2048.0), 0.5 * 1.0 + 0.5 * 10.0);
        let memory = nanos(6_553_600.0);
        assert!((980.0..1000.0).contains(&memory), "{memory}");
        assert_eq!(model().loads(&[]).nanos, 0.0);
    }

    #[test]
    fn what_is_loaded_more_often_is_held_first() {
        let hot = area(1024.0, 1.0);
        let cold = area(4096.0, 1.0);
        let both = model().loads(&[cold, hot]);
        // The hot area has the first level to itself; the cold one is in the second.
        assert_eq!(both.served, [1.0, 1.0, 0.0, 0.0]);
        assert_eq!(both.nanos, 11.0);
        let reversed = model().loads(&[hot, cold]);
        assert_eq!(
            both, reversed,
            "the order in which they are given does not count"
        );
    }

    #[test]
    fn pages_beyond_the_buffers_are_walked() {
        let touched = |pages: f64| {
            let area = Area {
                bytes: 64.0,
                lines: 1.0,
                pages,
                pages_touched: 1.0,
            };
            model().loads(&[area])
        };
        assert_eq!(touched(4.0).nanos, 1.0);
        assert_eq!(touched(8.0).nanos, 1.0 + 0.5 * 2.0);
        let far = touched(40.0);
        assert_eq!(far.walks, 0.5, "20 of 40 pages are translated");
        // 16 of 40 in the second buffer; the table is one line and in the first level.
        let expect = 1.0 + 0.4 * 2.0 + 0.5 * (5.0 + 1.0);
        assert!((far.nanos - expect).abs() < 1e-9, "{far:?}");
    }

    #[test]
    fn loads_at_random_take_what_was_measured_on_the_same_cores() {
        // The LX2160A has a last level of 8 MiB and runs at 2.0 GHz; otherwise it is the DPU's
        // model. Its measurement is relative to a first level hit, over blocks of 2 to 64 MiB.
        let dpu = CacheModel::bluefield_2();
        let slower = 2.5 / 2.0;
        let board = CacheModel {
            bytes: [32 << 10, 1 << 20, 8 << 20],
            latency_ns: [
                dpu.latency_ns[0] * slower,
                dpu.latency_ns[1] * slower,
                dpu.latency_ns[2],
                dpu.latency_ns[3],
            ],
            tlb_second_ns: dpu.tlb_second_ns * slower,
            walk_ns: dpu.walk_ns * slower,
            ..dpu
        };
        for (mebibytes, measured) in [(4.0, 35.1), (8.0, 50.4), (32.0, 126.8), (64.0, 146.6)] {
            let loads = board.loads(&[Area::array(mebibytes * 1_048_576.0, 1.0)]);
            let ours = loads.nanos - board.latency_ns[0];
            let ratio = ours / measured;
            assert!(
                (0.8..1.2).contains(&ratio),
                "{mebibytes} MiB: {ours:.1} ns, measured {measured}"
            );
        }
    }

    #[test]
    fn a_smaller_area_is_never_slower() {
        for model in [CacheModel::xeon_6326(), CacheModel::bluefield_2()] {
            let mut last = 0.0;
            for shift in 10..36 {
                let loads = model.loads(&[Area::array(f64::from(2u32).powi(shift), 1.0)]);
                assert!(
                    loads.nanos >= last - 1e-9,
                    "2^{shift}: {loads:?} after {last}"
                );
                last = loads.nanos;
            }
        }
    }
}
