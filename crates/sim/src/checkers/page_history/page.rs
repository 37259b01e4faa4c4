//! The history of one page: a sequence of states, each the newest for a while.

use super::{PageStamp, Who};
use core::fmt;
use rackweave_base::Instant;

/// The content of a page; `None`: it was never written.
pub(super) type Content = Option<PageStamp>;

/// A state of a page.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// `None` if it has not been seen yet: it is at least `least`.
    pub version: Option<u64>,
    pub least: u64,
    /// The possible contents: one, or several until it has been seen.
    pub contents: Vec<Content>,
    /// The writer; `None` for the home.
    pub writer: Option<Who>,
    /// Another worker has seen it, or its writer was notified that it was taken.
    pub certain: bool,
    /// Its writer died before it was certain: it may never have existed.
    pub doubtful: bool,
    /// Its writer died, and it is not known to have reached the home.
    pub may_be_lost: bool,
    /// The directory was rebuilt since: it may also be known by a higher version number.
    pub renumbered: bool,
}

/// The worker that has a page exclusively, and since when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    pub who: Who,
    pub version: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Page {
    pub states: Vec<State>,
    pub holder: Option<Holder>,
    /// When the last holder died whose latch no other worker has got since.
    pub orphaned: Option<Instant>,
    /// The oldest state that the home may have.
    pub home: usize,
    /// A node may be asked whether it has the newest state; no worker gets the page before it
    /// answers.
    pub in_doubt: bool,
    /// The reported loss that was not accepted yet.
    pub lost: Option<u64>,
    /// The newest states at the times of all reports.
    pub reported: Vec<usize>,
}

impl State {
    /// A state that has not been seen: at least this version, with one of these contents.
    pub fn unseen(least: u64, contents: Vec<Content>) -> Self {
        Self {
            version: None,
            least,
            contents,
            writer: None,
            certain: true,
            doubtful: false,
            may_be_lost: false,
            renumbered: false,
        }
    }

    pub fn matches(&self, version: u64, content: Content) -> bool {
        let version_fits = match self.version {
            Some(known) => known == version || self.renumbered && known < version,
            None => version >= self.least,
        };
        version_fits && self.contents.contains(&content)
    }

    /// Records that it has been seen.
    pub fn settle(&mut self, version: u64, content: Content) {
        self.version = Some(match self.version {
            Some(known) if self.renumbered => known.min(version),
            _ => version,
        });
        self.contents = vec![content];
        self.certain = true;
        self.doubtful = false;
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Some(version) => write!(f, "version {version}")?,
            None => write!(f, "some version from {} on", self.least)?,
        }
        match (self.writer, &self.contents[..]) {
            (Some(writer), _) => write!(f, " by {writer}")?,
            (None, [None]) => write!(f, ", never written")?,
            (None, contents) => write!(f, ", at home ({} contents)", contents.len())?,
        }
        match (self.doubtful, self.certain) {
            (true, _) => write!(f, ", perhaps"),
            (false, false) => write!(f, ", not seen yet"),
            (false, true) => Ok(()),
        }
    }
}

impl Page {
    pub fn new(first: State) -> Self {
        Self {
            states: vec![first],
            holder: None,
            orphaned: None,
            home: 0,
            in_doubt: false,
            lost: None,
            reported: Vec::new(),
        }
    }

    pub fn last(&self) -> usize {
        self.states.len() - 1
    }

    pub fn newest(&self) -> &State {
        &self.states[self.last()]
    }

    /// The newest certain state: no later request may get an older one.
    pub fn floor(&self) -> usize {
        let certain = self.states.iter().rposition(|state| state.certain);
        certain.unwrap_or(0)
    }

    /// The newest state was taken, if this node wrote it.
    pub fn taken(&mut self, node: u16) {
        if let Some(state) = self.states.last_mut()
            && state.writer.is_some_and(|writer| writer.node == node)
        {
            state.certain = true;
        }
    }

    /// The states since `floor` that may be the newest at some moment: also the second newest, as
    /// long as it is unknown whether the newest was taken.
    fn candidates(&self, floor: usize) -> core::ops::RangeInclusive<usize> {
        let last = self.last();
        let uncertain = !self.newest().certain || self.newest().doubtful;
        let from = if uncertain {
            last.saturating_sub(1)
        } else {
            last
        };
        floor.min(from)..=last
    }

    /// Whether the newest state may be a lost one of a dead node, or may have been at some time
    /// since `floor` was the newest.
    pub fn may_be_lost(&self, floor: usize) -> bool {
        self.candidates(floor).any(|at| self.states[at].may_be_lost)
    }

    /// Whether this version may be the lost one.
    pub fn may_be_lost_as(&self, version: u64) -> bool {
        self.candidates(self.last()).any(|at| {
            let state = &self.states[at];
            // A change that was about to be taken is lost with the version that it was made from.
            let fits = |known| {
                known == version
                    || state.doubtful && known == version + 1
                    // The version number of a state that no node has is unknown.
                    || state.renumbered
            };
            state.may_be_lost && state.version.is_none_or(fits)
        })
    }

    /// Records that a loss was reported, of the newest state at that time.
    pub fn report_lost(&mut self, version: u64) {
        self.lost = Some(version);
        self.reported.push(self.last());
    }

    /// Whether a loss was reported since `floor` was the newest.
    pub fn was_reported(&self, floor: usize) -> bool {
        let from = *self.candidates(floor).start();
        self.reported.iter().any(|&at| at >= from)
    }

    /// Whether this change of a living node was being published when the directory was rebuilt
    /// without knowing what all nodes had, and the page was reported as lost then: it may have been
    /// published before, and changed again by the unresponsive node.
    pub fn lost_on_its_way(&self, node: u16, version: u64) -> bool {
        let is_it = |state: &State| {
            let fits = state.version.is_none_or(|its| its == version);
            fits && state.writer.is_some_and(|who| who.node == node)
        };
        let at = self.states.iter().rposition(is_it);
        at.is_some_and(|at| {
            self.states[at].may_be_lost && self.reported.iter().any(|&last| last >= at)
        })
    }

    /// Records that state `at` was seen: it and everything before it are certain.
    pub fn seen(&mut self, at: usize, version: u64, content: Content) {
        self.in_doubt = false;
        self.states[at].settle(version, content);
        for state in &mut self.states[..at] {
            state.certain = true;
            state.doubtful = false;
        }
    }

    /// Drops a change hidden by its writer's death: it did not happen.
    pub fn drop_doubtful(&mut self) {
        if self.newest().doubtful && self.states.len() > 1 {
            self.states.pop();
            self.home = self.home.min(self.last());
        }
    }

    /// Records that the directory was lost and rebuilt. If it is `partial`, the newest state is
    /// unknown.
    pub fn renumber(&mut self, partial: bool) {
        let last = self.last();
        for state in &mut self.states[last.saturating_sub(1)..] {
            state.renumbered = true;
            state.may_be_lost |= partial;
        }
    }

    /// Continues the page from its home version, which is one of the states since `home`.
    pub fn rebase(&mut self, least: u64) {
        let mut contents: Vec<Content> = Vec::new();
        for state in &self.states[self.home..] {
            for content in &state.contents {
                if !contents.contains(content) {
                    contents.push(*content);
                }
            }
        }
        self.states.push(State::unseen(least, contents));
        self.home = self.last();
        self.lost = None;
    }
}
