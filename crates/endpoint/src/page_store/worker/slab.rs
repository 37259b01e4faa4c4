//! Things under way, by a key that is never used twice.

/// A place and how often it was taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key {
    place: u32,
    turn: u32,
}

/// Things under way. Places are used again, so in the long run nothing is allocated.
#[derive(Debug)]
pub(super) struct Slab<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    pub fn insert(&mut self, value: T) -> Key {
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.places.push((0, None));
                self.places.len() as u32 - 1
            }
        };
        let (turn, content) = &mut self.places[place as usize];
        *content = Some(value);
        Key { place, turn: *turn }
    }

    #[inline]
    pub fn get(&self, key: Key) -> Option<&T> {
        let (turn, content) = self.places.get(key.place as usize)?;
        content.as_ref().filter(|_| *turn == key.turn)
    }

    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let (turn, content) = self.places.get_mut(key.place as usize)?;
        content.as_mut().filter(|_| *turn == key.turn)
    }

    pub fn remove(&mut self, key: Key) -> Option<T> {
        self.get(key)?;
        let (turn, content) = &mut self.places[key.place as usize];
        *turn = turn.wrapping_add(1);
        self.free.push(key.place);
        content.take()
    }

    pub fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.places
            .iter()
            .filter_map(|(_, content)| content.as_ref())
    }

    /// Keys of everything there is.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.places
            .iter()
            .enumerate()
            .filter_map(|(place, (turn, content))| {
                content.is_some().then_some(Key {
                    place: place as u32,
                    turn: *turn,
                })
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_good_once() {
        let mut slab = Slab::default();
        let first = slab.insert('a');
        let second = slab.insert('b');
        assert_eq!(slab.remove(first), Some('a'));
        assert_eq!((slab.remove(first), slab.get(first)), (None, None));
        let third = slab.insert('c');
        assert_ne!(third, first);
        assert_eq!(
            (slab.get(third), slab.get(second)),
            (Some(&'c'), Some(&'b'))
        );
        assert_eq!(slab.keys().count(), 2);
        assert!(!slab.is_empty());
    }
}
