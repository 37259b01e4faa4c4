//! Entries in every switch besides plans: servers, queue pairs, the cables.

use super::NOBODY;
use super::load::IndexLoadError;
use super::registry::IndexRegistry;
use crate::Site;
use rackweave_base::Qpn;
use rackweave_programs::index::Index;
use rackweave_programs::index::entries::{IndexConfig, QueryEntry, ServerEntry};
use rackweave_switch::table::TableError;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

impl IndexRegistry {
    /// Enters a server on all switches, or removes it.
    ///
    /// # Errors
    /// If a server at another address has the number, or a switch lacks capacity; then nothing has
    /// changed.
    pub fn set_server(
        &mut self,
        site: &mut dyn Site,
        server: u16,
        entry: Option<ServerEntry>,
    ) -> Result<(), IndexLoadError> {
        if server == NOBODY {
            return Err(IndexLoadError::UnknownServer { server });
        }
        let old = self.servers.get(&server).copied();
        let (was, is) = (old.map(|old| old.ip), entry.map(|entry| entry.ip));
        if was.is_some() && is.is_some() && was != is {
            return Err(IndexLoadError::ServerTaken { server });
        }
        on_all(site, entry, old, |index, entry| {
            index.set_server(server, entry)
        })?;
        note(&mut self.servers, server, entry);
        Ok(())
    }

    /// Enters a queue pair on all switches, or removes it: its server's IP address, its number
    /// there.
    ///
    /// # Errors
    /// If a switch lacks capacity; then nothing has changed.
    pub fn set_query(
        &mut self,
        site: &mut dyn Site,
        (ip, qpn): (Ipv4Addr, Qpn),
        entry: Option<QueryEntry>,
    ) -> Result<(), IndexLoadError> {
        self.check_server(entry.map(|entry| entry.server))?;
        let old = self.queries.get(&(ip, qpn)).copied();
        on_all(site, entry, old, |index, entry| {
            index.set_query(ip, qpn, entry)
        })?;
        note(&mut self.queries, (ip, qpn), entry);
        Ok(())
    }

    /// Sets on all switches the server of requests over plain UDP at an address.
    ///
    /// # Errors
    /// If a switch lacks capacity; then nothing has changed.
    pub fn set_udp_server(
        &mut self,
        site: &mut dyn Site,
        ip: Ipv4Addr,
        server: Option<u16>,
    ) -> Result<(), IndexLoadError> {
        self.check_server(server)?;
        let old = self.udp_servers.get(&ip).copied();
        on_all(site, server, old, |index, server| {
            index.set_udp_server(ip, server)
        })?;
        note(&mut self.udp_servers, ip, server);
        Ok(())
    }

    /// Removes a server that is at an address, with all queue pairs that lead to it.
    ///
    /// # Errors
    /// If a switch refuses.
    pub fn remove_server(
        &mut self,
        site: &mut dyn Site,
        server: u16,
        ip: Ipv4Addr,
    ) -> Result<(), IndexLoadError> {
        let queries = self.queries.iter();
        let of_it = queries.filter(|(_, entry)| entry.server == server);
        let of_it: Vec<_> = of_it.map(|(&at, _)| at).collect();
        for at in of_it {
            self.set_query(site, at, None)?;
        }
        if self.udp_servers.get(&ip) == Some(&server) {
            self.set_udp_server(site, ip, None)?;
        }
        self.set_server(site, server, None)
    }

    /// Whether a server is entered at an address.
    pub fn is_at(&self, server: u16, ip: Ipv4Addr) -> bool {
        self.servers
            .get(&server)
            .is_some_and(|entry| entry.ip == ip)
    }

    /// Handles the death of the node at an address: its servers are removed.
    pub(crate) fn node_died(&mut self, site: &mut dyn Site, ip: Ipv4Addr) {
        let servers = self.servers.keys().copied();
        let of_it: Vec<u16> = servers.filter(|&server| self.is_at(server, ip)).collect();
        for server in of_it {
            // Removing needs no capacity.
            let _removed = self.remove_server(site, server, ip);
        }
    }

    pub(super) fn check_server(&self, server: Option<u16>) -> Result<(), IndexLoadError> {
        match server.filter(|server| !self.servers.contains_key(server)) {
            Some(server) => Err(IndexLoadError::UnknownServer { server }),
            None => Ok(()),
        }
    }

    /// Handles a restart of a switch with empty tables: enters servers and queue pairs again. The
    /// active plan is reloaded by [`load_step`](Self::load_step); the ports that lead to other
    /// switches are entered by the caller that knows the cables.
    ///
    /// # Errors
    /// If its tables are smaller than they were.
    pub fn switch_restarted(
        &mut self,
        site: &mut dyn Site,
        switch: usize,
    ) -> Result<(), TableError> {
        let (servers, queries) = (&self.servers, &self.queries);
        let udp_servers = &self.udp_servers;
        on_one(site, switch, |index| {
            for (&server, &entry) in servers {
                index.set_server(server, Some(entry))?;
            }
            for (&ip, &server) in udp_servers {
                index.set_udp_server(ip, Some(server))?;
            }
            for (&(ip, qpn), &entry) in queries {
                index.set_query(ip, qpn, Some(entry))?;
            }
            Ok(())
        })?;
        self.begin_again(site, switch);
        Ok(())
    }
}

fn note<K: Ord, V>(entries: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => entries.insert(key, value),
        None => entries.remove(&key),
    };
}

/// The sizes of the index in each switch.
pub(super) fn configs(site: &mut dyn Site) -> Vec<IndexConfig> {
    let mut configs = vec![IndexConfig::NONE; site.switches()];
    for (at, config) in configs.iter_mut().enumerate() {
        site.switch_at(at, &mut |_, switch| {
            *config = *switch.program().index.config();
        });
    }
    configs
}

/// Calls `act` with a switch's index, if it has one.
pub(super) fn on_one<R: Default, E>(
    site: &mut dyn Site,
    switch: usize,
    act: impl FnOnce(&mut Index) -> Result<R, E>,
) -> Result<R, E> {
    let (mut act, mut result) = (Some(act), Ok(R::default()));
    site.switch_at(switch, &mut |_, switch| {
        let index = &mut switch.program_mut().index;
        if let Some(act) = act.take().filter(|_| index.is_present()) {
            result = act(index);
        }
    });
    result
}

/// Makes an entry on all switches that have an index; if one refuses, the entries made are removed
/// again.
fn on_all<T: Copy>(
    site: &mut dyn Site,
    entry: Option<T>,
    old: Option<T>,
    enter: impl Fn(&mut Index, Option<T>) -> Result<(), TableError>,
) -> Result<(), IndexLoadError> {
    let is_present = configs(site).iter().any(|config| config.servers > 0);
    if !is_present && entry.is_some() {
        return Err(IndexLoadError::NoIndex);
    }
    for switch in 0..site.switches() {
        let Err(error) = on_one(site, switch, |index| enter(index, entry)) else {
            continue;
        };
        for switch in 0..switch {
            let undone = on_one(site, switch, |index| enter(index, old));
            debug_assert!(undone.is_ok(), "what was there before has room");
        }
        return Err(error.into());
    }
    Ok(())
}
