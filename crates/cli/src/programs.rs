//! Programs on the nodes of a rack of any kind. A program is written once, as turns; [`Session`]
//! takes the turns in real time or lets the simulator step them, [`run`] also on several threads.

mod rack;
mod session;
mod threads;

use crate::outcome::CliError;
use core::cell::{Cell, RefCell};
pub use rack::{OwnRack, RealRack};
use rackweave_base::{Duration, Qpn};
use rackweave_rack::Node;
use rackweave_sim::Category;
use rackweave_sim::world::Context;
use rackweave_verbs::{Completion, CqId, PostError, Progress, ReceiveRequest, Verbs, WorkRequest};
pub use session::{Advance, Session};
use std::rc::Rc;
use std::time::Instant;
pub use threads::{Group, Watch, drive, run};

/// The result of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// There was progress, and more may follow at once.
    Moved,
    /// Nothing is left to do until something arrives.
    Waits {
        /// Whether there was progress before that.
        moved: bool,
    },
    /// There was progress, which takes a modelled core this long.
    Worked(Duration),
    /// Nothing is left to do until this many nanoseconds since the start.
    Sleeps(u64),
    /// The program has ended.
    Ended,
}

/// Nothing progressed, and nothing will before something arrives.
pub const WAITS: Turn = Turn::Waits { moved: false };

/// A program of a node. It has no clock, thread or rack of its own.
pub trait Program {
    /// Does what is possible now.
    ///
    /// # Errors
    /// If an error occurred that ends the whole run.
    fn turn(&mut self, port: &mut Port<'_, '_>) -> Result<Turn, CliError>;

    /// Begins nothing new from now on, and completes pending operations.
    fn finish(&mut self) {}

    /// Its progress so far, in its own units.
    fn done(&self) -> u64 {
        0
    }

    /// Whether it serves others, and so never ends by itself.
    fn is_server(&self) -> bool {
        false
    }

    /// Whether the rack may stop after its end, because everything that it sent has arrived.
    fn is_settled(&mut self) -> bool {
        true
    }
}

impl<P: Program> Program for Rc<RefCell<P>> {
    fn turn(&mut self, port: &mut Port<'_, '_>) -> Result<Turn, CliError> {
        self.borrow_mut().turn(port)
    }

    fn finish(&mut self) {
        self.borrow_mut().finish();
    }

    fn done(&self) -> u64 {
        self.borrow().done()
    }

    fn is_server(&self) -> bool {
        self.borrow().is_server()
    }

    fn is_settled(&mut self) -> bool {
        self.borrow_mut().is_settled()
    }
}

/// A program at one of two different ends.
pub enum End<S, T> {
    /// The end that sends data, or replies to requests.
    Source(S),
    /// The end that receives data, or sends requests.
    Sink(T),
}

impl<S, T> End<S, T> {
    /// The program at the source, if it is one.
    pub fn source(&self) -> Option<&S> {
        match self {
            Self::Source(program) => Some(program),
            Self::Sink(_) => None,
        }
    }

    /// The program at the sink, if it is one.
    pub fn sink(&self) -> Option<&T> {
        match self {
            Self::Source(_) => None,
            Self::Sink(program) => Some(program),
        }
    }
}

impl<S: Program, T: Program> End<S, T> {
    fn program(&self) -> &dyn Program {
        match self {
            Self::Source(program) => program,
            Self::Sink(program) => program,
        }
    }

    fn program_mut(&mut self) -> &mut dyn Program {
        match self {
            Self::Source(program) => program,
            Self::Sink(program) => program,
        }
    }
}

impl<S: Program, T: Program> Program for End<S, T> {
    fn turn(&mut self, port: &mut Port<'_, '_>) -> Result<Turn, CliError> {
        self.program_mut().turn(port)
    }

    fn finish(&mut self) {
        self.program_mut().finish();
    }

    fn done(&self) -> u64 {
        self.program().done()
    }

    fn is_server(&self) -> bool {
        self.program().is_server()
    }

    fn is_settled(&mut self) -> bool {
        self.program_mut().is_settled()
    }
}

/// Real time since the start of a run. All programs of a round share one reading.
#[derive(Debug)]
pub struct RoundClock {
    start: Instant,
    round: Cell<Option<u64>>,
}

impl RoundClock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
            round: Cell::new(None),
        }
    }

    /// Nanoseconds since the start, as first read in this round.
    pub fn now(&self) -> u64 {
        self.round.get().unwrap_or_else(|| {
            let now = Clock::Real(self.start).now();
            self.round.set(Some(now));
            now
        })
    }

    fn next_round(&self) {
        self.round.set(None);
    }
}

