//! Connects the switch's queues at an NVMe target out of band: the switch has no processor that
//! could exchange a kilobyte of Connect data, so its controller passes the target the same capsules
//! that would be sent over the wire (NVMe over Fabrics 1.1, 3.3 to 3.6).

use super::PageSetUpError;
use crate::Site;
use rackweave_base::{NodeId, Qpn};
use rackweave_target::{Target, TargetError};
use rackweave_verbs::Verbs;
use rackweave_wire::nvme::fabrics::{CONTROLLER_ANY, Connect};
use rackweave_wire::nvme::property::Configuration;
use rackweave_wire::nvme::{ConnectData, Cqe, FabricsCommand, Property, Sgl};

/// The switch's host identifier.
const HOST_ID: [u8; 16] = *b"rackweave switch";
const HOST: &str = "nqn.2025-01.io.rackweave:switch";

/// Entries of an I/O queue, counted from zero: the minimum, since a queue of the switch has one
/// command at a time.
const IO_QUEUE_SIZE: u16 = 1;
/// Entries of an admin queue, counted from zero (Fabrics 3.3: at least 32, if the target has them).
const ADMIN_QUEUE_SIZE: u16 = 31;

fn with_target<R>(
    site: &mut dyn Site,
    node: NodeId,
    act: impl FnOnce(&mut Target, &mut dyn Verbs) -> Result<R, TargetError>,
) -> Result<R, PageSetUpError> {
    let (mut act, mut result) = (Some(act), None);
    site.target(node, &mut |target, verbs| {
        if let Some(act) = act.take() {
            result = Some(act(target, verbs));
        }
    });
    result
        .ok_or(PageSetUpError::NoTarget(node))?
        .map_err(|error| PageSetUpError::Target { node, error })
}

fn checked(node: NodeId, response: Cqe) -> Result<Cqe, PageSetUpError> {
    if response.status.is_success() {
        Ok(response)
    } else {
        Err(PageSetUpError::Refused {
            node,
            status: response.status,
        })
    }
}

fn connect_capsule(queue_id: u16, queue_size: u16, controller_id: u16, subsystem: &str) -> Vec<u8> {
    let data = ConnectData {
        host_id: HOST_ID,
        controller_id,
        subsystem: subsystem.to_owned(),
        host: HOST.to_owned(),
    }
    .emit();
    let sgl = Sgl::InCapsule {
        offset: 0,
        length: data.len() as u32,
    };
    let command = FabricsCommand::Connect(Connect {
        queue_id,
        queue_size,
        attributes: 0,
        keep_alive_ms: 0,
    });
    let mut capsule = command.emit(0).with_data(sgl).emit().to_vec();
    capsule.extend_from_slice(&data);
    capsule
}

/// Makes a queue pair for a queue of the switch.
pub(super) fn open(site: &mut dyn Site, node: NodeId) -> Result<Qpn, PageSetUpError> {
    with_target(site, node, |target, verbs| target.open_queue(verbs))
}

/// Makes an enabled controller at the target; returns its admin queue and its number. The admin
/// queue's queue pair stays unconnected: it sends nothing over the wire.
pub(super) fn admin(site: &mut dyn Site, node: NodeId) -> Result<(Qpn, u16), PageSetUpError> {
    let qpn = open(site, node)?;
    let enable = FabricsCommand::PropertySet {
        wide: false,
        offset: Property::Configuration.offset(),
        value: u64::from(Configuration::ENABLE.emit()),
    };
    let (connected, enabled) = with_target(site, node, |target, _| {
        let subsystem = target.config().nqn.clone();
        let size = ADMIN_QUEUE_SIZE.min(target.config().queue_entries - 1);
        let capsule = connect_capsule(0, size, CONTROLLER_ANY, &subsystem);
        let connected = target.admit(qpn, &capsule);
        let enabled = target.admit(qpn, &enable.emit(1).emit());
        Ok((connected, enabled))
    })?;
    let controller = checked(node, connected)?.result as u16;
    checked(node, enabled)?;
    Ok((qpn, controller))
}

/// Makes the queue pair, which can already receive, an I/O queue of the switch's controller.
pub(super) fn connect(
    site: &mut dyn Site,
    node: NodeId,
    qpn: Qpn,
    (queue_id, controller): (u16, u16),
) -> Result<(), PageSetUpError> {
    let response = with_target(site, node, |target, verbs| {
        target.queue_connected(verbs, qpn)?;
        let subsystem = target.config().nqn.clone();
        let capsule = connect_capsule(queue_id, IO_QUEUE_SIZE, controller, &subsystem);
        Ok(target.admit(qpn, &capsule))
    })?;
    checked(node, response)?;
    Ok(())
}

/// Ends a queue. A target that has been removed needs no action.
pub(super) fn close(site: &mut dyn Site, node: NodeId, qpn: Qpn) {
    let _gone = with_target(site, node, |target, verbs| target.close_queue(verbs, qpn));
}

/// Reads a block or the beginning of one, whatever is pending. Returns false if the target is
/// missing, or cannot tell.
pub(super) fn peek(
    site: &mut dyn Site,
    node: NodeId,
    (nsid, block): (u32, u64),
    bytes: &mut [u8],
) -> bool {
    let peeked = with_target(site, node, |target, _| Ok(target.peek(nsid, block, bytes)));
    peeked.unwrap_or(false)
}
