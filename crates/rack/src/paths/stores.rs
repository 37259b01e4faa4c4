//! The medium of each store's pages, whether writes are doubled, and the location of its directory
//! entries.

use super::{Group, Kind, Path, kinds};
use crate::config::choices::{self, Choice};
use crate::config::{Medium, RackConfig, StoreConfig};
use rackweave_controller::first_in_turn;

pub(super) fn describe(config: &RackConfig, paths: &mut Vec<Path>) {
    if config.store.is_empty() {
        let none = Choice::new((), "there is no [[store]]; programs bring their own");
        let of = (None, Group::Store, "");
        paths.push(Path::new(of, "store", none, |()| "none".to_owned()));
        return;
    }
    let page_size = config.switch.page_size;
    let pages = |store: &StoreConfig| store.pages(page_size);
    let all: u64 = config.store.iter().map(pages).sum();
    let room = choices::pages_indexed(config, all);
    let indexed = first_in_turn(room, config.store.iter().map(pages));
    for (store, indexed) in config.store.iter().zip(indexed) {
        let of = (None, Group::Store, &*store.name);
        let node = Choice::new(&store.node, "store.node says so");
        paths.push(Path::new(of, "node", node, Clone::clone));
        for kind in kinds(config) {
            paths.push(medium(store, kind, page_size));
        }
        paths.push(doubled(store));
        paths.extend(directory(config, store, indexed));
    }
}

/// The medium of its blocks.
fn medium(store: &StoreConfig, kind: Kind, page_size: u32) -> Path {
    let of = (Some(kind), Group::Store, &*store.name);
    let pages = store.pages(page_size);
    let choice = store.medium_in(kind);
    Path::new(of, "medium", choice, |medium| match (medium, kind) {
        (Medium::Memory, Kind::Simulated) => {
            format!("{pages} pages in memory, modelled drives: {}", store.drives)
        }
        (Medium::Memory, _) => format!("{pages} pages in memory"),
        (Medium::File, _) => {
            let path = store.path.as_deref().unwrap_or("".as_ref());
            format!("{pages} pages in {}", path.display())
        }
    })
}

/// Whether its writes are atomic if the power fails.
fn doubled(store: &StoreConfig) -> Path {
    let of = (None, Group::Store, &*store.name);
    Path::new(of, "double writes", store.doubles(), |doubles| {
        if doubles { "yes" } else { "no" }.to_owned()
    })
}

/// The holder of the directory entries of its pages.
fn directory(config: &RackConfig, store: &StoreConfig, indexed: u64) -> Vec<Path> {
    let of = (None, Group::Store, &*store.name);
    let all = store.pages(config.switch.page_size);
    let loaded = choices::pages(config);
    if !loaded.value {
        let text = |_| "none: nobody finds its pages".to_owned();
        return vec![Path::new(of, "directory", loaded, text)];
    }
    let rest = all - indexed;
    let server = choices::page_server(config);
    let name = |server: Option<_>| match server {
        Some(rackweave_base::NodeId(at)) => config.node[usize::from(at)].name.clone(),
        None => "nobody".to_owned(),
    };
    let entries = config.switch.page_entries;
    let where_ = match (indexed, rest) {
        (_, 0) => "the switch".to_owned(),
        (0, _) => format!("entries in the memory of {}", name(server.value)),
        _ => format!("the switch, and memory of {}", name(server.value)),
    };
    let why = match rest {
        0 => format!("switch.page_entries is {entries}: it has room for all"),
        _ => format!(
            "switch.page_entries is {entries}, and the first pages of all stores in turn have them"
        ),
    };
    let mut paths = vec![
        Path::new(of, "directory", Choice::new(where_, why.clone()), |it| it),
        Path::new(of, "indexed", Choice::new(indexed, why), |indexed| {
            format!("{indexed} of {all} pages")
        }),
    ];
    if rest > 0 {
        paths.push(others(config, of, server, name));
    }
    paths
}

/// What happens to pages that the switch does not index.
fn others(
    config: &RackConfig,
    of: (Option<Kind>, Group, &str),
    server: Choice<Option<rackweave_base::NodeId>>,
    name: impl Fn(Option<rackweave_base::NodeId>) -> String,
) -> Path {
    let Some(_) = server.value else {
        let why = "there is no memory node to have their entries; add one with role = \"memory\", \
                   or raise switch.page_entries";
        let text = |()| "none: pages are refused".to_owned();
        return Path::new(of, "others", Choice::new((), why), text);
    };
    let promoted = match config.switch.page_promote_at {
        0 => "switch.page_promote_at is 0, so they stay there".to_owned(),
        at => format!(
            "after {} requests for one the switch indexes it (switch.page_promote_at)",
            at.next_power_of_two()
        ),
    };
    let why = format!("{}; {promoted}", server.why);
    let text = |server| format!("entries in the memory of {}", name(server));
    Path::new(of, "others", Choice::new(server.value, why), text)
}
