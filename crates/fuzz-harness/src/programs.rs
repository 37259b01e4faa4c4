//! A switch with a page directory and sequencers, and a node that attacks them.
//!
//! Node 0 is the attacker: it sends whatever the input says, on its own port. Node 1 uses pages and
//! a sequencer correctly; node 2 has the NVMe target. Whatever node 0 sends, node 1's requests are
//! answered, no number is returned twice, node 1 keeps its latches, and no memory changes that node
//! 0 may not write.

mod client;

use crate::fixture;
use crate::input::Input;
use crate::packets::{self, RequestTarget};
use crate::rack::{self, FAULTS_HARMLESS, NODES, Rack, To};
use client::Client;
use rackweave_base::{Duration, NodeId, Rkey};
use rackweave_controller::pages::{PageNode, PageSpec, PageStoreSpec};
use rackweave_controller::{Controller, SequencerSpec, Site};
use rackweave_programs::PipelineConfig;
use rackweave_programs::flows::FlowConfig;
use rackweave_programs::pages::PagesConfig;
use rackweave_programs::sequencer::{STAGE_BEHIND_ALL, SequencerConfig};
use rackweave_switch::Budget;
use rackweave_verbs::{CompletionStatus, CqId, Region};
use rackweave_wire::Rewrite;
use rackweave_wire::fabric::page::control;
use rackweave_wire::fabric::page::request::{self, Request, Response};
use rackweave_wire::fabric::page::{LatchWord, PageId};
use std::collections::BTreeMap;

const ATTACKER: usize = 0;
const USER: usize = 1;
const TARGET: usize = 2;
const PAGE_SIZE: u32 = 4096;
const PAGES: u64 = 8;
const FRAMES: u32 = 8;
/// Buffer frames that node 1 uses for pages; nothing may write into the others.
const USED_FRAMES: u32 = 2;
const SLOTS: u16 = 2;
/// Maximum requests until a slot is free.
const SLOT_TRIES_MAX: usize = 2_000;
/// Maximum steps until a request is answered.
const STEPS_MAX: usize = 5_000;

struct Fuzzed {
    rack: Rack,
    controller: Controller,
    attacker: Client,
    user: Client,
    /// At node 1.
    guard: Region,
    places: Vec<RequestTarget>,
    /// No number below this is free.
    next: u64,
    /// Pages whose latch node 1 holds, and the latch words.
    held: BTreeMap<PageId, LatchWord>,
    faults: u32,
}

/// `data` is a sequence of steps: requests of both nodes, faults, and packets of the attacker.
///
/// # Panics
/// If the switch, a NIC or the controller is wrong.
pub fn programs(data: &[u8]) {
    let mut input = Input::new(data);
    let mut fuzzed = Fuzzed::new();
    while fuzzed.act(&mut input).is_some() {
        fuzzed.controller.handle_digests(&mut fuzzed.rack);
    }
    fuzzed.finish();
}

fn config() -> PipelineConfig {
    PipelineConfig {
        pages: PagesConfig {
            entries: 64,
            channels: 2,
            slots: 2 * SLOTS,
            stores: 1,
            nodes: NODES as u16,
            frame_size: PAGE_SIZE,
            promote_at: 0,
        },
        sequencer: SequencerConfig {
            sequencers: 2,
            clients: 2,
            first_stage: STAGE_BEHIND_ALL,
        },
        // The page directory uses their stages.
        flows: FlowConfig {
            threads: 0,
            producers: 0,
        },
        ..rack::pipeline_config(Rewrite::Update)
    }
}

