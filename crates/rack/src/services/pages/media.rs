//! The nodes and media of stores.

use super::{PageOptions, PageServiceError, StoreInfo, StoreMedium, StoreState};
use crate::config::{RackConfig, Role, StoreConfig};
use crate::services::wait_within;
use crate::{Rack, TargetOptions};
use rackweave_base::NodeId;
use rackweave_controller::ask::TargetNamespaces;
use rackweave_controller::{PageNode, PageSetUpError, PageSpec, PageStoreSpec};
use rackweave_endpoint::page_store::StoreLayout;
use rackweave_target::Backend;

/// The nodes that get buffer frames.
pub(super) fn nodes_of(
    rack: &Rack,
    options: &PageOptions,
) -> Result<Vec<PageNode>, PageServiceError> {
    let usual = |node| PageNode {
        node,
        frames: options.frames,
        workers: options.workers,
        slots: options.requests,
    };
    let nodes = match options.nodes.is_empty() {
        true => {
            let switch = &rack.config().switch;
            let nodes_of = |role| rack.config().nodes_of(role).into_iter();
            let compute: Vec<_> = nodes_of(Role::Compute).map(usual).collect();
            // Places for guests, as far as the switch has capacity.
            let most = |whole: u16, each: u16| usize::from(whole / each.max(1));
            let workers = most(switch.page_workers, options.workers);
            let slots = options.workers.saturating_mul(options.requests);
            let most = workers.min(most(switch.page_slots, slots));
            let guests = nodes_of(Role::Guest).take(most.saturating_sub(compute.len()));
            compute.into_iter().chain(guests.map(usual)).collect()
        }
        false => options.nodes.clone(),
    };
    let known = |node: &&PageNode| usize::from(node.node.0) < rack.config().node.len();
    match nodes.iter().find(|node| !known(node)) {
        Some(unknown) => Err(PageServiceError::NoNode(unknown.node)),
        None if nodes.is_empty() => Err(PageServiceError::NoCompute),
        None => Ok(nodes),
    }
}

/// A medium that is here, or one at the target of another process.
pub(super) enum Medium {
    Here(StoreMedium),
    Elsewhere {
        name: String,
        node: NodeId,
        page_size: u32,
    },
}

/// The media of the stores of a configuration that this process has; one in memory, at the first
/// storage node, if it names none.
pub(super) fn of_config(
    rack: &Rack,
    options: &PageOptions,
) -> Result<Vec<Medium>, PageServiceError> {
    let config = rack.config();
    let smallest = config.switch.page_size;
    let stores = stores_of(config, options.memory_pages)?;
    let medium = |(node, store): (NodeId, StoreConfig)| {
        let page_size = store.page_size(smallest);
        if rack.node_here(node).is_none() {
            let name = store.name;
            return Ok(Medium::Elsewhere {
                name,
                node,
                page_size,
            });
        }
        Ok(Medium::Here(StoreMedium {
            backend: store.open(smallest)?,
            name: store.name,
            node,
            page_size: Some(page_size),
        }))
    };
    stores.into_iter().map(medium).collect()
}

/// The stores of a configuration, with their nodes; one of so many pages in memory, if it names
/// none.
fn stores_of(
    config: &RackConfig,
    memory_pages: u64,
) -> Result<Vec<(NodeId, StoreConfig)>, PageServiceError> {
    if config.store.is_empty() {
        let node = config.nodes_of(Role::Storage).first().copied();
        let node = node.ok_or(PageServiceError::NoStorage)?;
        let bytes = memory_pages
            .max(1)
            .saturating_mul(config.switch.page_size.into());
        let name = &config.node[usize::from(node.0)].name;
        return Ok(vec![(node, StoreConfig::in_memory("memory", name, bytes))]);
    }
    let with_node = |store: &StoreConfig| {
        let node = config.node_named(&store.node);
        Ok((node.ok_or(PageServiceError::NoStorage)?, store.clone()))
    };
    config.store.iter().map(with_node).collect()
}

