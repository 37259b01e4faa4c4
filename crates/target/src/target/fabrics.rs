//! Connect, properties and Disconnect: the lifecycle of queues and controllers.

use super::Target;
use super::plan::{CommandPlan, Refusal};
use super::queue::{Connected, QueueState};
use crate::controller::{Controller, Effect};
use rackweave_wire::nvme::fabrics::{CONNECT_DATA_LEN, CONTROLLER_ANY, Connect, invalid};
use rackweave_wire::nvme::{ConnectData, FabricsCommand, Property, Status};

/// Bytes of Connect's data.
pub(crate) const CONNECT_BYTES: u32 = CONNECT_DATA_LEN as u32;

/// Attributes of Connect: flow control of the submission queue is off (Fabrics 3.3).
const NO_FLOW_CONTROL: u8 = 1 << 2;

/// Maximum controller id; greater ones are reserved (Fabrics 3.3).
const CONTROLLER_LAST: u16 = 0xffef;

/// An invalid parameter of Connect at this offset.
fn invalid(place: u64) -> Refusal {
    Refusal {
        status: Status::CONNECT_PARAMETERS.permanent(),
        result: place,
    }
}

impl Target {
    /// A Fabrics command on a queue that is connected.
    pub(crate) fn plan_fabrics(
        &mut self,
        queue: usize,
        connected: Connected,
        command: FabricsCommand,
    ) -> Result<CommandPlan, Refusal> {
        let controller = self.controllers.get_mut(&connected.controller);
        let controller = controller.ok_or(Status::INTERNAL)?;
        controller.traffic = true;
        let admin = connected.queue_id == 0;
        match command {
            FabricsCommand::PropertyGet { wide, offset } if admin => {
                let property = Property::at(offset, wide).ok_or(Status::INVALID_FIELD)?;
                let value = controller.property(property, self.config.queue_entries);
                Ok(CommandPlan::Answer(value))
            }
            FabricsCommand::PropertySet {
                wide,
                offset,
                value,
            } if admin => {
                if Property::at(offset, wide) != Some(Property::Configuration) {
                    return Err(Status::INVALID_FIELD.into());
                }
                if controller.configure(value as u32) == Effect::Reset {
                    self.reset(connected.controller);
                }
                Ok(CommandPlan::Answer(0))
            }
            FabricsCommand::Disconnect if !admin => {
                self.queues[queue].connected = None;
                Ok(CommandPlan::Answer(0))
            }
            FabricsCommand::Disconnect => Err(Status::QUEUE_TYPE.into()),
            // The wrong kind of queue, or Connect, which was handled before.
            _ => Err(Status::INVALID_FIELD.into()),
        }
    }

    /// Resets a controller: its I/O queues end, and its held commands are dropped.
    fn reset(&mut self, controller: u16) {
        for index in 0..self.queues.len() {
            let queue = &self.queues[index];
            if queue.state != QueueState::Open || !queue.is_of(controller) {
                continue;
            }
            if queue.is_admin() {
                self.release_held(index);
            } else {
                self.condemn(index);
            }
        }
    }

    /// Executes Connect with its data. Returns the result: the controller's id.
    pub(crate) fn connect(
        &mut self,
        queue: usize,
        connect: Connect,
        data: &[u8],
    ) -> Result<u64, Refusal> {
        if self.queues[queue].connected.is_some() {
            // Two Connects were in flight.
            return Err(Status::COMMAND_SEQUENCE.into());
        }
        let data = ConnectData::parse(data).map_err(|_| Status::INVALID_FIELD)?;
        if data.subsystem != self.config.nqn {
            return Err(invalid(invalid::SUBSYSTEM));
        }
        if data.host.is_empty() {
            return Err(invalid(invalid::HOST));
        }
        // The size is zero-based, and a queue of one entry is invalid.
        if connect.queue_size == 0 || connect.queue_size >= self.config.queue_entries {
            return Err(invalid(invalid::QUEUE_SIZE));
        }
        let controller = if connect.queue_id == 0 {
            self.connect_admin(connect, data)?
        } else {
            self.connect_io(connect, &data)?
        };
        let queue = &mut self.queues[queue];
        queue.sq_head = 0;
        queue.connected = Some(Connected {
            controller,
            queue_id: connect.queue_id,
            entries: u32::from(connect.queue_size) + 1,
            flow_control: connect.attributes & NO_FLOW_CONTROL == 0,
        });
        Ok(controller.into())
    }

    /// Creates a controller for a new association.
    fn connect_admin(&mut self, connect: Connect, data: ConnectData) -> Result<u16, Refusal> {
        if data.controller_id != CONTROLLER_ANY {
            return Err(invalid(invalid::CONTROLLER_ID));
        }
        // Ids are assigned in a cycle, so that a host which lost its controller does not find
        // another's.
        let next = |id: u16| id % CONTROLLER_LAST + 1;
        let mut id = next(self.controller_last);
        while self.controllers.contains_key(&id) {
            if id == self.controller_last {
                return Err(Status::CONNECT_BUSY.into());
            }
            id = next(id);
        }
        self.controller_last = id;
        let controller = Controller::new(data.host_id, data.host, connect.keep_alive_ms);
        self.controllers.insert(id, controller);
        Ok(id)
    }

    /// Adds an I/O queue to a controller.
    fn connect_io(&mut self, connect: Connect, data: &ConnectData) -> Result<u16, Refusal> {
        let id = data.controller_id;
        let Some(controller) = self.controllers.get_mut(&id) else {
            return Err(invalid(invalid::CONTROLLER_ID));
        };
        if controller.host_id != data.host_id || controller.host != data.host {
            return Err(Status::CONNECT_HOST.permanent().into());
        }
        controller.traffic = true;
        if !controller.is_ready() {
            return Err(Status::COMMAND_SEQUENCE.into());
        }
        if connect.queue_id > self.config.queues_max {
            return Err(invalid(invalid::QUEUE_ID));
        }
        let taken = self.queues.iter().any(|queue| {
            let of = |connected: &Connected| connected.queue_id == connect.queue_id;
            let ends = queue.state == QueueState::Draining;
            !ends && queue.is_of(id) && queue.connected.as_ref().is_some_and(of)
        });
        if taken {
            return Err(Status::COMMAND_SEQUENCE.into());
        }
        Ok(id)
    }

    /// Ends an association: its controller and all its queues except `queue`, which is already
    /// ending.
    pub(crate) fn end_controller(&mut self, controller: u16, queue: Option<usize>) {
        if self.controllers.remove(&controller).is_none() {
            return;
        }
        for index in 0..self.queues.len() {
            let is_open = self.queues[index].state == QueueState::Open;
            if is_open && Some(index) != queue && self.queues[index].is_of(controller) {
                self.condemn(index);
            }
        }
    }
}
