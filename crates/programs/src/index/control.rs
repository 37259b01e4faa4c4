//! Control-plane operations of the index. They are not bound to passes.

use super::entries::{BANKS, FatRoot, LoadError, QueryEntry, RegularNode, ServerEntry};
use super::{Index, Settings, pair_key};
use rackweave_base::{PortId, Qpn};
use rackweave_switch::table::{Exact, TableError};
use std::net::Ipv4Addr;

impl Index {
    /// Enters a server, or removes it: queries for it are then dropped.
    ///
    /// # Errors
    /// If its number is beyond the table.
    pub fn set_server(
        &mut self,
        server: u16,
        entry: Option<ServerEntry>,
    ) -> Result<(), TableError> {
        self.servers.set(usize::from(server), entry)
    }

    /// Enters a queue pair, by its server's IP address and the number that it has there, or removes
    /// it: its queries are then dropped.
    ///
    /// # Errors
    /// If the table is full.
    pub fn set_query(
        &mut self,
        ip: Ipv4Addr,
        qpn: Qpn,
        entry: Option<QueryEntry>,
    ) -> Result<(), TableError> {
        set(&mut self.queries, pair_key(ip, qpn), entry)
    }

    /// Sets the server that takes requests over plain UDP at `ip`, or none: they are then forwarded
    /// unchanged.
    ///
    /// # Errors
    /// If the table is full.
    pub fn set_udp_server(&mut self, ip: Ipv4Addr, server: Option<u16>) -> Result<(), TableError> {
        set(&mut self.udp_servers, u32::from(ip).into(), server)
    }

    /// Sets the port for queries that have not met the fat root; `None` in the switch with the fat
    /// root.
    ///
    /// # Errors
    /// If there is no index in this switch and a port is given.
    pub fn set_up_port(&mut self, up: Option<PortId>) -> Result<(), TableError> {
        let settings = Settings {
            up,
            ..self.settings()
        };
        self.change(settings, up.is_some())
    }

    /// The port for queries that have not met the fat root.
    pub fn up_port(&self) -> Option<PortId> {
        self.settings().up
    }

    /// Sets whether there is another index switch behind `port`.
    ///
    /// # Errors
    /// If there is no such port.
    pub fn set_trusted(&mut self, port: PortId, is_trusted: bool) -> Result<(), TableError> {
        self.trusted
            .set(usize::from(port.0), is_trusted.then_some(()))
    }

    /// Replaces the bank's fat root. After an error the bank has none.
    ///
    /// # Errors
    /// If the bank is active, something is too large, or entries lead nowhere or overlap.
    pub fn load_fat_root(&mut self, bank: usize, root: &FatRoot) -> Result<(), LoadError> {
        self.check_passive(bank)?;
        self.last_loaded[0] = bank as u8;
        match &mut self.fat_root {
            Some(tables) => tables.load(bank, root),
            None => Err(LoadError::Table(TableError::Full {
                table: "index.ranges",
                capacity: 0,
            })),
        }
    }

    /// Loads tree nodes into the slots of a layer from `from_slot` on, replacing the previous
    /// content. After an error nothing has changed.
    ///
    /// # Errors
    /// If the bank is active, the layer is not in this switch, there are too few slots, or pivots
    /// descend.
    pub fn load_nodes(
        &mut self,
        bank: usize,
        layer: u8,
        from_slot: u16,
        nodes: &[RegularNode],
    ) -> Result<(), LoadError> {
        self.check_passive(bank)?;
        let at = self.layer_at(layer).ok_or(LoadError::NoLayer {
            layer,
            first: self.config.first_layer,
            layers: self.config.layers,
        })?;
        self.last_loaded[1 + at] = bank as u8;
        self.layers[at].load(bank, from_slot, nodes)
    }

    /// Empties a bank. Hits are kept.
    ///
    /// # Errors
    /// If the bank is active.
    pub fn clear(&mut self, bank: usize) -> Result<(), LoadError> {
        self.check_passive(bank)?;
        if let Some(fat_root) = &mut self.fat_root {
            fat_root.clear(bank);
        }
        for layer in &mut self.layers {
            layer.clear(bank);
        }
        Ok(())
    }

    /// Sets the bank for queries that have their first switch here. Without one they get the root.
    ///
    /// # Errors
    /// If there is no such bank, or no index in this switch.
    pub fn set_active(&mut self, bank: Option<usize>) -> Result<(), LoadError> {
        if let Some(bank) = bank.filter(|&bank| bank >= BANKS) {
            return Err(LoadError::NoBank(bank));
        }
        let settings = Settings {
            active: bank.map(|bank| bank as u8),
            ..self.settings()
        };
        Ok(self.change(settings, bank.is_some())?)
    }

    /// The bank for queries that have their first switch here.
    pub fn active(&self) -> Option<usize> {
        self.settings().active.map(usize::from)
    }

    /// Queries that met a range of the fat root since the bank's hits were cleared, modulo 2^32.
    pub fn range_hits(&self, bank: usize, range: u16) -> u64 {
        let fat_root = self.fat_root.as_ref();
        fat_root.map_or(0, |fat_root| fat_root.hits(bank, range))
    }

    /// Queries that were led to a child of a tree node since the bank's hits were cleared, modulo
    /// 2^32.
    pub fn child_hits(&self, bank: usize, layer: u8, slot: u16, child: usize) -> u64 {
        let at = self.layer_at(layer);
        at.map_or(0, |at| self.layers[at].hits(bank, slot, child))
    }

    /// Sets all hits of a bank to zero.
    pub fn clear_hits(&mut self, bank: usize) {
        if bank >= BANKS {
            return;
        }
        if let Some(fat_root) = &mut self.fat_root {
            fat_root.clear_hits(bank);
        }
        for layer in &mut self.layers {
            layer.clear_hits(bank);
        }
    }

    fn layer_at(&self, layer: u8) -> Option<usize> {
        let at = usize::from(layer.checked_sub(self.config.first_layer)?);
        (at < self.layers.len()).then_some(at)
    }

    fn check_passive(&self, bank: usize) -> Result<(), LoadError> {
        if bank >= BANKS {
            return Err(LoadError::NoBank(bank));
        }
        if self.active() == Some(bank) {
            return Err(LoadError::Active(bank));
        }
        Ok(())
    }

    fn change(&mut self, settings: Settings, is_needed: bool) -> Result<(), TableError> {
        if !self.is_present() {
            let refusal = TableError::Full {
                table: "index.settings",
                capacity: 0,
            };
            return if is_needed { Err(refusal) } else { Ok(()) };
        }
        self.settings.set(0, Some(settings))
    }
}

fn set<V: Copy>(table: &mut Exact<V>, key: u64, value: Option<V>) -> Result<(), TableError> {
    match value {
        Some(value) => table.insert(key, value),
        None => {
            table.remove(key);
            Ok(())
        }
    }
}
