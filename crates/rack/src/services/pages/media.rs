//! The nodes and media of stores.

use super::{BLOCK, PageOptions, PageServiceError, StoreInfo, StoreMedium, StoreState};
use crate::config::Role;
use crate::{Rack, TargetOptions};
use rackweave_base::NodeId;
use rackweave_controller::{PageNode, PageStoreSpec};
use rackweave_endpoint::page_store::StoreLayout;
use rackweave_target::{Backend, MemoryBackend};

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
    let compute = || rack.config().nodes_of(Role::Compute).into_iter();
    let nodes = match options.nodes.is_empty() {
        true => compute().map(usual).collect(),
        false => options.nodes.clone(),
    };
    let known = |node: &&PageNode| usize::from(node.node.0) < rack.config().node.len();
    match nodes.iter().find(|node| !known(node)) {
        Some(unknown) => Err(PageServiceError::NoNode(unknown.node)),
        None if nodes.is_empty() => Err(PageServiceError::NoCompute),
        None => Ok(nodes),
    }
}

/// The stores of a configuration; one in memory if it has none.
pub(super) fn of_config(
    rack: &Rack,
    options: &PageOptions,
) -> Result<Vec<StoreMedium>, PageServiceError> {
    let config = rack.config();
    let page_size = config.switch.page_size;
    if config.store.is_empty() {
        let node = config.nodes_of(Role::Storage).first().copied();
        let blocks = options.memory_pages;
        let blocks = blocks.saturating_mul(u64::from(page_size / BLOCK));
        return Ok(vec![StoreMedium {
            name: "memory".to_owned(),
            node: node.ok_or(PageServiceError::NoStorage)?,
            backend: Box::new(MemoryBackend::new(BLOCK, blocks.max(1))),
        }]);
    }
    let medium = |store: &crate::config::StoreConfig| {
        let node = config.node_named(&store.node);
        Ok(StoreMedium {
            name: store.name.clone(),
            node: node.ok_or(PageServiceError::NoStorage)?,
            backend: store.open(page_size)?,
        })
    };
    config.store.iter().map(medium).collect()
}

/// Puts a target on each node that has stores.
pub(super) fn add_targets(
    rack: &Rack,
    options: TargetOptions,
    media: Vec<StoreMedium>,
) -> Result<(Vec<StoreInfo>, Vec<PageStoreSpec>), PageServiceError> {
    let page_size = rack.config().switch.page_size;
    if media.is_empty() || media.len() > usize::from(u8::MAX) {
        return Err(PageServiceError::Stores(media.len()));
    }
    let (mut stores, mut specs) = (Vec::new(), Vec::new());
    let mut targets: Vec<(NodeId, Vec<Box<dyn Backend>>)> = Vec::new();
    for StoreMedium {
        name,
        node,
        backend,
    } in media
    {
        let (block_size, blocks) = (backend.block_size(), backend.blocks());
        let pages = blocks / u64::from(page_size / block_size).max(1);
        if block_size > page_size || pages < StoreLayout::CAPACITY_MIN {
            return Err(PageServiceError::Medium {
                name,
                blocks,
                block_size,
                page_size,
            });
        }
        if usize::from(node.0) >= rack.config().node.len() {
            return Err(PageServiceError::NoNode(node));
        }
        let at = targets.iter().position(|(other, _)| *other == node);
        let at = at.unwrap_or_else(|| {
            targets.push((node, Vec::new()));
            targets.len() - 1
        });
        let namespaces = &mut targets[at].1;
        namespaces.push(backend);
        specs.push(PageStoreSpec {
            target: node,
            nsid: namespaces.len() as u32,
            block_size,
            pages,
        });
        stores.push(StoreInfo {
            number: stores.len() as u8,
            name,
            node,
            pages,
            found: StoreState::Unknown,
        });
    }
    for (node, namespaces) in targets {
        let target = rack.add_target(node, options, namespaces);
        target.map_err(|error| PageServiceError::Target { node, error })?;
    }
    Ok((stores, specs))
}
