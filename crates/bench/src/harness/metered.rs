//! Verbs that account for their cost on a core, and can hold back posted work until the core has
//! finished its turn.

use super::drive::{Failure, Program, Turn};
use rackweave_base::{Block, Duration, Instant, Qpn};
use rackweave_sim::world::{Context, Step};
use rackweave_sim::{Category, CpuModel};
use rackweave_verbs::{
    Access, Completion, CqError, CqId, ModifyError, PdId, PostError, QpCapabilities, QpError,
    QpModify, QpState, ReceiveRequest, Region, RegisterError, Verbs, WorkRequest,
};

/// The cost of verbs on a core. A poll that finds nothing is free, since the simulator lets cores
/// spin.
pub trait Toll {
    /// For posting this many work requests together; at least one.
    fn posts(&self, requests: usize) -> Duration;

    /// For posting a receive.
    fn receives(&self) -> Duration;

    /// For taking a completion.
    fn takes(&self, completion: &Completion) -> Duration;
}

/// Work requests posted in a turn: they reach the NIC when the turn is over.
#[derive(Debug, Default)]
pub struct Outbox(Vec<(Qpn, WorkRequest)>);

impl Outbox {
    /// Ends the turn.
    pub fn flush(&mut self, verbs: &mut dyn Verbs) -> Result<(), String> {
        for (qpn, request) in self.0.drain(..) {
            let posted = verbs.post_send(qpn, request);
            posted.map_err(|error| format!("a request was not taken: {error}"))?;
        }
        Ok(())
    }
}

/// The cost of a turn apart from the verbs, and when the program wants another turn even if nothing
/// happens; none if it has ended. Or what is wrong.
pub type Worked = Result<Option<(Duration, Option<Instant>)>, Failure>;

/// A program on a core, of turns whose verbs cost `toll`, and whose work requests leave when the
/// turn is over.
pub fn on_core<T: Toll + Copy>(
    toll: T,
    mut work: impl FnMut(Instant, &mut Metered<'_, T>) -> Worked,
) -> impl Program {
    let mut outbox = Outbox::default();
    move |context: &mut Context<'_>| -> Turn {
        let now = context.now();
        outbox.flush(context.nic())?;
        let mut verbs = Metered::with(context.nic(), Some(&mut outbox), toll);
        let worked = work(now, &mut verbs);
        let communication = verbs.spent();
        context.charge(Category::Communication, communication);
        let Some((compute, timeout)) = worked? else {
            return Ok(Step::Done);
        };
        context.charge(Category::Compute, compute);
        Ok(after(communication + compute, timeout))
    }
}

/// The step after a turn that took `spent`: if the core did anything, it continues as soon as that
/// time is over; otherwise it waits.
pub fn after(spent: Duration, timeout: Option<Instant>) -> Step {
    match timeout {
        _ if spent > Duration::ZERO => Step::Compute(Duration::ZERO),
        Some(at) => Step::WaitUntil(at),
        None => Step::WaitForPacket,
    }
}

/// A node's verbs, and the time that the core using them has spent.
pub struct Metered<'a, T = CpuModel> {
    verbs: &'a mut dyn Verbs,
    /// Holds work requests until the end of the turn; without it they reach the NIC at once.
    outbox: Option<&'a mut Outbox>,
    toll: T,
    spent: Duration,
}

impl<'a, T: Toll> Metered<'a, T> {
    /// Nothing is spent yet. Work requests go to `outbox`, if there is one.
    pub fn with(verbs: &'a mut dyn Verbs, outbox: Option<&'a mut Outbox>, toll: T) -> Self {
        Self {
            verbs,
            outbox,
            toll,
            spent: Duration::ZERO,
        }
    }

    /// The time that the core has spent.
    pub fn spent(&self) -> Duration {
        self.spent
    }

    /// Charges the core for something other than a verb.
    pub fn pay(&mut self, cost: impl FnOnce(&T) -> Duration) {
        self.spent += cost(&self.toll);
    }
}

impl<'a> Metered<'a> {
    /// Verbs whose core has spent nothing yet; work requests reach the NIC at once.
    pub fn new(verbs: &'a mut dyn Verbs, cpu: CpuModel) -> Self {
        Self::with(verbs, None, cpu)
    }

    /// Charges for a completion that no queue shows: a word that the switch has written.
    pub fn word_taken(&mut self) {
        self.pay(|cpu| cpu.poll_cost);
    }
}

/// A constant per posted work request and per taken completion.
impl Toll for CpuModel {
    fn posts(&self, requests: usize) -> Duration {
        self.post_cost * requests as u64
    }

    fn receives(&self) -> Duration {
        self.post_cost
    }

    fn takes(&self, _completion: &Completion) -> Duration {
        self.poll_cost
    }
}

/// Verbs that cost nothing.
macro_rules! forwarded {
    ($(fn $name:ident(&mut self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        $(fn $name(&mut self $(, $argument: $type)*) $(-> $result)? {
            self.verbs.$name($($argument),*)
        })*
    };
}

impl<T: Toll> Verbs for Metered<'_, T> {
    forwarded! {
        fn create_pd(&mut self) -> PdId;
        fn register(
            &mut self, pd: PdId, block: Block, access: Access
        ) -> Result<Region, RegisterError>;
        fn create_cq(&mut self, capacity: u32) -> Result<CqId, CqError>;
        fn destroy_cq(&mut self, cq: CqId) -> Result<(), CqError>;
        fn create_qp(
            &mut self, pd: PdId, send_cq: CqId, receive_cq: CqId, capabilities: QpCapabilities
        ) -> Result<Qpn, QpError>;
        fn modify_qp(&mut self, qpn: Qpn, modify: QpModify) -> Result<(), ModifyError>;
        fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), QpError>;
        fn read_by_reference(&mut self, qpn: Qpn);
        fn keep_to_switch(&mut self, qpn: Qpn);
    }

    fn deregister(&mut self, region: &Region) -> bool {
        self.verbs.deregister(region)
    }

    fn qp_state(&self, qpn: Qpn) -> Option<QpState> {
        self.verbs.qp_state(qpn)
    }

    fn post_send(&mut self, qpn: Qpn, request: WorkRequest) -> Result<(), PostError> {
        match &mut self.outbox {
            Some(outbox) => outbox.0.push((qpn, request)),
            None => self.verbs.post_send(qpn, request)?,
        }
        self.spent += self.toll.posts(1);
        Ok(())
    }

    fn post_sends(&mut self, qpn: Qpn, requests: &[WorkRequest]) -> Result<(), (usize, PostError)> {
        let result = match &mut self.outbox {
            Some(outbox) => {
                let held = requests.iter().map(|&request| (qpn, request));
                outbox.0.extend(held);
                Ok(())
            }
            None => self.verbs.post_sends(qpn, requests),
        };
        let posted = match result {
            Ok(()) => requests.len(),
            Err((posted, _)) => posted,
        };
        if posted > 0 {
            self.spent += self.toll.posts(posted);
        }
        result
    }

    fn post_receive(&mut self, qpn: Qpn, request: ReceiveRequest) -> Result<(), PostError> {
        self.verbs.post_receive(qpn, request)?;
        self.spent += self.toll.receives();
        Ok(())
    }

    fn poll_cq(&mut self, cq: CqId, limit: usize, completions: &mut Vec<Completion>) -> usize {
        let before = completions.len();
        let count = self.verbs.poll_cq(cq, limit, completions);
        for completion in &completions[before..] {
            self.spent += self.toll.takes(completion);
        }
        count
    }
}
