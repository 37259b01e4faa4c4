//! The bounds of the tree's key range: ranges are given away and taken over.

use super::error::TreeError;
use super::node::Entry;
use super::tree::Tree;
use rackweave_wire::fabric::tree::{NodePointer, ROOT, ValueRef};

impl Tree {
    /// Moves the bounds outwards. New bounds that are within the old ones change nothing.
    ///
    /// # Errors
    /// If `low` is above `last`.
    pub fn extend(&self, low: u64, last: u64) -> Result<(), TreeError> {
        check_bounds(low, last)?;
        for (edge, is_low) in [(low, true), (last, false)] {
            let mut writer = self.node(ROOT).lock();
            loop {
                let (old_low, old_last) = (writer.low(), writer.last());
                if is_low {
                    writer.set_fences(old_low.min(edge), old_last);
                } else {
                    writer.set_fences(old_low, old_last.max(edge));
                }
                let count = writer.count();
                if writer.level() == 0 || count == 0 {
                    writer.finish();
                    break;
                }
                let at = if is_low { 0 } else { count - 1 };
                if is_low {
                    let child = writer.node().child(0);
                    writer.replace(0, Entry::child(writer.low(), child));
                }
                let child = self.node(writer.node().child(at).index).lock();
                writer.finish();
                writer = child;
            }
        }
        Ok(())
    }

    /// Moves the bounds inwards and removes the entries outside. New bounds beyond the old ones
    /// change nothing on that side. Tree nodes outside end their epochs before this returns: no
    /// remote reader accepts one of them as live, even with a pointer to it. No thread may write a
    /// key outside the new bounds meanwhile; such a write could be lost.
    ///
    /// Pins do not prevent this: holders of pointers to tree nodes whose keys are given away find
    /// them free, or with a higher low fence.
    ///
    /// # Errors
    /// If nothing would be left: `low` is above `last`, or both are outside the old bounds.
    pub fn shrink(&self, low: u64, last: u64) -> Result<(), TreeError> {
        check_bounds(low, last)?;
        let (old_low, old_last) = self.bounds();
        if low > old_last || last < old_low {
            return Err(TreeError::OutOfBounds {
                key: low,
                low: old_low,
                last: old_last,
            });
        }
        if last < old_last {
            self.cut_edge(last, false);
        }
        if low > old_low {
            self.cut_edge(low, true);
        }
        Ok(())
    }

    /// Cuts off the keys below (`is_low`) or above `edge`; `edge` itself stays.
    fn cut_edge(&self, edge: u64, is_low: bool) {
        let mut outside: Vec<NodePointer> = Vec::new();
        let mut writer = self.node(ROOT).lock();
        loop {
            let (low, last) = (writer.low(), writer.last());
            if is_low {
                writer.set_fences(edge, last);
            } else {
                writer.set_fences(low, edge);
                writer.set_next(NodePointer::NONE);
            }
            let count = writer.count();
            if writer.level() == 0 {
                let node = writer.node();
                let gone = if is_low {
                    writer.remove_front(node.lower_bound(count, edge))
                } else {
                    let above = node.lower_bound(count, edge);
                    let kept = above + usize::from(above < count && node.key(above) == edge);
                    writer.truncate(kept)
                };
                writer.finish();
                self.free_values(&gone);
                break;
            }
            let at = writer.node().child_index(count, edge);
            let child = self.node(writer.node().child(at).index);
            let gone = if is_low {
                let gone = writer.remove_front(at);
                writer.replace(0, Entry::child(edge, child.pointer()));
                gone
            } else {
                writer.truncate(at + 1)
            };
            outside.extend(gone.iter().map(|entry| NodePointer::from_word(entry.value)));
            let next = child.lock();
            writer.finish();
            writer = next;
        }
        while let Some(pointer) = outside.pop() {
            let mut writer = self.node(pointer.index).lock();
            let entries = writer.truncate(0);
            if writer.level() == 0 {
                self.free_node(writer);
                self.free_values(&entries);
            } else {
                outside.extend(
                    entries
                        .iter()
                        .map(|entry| NodePointer::from_word(entry.value)),
                );
                self.free_node(writer);
            }
        }
    }

    fn free_values(&self, entries: &[Entry]) {
        for entry in entries.iter().filter(|entry| entry.is_reference) {
            let reference = ValueRef::from_word(entry.value);
            self.inner.heap.free(&self.inner.arena, reference);
        }
    }
}

fn check_bounds(low: u64, last: u64) -> Result<(), TreeError> {
    if low > last {
        return Err(TreeError::Config {
            setting: "low",
            value: low,
            reason: "above the last key of the tree",
        });
    }
    Ok(())
}