impl Fuzzed {
    fn new() -> Self {
        let (mut rack, mut controller) = Rack::new(config(), Budget::Tofino2);
        let (nic, bytes) = (&mut rack.nics[TARGET], PAGES * u64::from(PAGE_SIZE));
        let target = fixture::target(nic, &rack.memory, bytes, PAGE_SIZE);
        rack.target = Some((TARGET, target));
        let node = |node: usize| PageNode {
            node: NodeId(node as u16),
            frames: FRAMES,
            workers: 1,
            slots: SLOTS,
        };
        let spec = PageSpec {
            frame_size: PAGE_SIZE,
            nodes: vec![node(ATTACKER), node(USER)],
            stores: vec![PageStoreSpec {
                target: NodeId(TARGET as u16),
                nsid: 1,
                block_size: 512,
                page_size: PAGE_SIZE,
                pages: PAGES,
            }],
            fallback: None,
            standbys: Vec::new(),
            indexed: PAGES,
            timeout: Duration::from_millis(1),
            mtu: rackweave_verbs::Mtu::B4096,
            lease_after: None,
        };
        controller.create_pages(&mut rack, spec).expect("capacity");
        let sequencer = SequencerSpec {
            first: 0,
            // So many that node 0 cannot use a block up before the controller enters the next one:
            // until then the switch refuses all requests.
            block: 1 << 48,
        };
        let sequencer = controller.create_sequencer(&mut rack, sequencer);
        let sequencer = sequencer.expect("capacity");
        let clients =
            [ATTACKER, USER].map(|node| Client::new(&mut rack, &mut controller, (node, sequencer)));
        let guard = rack.guard(USER);
        let mut places = vec![RequestTarget::of(&guard)];
        for client in &clients {
            for name in [client.pool.region, client.channel.control] {
                places.push(RequestTarget {
                    address: name.address,
                    rkey: name.rkey,
                });
            }
            places.push(RequestTarget {
                address: client.place.address,
                rkey: client.place.rkey,
            });
        }
        let [attacker, user] = clients;
        Self {
            rack,
            controller,
            attacker,
            user,
            guard,
            places,
            next: 0,
            held: BTreeMap::new(),
            faults: 0,
        }
    }

    /// One step: its kind in bits 0 to 3 of its first byte.
    fn act(&mut self, input: &mut Input<'_>) -> Option<()> {
        let control = input.byte()?;
        let value = control >> 4;
        match control & 15 {
            0..=2 => (0..=value).for_each(|_| self.rack.step()),
            3 => {
                self.faults += 1;
                self.rack.disturb(value, input)?;
            }
            4 => self.use_numbers(u64::from(value)),
            5 | 6 => {
                let operation = input.byte()?;
                let _status = self.use_page(operation, value);
            }
            // Well-formed requests, mostly about existing objects.
            7 => {
                let mut place = self.attacker.place;
                let (wrong, count) = (input.byte()?, u64::from(input.word()?));
                place.address ^= u64::from(wrong & 0x0f) << 1;
                place.rkey.0 ^= u32::from(wrong >> 7);
                let count = match wrong & 0x40 {
                    0 => count,
                    _ => count << 32,
                };
                self.attacker.add(&mut self.rack, place, count);
            }
            8..=11 => {
                let (operation, argument) = (input.byte()? & 31, input.byte()?);
                let (frame, page) = (input.byte()?, u64::from(input.half()?));
                let page = match page & 0x8000 {
                    0 => page % (PAGES + 1),
                    _ => page << 33,
                };
                let frame = match frame {
                    0..=0xdf => u32::from(frame) % (FRAMES + 2),
                    _ => u32::from(frame) << 16,
                };
                let address = u64::from(operation) << 56 | u64::from(argument) << 48;
                let rkey = Rkey(u32::from(value) << 24 | frame);
                let page = page & ((1 << PageId::BITS) - 1);
                self.attacker.page(&mut self.rack, address | page, rkey);
            }
            12 => {
                if let Some((_, packet)) = self.rack.mutated(input) {
                    self.rack.arrive(To::Switch(ATTACKER), packet);
                }
            }
            13 => {
                let packet = self.rack.forged(ATTACKER, &self.places, input)?;
                self.rack.arrive(To::Switch(ATTACKER), packet);
            }
            14 => {
                let len = usize::from(input.half()?);
                let packet = packets::raw(input.bytes(len));
                self.rack.arrive(To::Switch(ATTACKER), packet);
            }
            _ => self.rack.replay(input.byte()?),
        }
        Some(())
    }

    /// Runs the rack until node 1's request is answered.
    fn answered(&mut self, cq: CqId) -> CompletionStatus {
        for _ in 0..STEPS_MAX {
            if let [completion, ..] = self.user.poll(&mut self.rack, cq)[..] {
                return completion.status;
            }
            self.rack.step();
            self.controller.handle_digests(&mut self.rack);
        }
        panic!("node 1 gets no answer: {:?}", self.rack.switch.counters());
    }