/// A clock that can be read at any time.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// Real time since a start.
    Real(Instant),
    /// Virtual nanoseconds, which stand still during a turn.
    Virtual(u64),
}

impl Clock {
    /// Nanoseconds since the start.
    pub fn now(self) -> u64 {
        match self {
            Self::Real(start) => start.elapsed().as_nanos() as u64,
            Self::Virtual(now) => now,
        }
    }
}

/// A program's access to its node during a turn.
pub enum Port<'p, 'c> {
    /// A node of a rack in this process.
    Node(&'p Node, &'p RoundClock),
    /// A node of a simulated rack.
    Actor(&'p mut Context<'c>),
}

impl<'p> Port<'p, '_> {
    /// The node of a rack in this process, for state machines that post by themselves.
    ///
    /// # Errors
    /// If time is virtual.
    pub fn node(&self) -> Result<&'p Node, CliError> {
        match self {
            Self::Node(node, _) => Ok(node),
            _ => Err(CliError::run("this runs on embedded racks alone")),
        }
    }

    /// Nanoseconds since the start, one reading of the clock for all programs of a round.
    pub fn now(&self) -> u64 {
        match self {
            Self::Node(_, clock) => clock.now(),
            Self::Actor(context) => context.now().as_nanos(),
        }
    }

    /// The clock, to be read after acquiring the NIC, which may take a while.
    pub fn clock(&self) -> Clock {
        match self {
            Self::Node(_, clock) => Clock::Real(clock.start),
            Self::Actor(context) => Clock::Virtual(context.now().as_nanos()),
        }
    }

    /// Acts on the NIC and makes sure that posted work is started.
    ///
    /// # Errors
    /// Those of `act`.
    pub fn act<R>(
        &mut self,
        act: impl FnOnce(&mut Queue<'_, '_>) -> Result<R, CliError>,
    ) -> Result<R, CliError> {
        match self {
            Self::Node(node, _) => node.with(|nic| act(&mut Queue::Nic(nic))),
            Self::Actor(context) => act(&mut Queue::Actor(context)),
        }
    }
}

/// What accepts work requests: a NIC, or an actor's view of one that charges for them.
pub enum Queue<'q, 'c> {
    /// In real time.
    Nic(&'q mut dyn Verbs),
    /// In virtual time.
    Actor(&'q mut Context<'c>),
}

impl Queue<'_, '_> {
    /// As `Verbs::post_send`.
    pub fn post_send(&mut self, qpn: Qpn, request: WorkRequest) -> Result<(), PostError> {
        match self {
            Self::Nic(nic) => nic.post_send(qpn, request),
            Self::Actor(context) => context.post_send(qpn, request),
        }
    }

    /// As `Verbs::post_receive`.
    pub fn post_receive(&mut self, qpn: Qpn, request: ReceiveRequest) -> Result<(), PostError> {
        match self {
            Self::Nic(nic) => nic.post_receive(qpn, request),
            Self::Actor(context) => {
                let cost = context.cpu().post_cost;
                context.charge(Category::Communication, cost);
                Verbs::post_receive(context.nic(), qpn, request)
            }
        }
    }

    /// As `Verbs::poll_cq`.
    pub fn poll_cq(&mut self, cq: CqId, limit: usize, into: &mut Vec<Completion>) -> usize {
        match self {
            Self::Nic(nic) => nic.poll_cq(cq, limit, into),
            Self::Actor(context) => context.poll_cq(cq, limit, into),
        }
    }
}

/// The state of a waiting thread.
pub struct Patience<'a> {
    driver: &'a dyn Progress,
    idle_rounds: u32,
}

/// A request to the runner of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Continue.
    GoOn,
    /// Begin nothing new, and complete pending operations.
    Finish,
    /// Stop at once.
    Stop,
}

impl<'a> Patience<'a> {
    /// A thread that has not waited yet.
    pub fn new(driver: &'a dyn Progress) -> Self {
        Self {
            driver,
            idle_rounds: 0,
        }
    }

    /// Drives the rack, and rests if neither the rack nor, as `moved` says, the caller progressed.
    pub fn wait(&mut self, moved: bool) {
        // The rack is driven in any case.
        if self.driver.drive() | moved {
            self.idle_rounds = 0;
        } else {
            self.driver.relax(self.idle_rounds);
            self.idle_rounds = self.idle_rounds.saturating_add(1);
        }
    }

    /// Resets the idle state, because the caller progressed.
    pub fn reset(&mut self) {
        self.idle_rounds = 0;
    }
}