/// The namespaces of a node that is a process of its own: its stores in the configuration, or the
/// one in memory. Empty if it has none.
///
/// # Errors
/// If a store cannot be opened.
#[cfg(feature = "hosted")]
pub(crate) fn namespaces_of(
    config: &RackConfig,
    node: NodeId,
) -> Result<Vec<Box<dyn Backend>>, PageServiceError> {
    let stores = stores_of(config, PageOptions::default().memory_pages)?;
    let stores = stores.into_iter().filter(|(at, _)| *at == node);
    stores
        .map(|(_, store)| Ok(store.open(config.switch.page_size)?))
        .collect()
}

/// The stores of an existing directory, with their names in the configuration.
pub(super) fn known(rack: &Rack, spec: &PageSpec) -> Vec<StoreInfo> {
    let names = &rack.config().store;
    let stores = (0u8..).zip(&spec.stores);
    let info = |(number, store): (u8, &PageStoreSpec)| StoreInfo {
        number,
        name: match names.get(usize::from(number)) {
            Some(named) if names.len() == spec.stores.len() => named.name.clone(),
            _ if names.is_empty() => "memory".to_owned(),
            _ => format!("store {number}"),
        },
        node: store.target,
        page_size: store.page_size,
        pages: store.pages,
        found: StoreState::Unknown,
    };
    stores.map(info).collect()
}

/// Number of pages of a medium with blocks of this size and number.
fn pages_of(
    name: &str,
    (block_size, blocks): (u32, u64),
    page_size: u32,
) -> Result<u64, PageServiceError> {
    let pages = blocks / u64::from(page_size / block_size).max(1);
    if block_size <= page_size && pages >= StoreLayout::CAPACITY_MIN {
        return Ok(pages);
    }
    Err(PageServiceError::Medium {
        name: name.to_owned(),
        blocks,
        block_size,
        page_size,
    })
}

/// Puts a target on each node here that has stores, and asks those elsewhere.
pub(super) fn add_targets(
    rack: &Rack,
    options: &PageOptions,
    media: Vec<Medium>,
) -> Result<(Vec<StoreInfo>, Vec<PageStoreSpec>), PageServiceError> {
    let smallest = rack.config().switch.page_size;
    if media.is_empty() || media.len() > usize::from(u8::MAX) {
        return Err(PageServiceError::Stores(media.len()));
    }
    let (mut stores, mut specs) = (Vec::new(), Vec::new());
    let mut targets: Vec<(NodeId, Vec<Box<dyn Backend>>)> = Vec::new();
    let mut elsewhere: Vec<NodeId> = Vec::new();
    for medium in media {
        let (name, node, page_size, sizes, nsid) = match medium {
            Medium::Here(StoreMedium {
                name,
                node,
                backend,
                page_size,
            }) => {
                let page_size = page_size.unwrap_or(smallest);
                let sizes = (backend.block_size(), backend.blocks());
                let at = targets.iter().position(|(other, _)| *other == node);
                let at = at.unwrap_or_else(|| {
                    targets.push((node, Vec::new()));
                    targets.len() - 1
                });
                let namespaces = &mut targets[at].1;
                namespaces.push(backend);
                (name, node, page_size, sizes, namespaces.len())
            }
            Medium::Elsewhere {
                name,
                node,
                page_size,
            } => {
                let before = elsewhere.iter().filter(|other| **other == node).count();
                elsewhere.push(node);
                // Its process may be starting.
                let sizes = wait_within(&rack.any_node(), options.time_limit, || {
                    rack.ask(TargetNamespaces { node })?.get(before).copied()
                });
                let sizes = sizes.ok_or(PageSetUpError::NoTarget(node))?;
                (name, node, page_size, sizes, before + 1)
            }
        };
        let pages = pages_of(&name, sizes, page_size)?;
        if usize::from(node.0) >= rack.config().node.len() {
            return Err(PageServiceError::NoNode(node));
        }
        specs.push(PageStoreSpec {
            target: node,
            nsid: nsid as u32,
            block_size: sizes.0,
            page_size,
            pages,
        });
        stores.push(StoreInfo {
            number: stores.len() as u8,
            name,
            node,
            page_size,
            pages,
            found: StoreState::Unknown,
        });
    }
    let largest = specs.iter().map(|store| store.page_size).max();
    let options = TargetOptions {
        page_size: options.target.page_size.or(largest),
        ..options.target
    };
    for (node, namespaces) in targets {
        let target = rack.add_target(node, options, namespaces);
        target.map_err(|error| PageServiceError::Target { node, error })?;
    }
    Ok((stores, specs))
}