    /// Whether a request of node 1's succeeded; only faults may make it fail.
    fn succeeded(&mut self, cq: CqId) -> bool {
        let status = self.answered(cq);
        let is_done = status == CompletionStatus::Success;
        assert!(
            is_done || self.faults > FAULTS_HARMLESS,
            "node 1's request ends with {status:?}"
        );
        is_done
    }

    /// Node 1 requests numbers, which must never have been returned before.
    fn use_numbers(&mut self, count: u64) {
        let place = self.user.place;
        self.user.add(&mut self.rack, place, count + 1);
        if self.succeeded(self.user.cq) {
            let mut first = [0; 8];
            self.user.region.block.read(0, &mut first);
            let first = u64::from_le_bytes(first);
            assert!(first >= self.next, "number {first} is handed out twice");
            self.next = first + count + 1;
        }
    }

    /// Node 1 sends a request about a page, with a buffer frame that it uses.
    fn use_page(&mut self, operation: u8, value: u8) -> Option<request::Status> {
        let operation = request::Operation::from_number(operation % 17)?;
        let slot = value >> 3;
        let request = Request {
            operation,
            page: PageId::new(0, u64::from(value) % PAGES).expect("it is in the store"),
            argument: 0,
            slot,
            frame: u32::from(value & 1) % USED_FRAMES,
        };
        let (address, rkey) = (request.address(), Rkey(request.rkey()));
        self.user.page(&mut self.rack, address, rkey);
        if !self.succeeded(self.user.channel.cq) {
            return None;
        }
        let at = self.user.response_at(u64::from(slot));
        let node = NodeId(USER as u16);
        let control = self.user.channel.control.rkey;
        let word = |offset| {
            let bytes = self.rack.regions.load(node, control, at + offset);
            u64::from_le_bytes(bytes.expect("the control region"))
        };
        let response = Response::parse(word(0), word(8));
        let response = response.unwrap_or_else(|| panic!("{request:?}: no response"));
        self.check_latch(&request, response);
        Some(response.status)
    }

    /// Waits until the pending request in a slot of node 1 ends, and the slot accepts another one.
    fn await_slot(&mut self, slot: u8) {
        for _ in 0..SLOT_TRIES_MAX {
            match self.use_page(request::Operation::ReadHome as u8, slot << 3) {
                Some(request::Status::Busy) => self.rack.step(),
                Some(_) => return,
                None => break,
            }
        }
        let faults = self.faults;
        assert!(faults > FAULTS_HARMLESS, "slot {slot} stays busy");
    }

    /// A latch of node 1 is unchanged until node 1 releases it.
    fn check_latch(&mut self, request: &Request, response: Response) {
        let (page, latch) = (request.page, response.latch);
        if response.status == request::Status::Busy {
            return;
        }
        if let Some(&held) = self.held.get(&page) {
            match request.operation {
                request::Operation::Unfix | request::Operation::Release => {
                    let status = response.status;
                    assert_eq!(status, request::Status::Current, "{request:?}");
                    self.held.remove(&page);
                }
                request::Operation::Verify => assert_eq!(latch, held, "{page}"),
                _ => {}
            }
        } else if request.operation.is_exclusive() && response.granted {
            assert!(latch.is_locked());
            self.held.insert(page, latch);
        }
    }

    /// Without further faults node 1 is served, and nothing else of its memory has changed.
    fn finish(mut self) {
        self.rack.fates.clear();
        for count in 0..2 {
            self.use_numbers(count);
        }
        for value in 0..PAGES as u8 {
            let _status = self.use_page(request::Operation::Verify as u8, value);
        }
        for slot in 0..SLOTS as u8 {
            self.await_slot(slot);
        }
        assert!(rack::is_untouched(&self.guard), "the guard has changed");
        let node = NodeId(USER as u16);
        let frames = self.rack.regions.block(node, self.user.pool.region.rkey);
        let frames = frames.expect("node 1's buffer frames");
        let (from, to) = (USED_FRAMES * PAGE_SIZE, (FRAMES + 1) * PAGE_SIZE);
        let unused = frames.bytes(from as usize, (to - from) as usize);
        assert!(unused.is_all(0), "an unused buffer frame has changed");
        let generation = control::generation_at(SLOTS);
        let control = self.user.channel.control.rkey;
        let word = self.rack.load_word(node, control, generation);
        let word = word.map(u64::from_le_bytes);
        assert_eq!(word, Some(self.user.channel.generation));
    }
}
