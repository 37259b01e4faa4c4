//! Admin commands: Identify, features, event requests, keep alive, abort.

use super::Target;
use super::plan::{CommandPlan, Refusal, sink};
use crate::controller::EVENT_REQUESTS_MAX;
use rackweave_wire::nvme::identify::{
    self, IdentifyNamespace, LIST_IDS_MAX, NamespaceDescriptor, cns,
};
use rackweave_wire::nvme::identify_controller::{
    CACHE_FLUSH_ONE, SGL, SGL_KEYED, SGL_OFFSET, WRITE_ZEROES,
};
use rackweave_wire::nvme::property::VERSION_2_0;
use rackweave_wire::nvme::sqe::admin;
use rackweave_wire::nvme::{IdentifyController, NSID_ALL, Sqe, Status, cqe, sqe};

/// Features (Base 5.27).
mod feature {
    pub(super) const QUEUES: u8 = 0x07;
    pub(super) const EVENTS: u8 = 0x0b;
    pub(super) const KEEP_ALIVE: u8 = 0x0f;
}

/// The result of Abort meaning that the command was not aborted (Base 5.1).
const NOT_ABORTED: u64 = 1;

impl Target {
    /// An admin command on a controller that is ready.
    pub(crate) fn plan_admin(
        &mut self,
        queue: usize,
        controller: u16,
        sqe: &Sqe,
    ) -> Result<CommandPlan, Refusal> {
        match sqe.opcode {
            admin::IDENTIFY => {
                let bytes = self.identify(controller, sqe)?;
                Ok(CommandPlan::Give(bytes, sink(sqe, identify::LEN as u32)?))
            }
            admin::SET_FEATURES => self.set_features(controller, sqe),
            admin::GET_FEATURES => self.get_features(controller, sqe),
            // Traffic was already noted, as for every command.
            admin::KEEP_ALIVE => Ok(CommandPlan::Answer(0)),
            admin::ABORT => Ok(CommandPlan::Answer(NOT_ABORTED)),
            admin::ASYNC_EVENT_REQUEST => {
                if self.held(queue) >= EVENT_REQUESTS_MAX {
                    return Err(Status::EVENT_LIMIT.into());
                }
                Ok(CommandPlan::Hold)
            }
            admin::GET_LOG_PAGE => Err(Status::INVALID_LOG_PAGE.permanent().into()),
            _ => Err(Status::INVALID_OPCODE.permanent().into()),
        }
    }

    /// I/O queues that a controller may have, zero-based, for both directions.
    fn queues_granted(&self) -> u64 {
        let count = u64::from(self.config.queues_max.saturating_sub(2));
        count | count << 16
    }

    fn set_features(&mut self, controller: u16, sqe: &Sqe) -> Result<CommandPlan, Refusal> {
        let value = sqe.dword(11);
        match sqe.dword(10) as u8 {
            // FFFFh is not a valid number of queues (Base 5.27.1.5).
            feature::QUEUES if value & 0xffff == 0xffff || value >> 16 == 0xffff => {
                Err(Status::INVALID_FIELD.into())
            }
            feature::QUEUES => Ok(CommandPlan::Answer(self.queues_granted())),
            // There are no events to enable.
            feature::EVENTS => Ok(CommandPlan::Answer(0)),
            feature::KEEP_ALIVE => {
                if let Some(controller) = self.controllers.get_mut(&controller) {
                    controller.set_keep_alive(value);
                }
                Ok(CommandPlan::Answer(0))
            }
            _ => Err(Status::INVALID_FIELD.permanent().into()),
        }
    }

    fn get_features(&mut self, controller: u16, sqe: &Sqe) -> Result<CommandPlan, Refusal> {
        match sqe.dword(10) as u8 {
            feature::QUEUES => Ok(CommandPlan::Answer(self.queues_granted())),
            feature::EVENTS => Ok(CommandPlan::Answer(0)),
            feature::KEEP_ALIVE => {
                let controller = self.controllers.get(&controller);
                let time = controller.and_then(|controller| controller.keep_alive);
                Ok(CommandPlan::Answer(
                    time.map_or(0, |time| time.as_nanos() / 1_000_000),
                ))
            }
            _ => Err(Status::INVALID_FIELD.permanent().into()),
        }
    }

    fn identify(&self, controller: u16, sqe: &Sqe) -> Result<Box<[u8; identify::LEN]>, Status> {
        match sqe.dword(10) as u8 {
            cns::CONTROLLER => Ok(self.identify_controller(controller).emit()),
            cns::NAMESPACE => {
                let at = self.namespace(sqe.nsid)?;
                let namespace = &self.namespaces[at];
                let largest = self.config.transfer_max >> namespace.shift;
                let identify = IdentifyNamespace {
                    blocks: namespace.blocks,
                    capacity: namespace.blocks,
                    used: namespace.blocks,
                    shared: true,
                    // Deallocated blocks read as zeroes.
                    deallocated: 1,
                    atomic_blocks: namespace.atomic_blocks.min(largest),
                    guid: self.guid(sqe.nsid),
                    block_shift: namespace.shift as u8,
                };
                Ok(identify.emit())
            }
            cns::ACTIVE_NAMESPACES => {
                if sqe.nsid >= NSID_ALL - 1 {
                    return Err(Status::INVALID_NAMESPACE);
                }
                let last = self.namespaces.len() as u32;
                let ids = sqe.nsid.saturating_add(1)..=last;
                let ids: Vec<u32> = ids.take(LIST_IDS_MAX).collect();
                Ok(identify::emit_list(&ids))
            }
            cns::NAMESPACE_DESCRIPTORS => {
                self.namespace(sqe.nsid)?;
                Ok(identify::emit_descriptors(&[
                    NamespaceDescriptor::Guid(self.guid(sqe.nsid)),
                    NamespaceDescriptor::CommandSet(0),
                ]))
            }
            _ => Err(Status::INVALID_FIELD.permanent()),
        }
    }

    /// A globally unique id of the namespace, derived from the subsystem's name and the namespace's
    /// id, so that it is stable across restarts.
    fn guid(&self, nsid: u32) -> [u8; 16] {
        // FNV-1a, 128 bits: it only has to distinguish names.
        let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
        for byte in self.config.nqn.bytes().chain(nsid.to_be_bytes()) {
            hash = (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
        }
        hash.to_be_bytes()
    }

    fn identify_controller(&self, id: u16) -> IdentifyController {
        let config = &self.config;
        IdentifyController {
            serial: "1".to_owned(),
            model: "Rackweave".to_owned(),
            firmware: env!("CARGO_PKG_VERSION").to_owned(),
            shared: true,
            // In units of the minimum memory page, 4 KiB.
            transfer_shift: (config.transfer_max / 4096).trailing_zeros() as u8,
            controller_id: id,
            version: VERSION_2_0,
            event_requests_max: EVENT_REQUESTS_MAX as u8 - 1,
            // A tenth of a second.
            keep_alive_step: 1,
            commands_max: config.queue_entries,
            namespaces: self.namespaces.len() as u32,
            commands: WRITE_ZEROES,
            write_cache: CACHE_FLUSH_ONE,
            sgls: SGL | SGL_KEYED | SGL_OFFSET,
            subsystem: config.nqn.clone(),
            command_capsule: sqe::LEN as u32 + config.in_capsule_max,
            response_capsule: cqe::LEN as u32,
            descriptors_max: 1,
        }
    }
}
