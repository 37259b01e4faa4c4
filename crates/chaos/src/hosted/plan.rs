//! The plan that a seed makes for a hosted rack: its links, and the faults of its processes over
//! time.

use rackweave_base::Rng;
use rackweave_rack::RackConfig;
use rackweave_rack::config::{HostedSection, LinkKind, SecurityKind};
use std::fmt;
use std::time::Duration;

/// Heartbeats are more frequent than by default, so that a seed takes seconds.
const HEARTBEAT_MS: u64 = 50;
/// Milliseconds of silence after which a process counts as dead.
pub const DEAD_AFTER_MS: u64 = 1000;

/// Programs that join the rack.
pub const PROGRAMS: u16 = 3;

/// Maximum number of faults of a seed.
const FAULTS_MAX: u64 = 3;

/// Milliseconds between faults, from the start of the programs.
const GAP_MS: (u64, u64) = (50, 700);

/// Milliseconds for which a process is stopped or cut off: from unnoticed to declared dead.
const STOP_MS: (u64, u64) = (50, 2200);

/// The same for a leader that etcd may replace meanwhile, and for etcd.
const LEADER_STOP_MS: (u64, u64) = (50, 6000);

/// Milliseconds after which etcd elects another leader.
const LEASE_MS: u64 = 1000;

/// Milliseconds for which a program is stopped unnoticed.
const PAUSE_MS: (u64, u64) = (20, DEAD_AFTER_MS / 2);

/// Milliseconds for which a process is absent.
const ABSENT_MS: (u64, u64) = (0, 400);

/// Probability that a fault of a node hinders other nodes.
const HINDERS: f64 = 0.5;

/// Milliseconds for which a slow node is stopped at a time: it replies just before it counts as
/// dead.
const SLOW_MS: (u64, u64) = (700, 900);

/// The kinds of links that need no privileges.
const LINKS: [LinkKind; 3] = [LinkKind::SharedMemory, LinkKind::Unix, LinkKind::Udp];

/// One in this many racks has keys, which only affect the start.
const TLS_EVERY: u64 = 4;

/// Packet loss probability, on some of the racks whose links may lose packets.
const LOSS: f64 = 0.005;

/// How the switch process that leads is elected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Election {
    /// There is only one.
    Alone,
    /// By the lock on a file: it has a standby.
    Lock,
    /// By etcd: it has a standby.
    Etcd,
}

/// The target of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Victim {
    /// The switch's process that leads.
    Switch,
    /// The other one.
    Standby,
    /// The etcd server.
    Etcd,
    /// A node's process.
    Node(usize),
    /// A program.
    Program(u16),
}

/// The kind of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// SIGKILL, and a restart after this time.
    Kill(Duration),
    /// SIGSTOP, and SIGCONT after this time.
    Stop(Duration),
    /// Cut off from the controller for this time; the switch's process: from etcd.
    Cut(Duration),
    /// Killed, and restarted without its data; after this time the same with its data: etcd.
    Forget(Duration),
    /// Requested to end, and restarted after this time.
    Restart(Duration),
    /// A program gets SIGSTOP until it is declared dead, then SIGCONT, after this time SIGKILL, and
    /// a restart.
    Freeze(Duration),
    /// A program gets SIGSTOP until it is declared dead, then SIGCONT, and learns of its death
    /// after this time.
    Wake(Duration),
    /// SIGSTOP, and SIGCONT only after another node has been killed, restarted and used.
    Stall(Bystander),
    /// As `Stall`, but repeatedly stopped for this long and briefly continued.
    Slow(Bystander, Duration),
}

/// A healthy node that is killed and restarted while another one hinders the rack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bystander {
    /// Its number in the configuration.
    pub node: usize,
    /// How long it is absent.
    pub absent: Duration,
}

/// One fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Time after the end of the preceding fault.
    pub after: Duration,
    /// Its target.
    pub victim: Victim,
    /// Its kind.
    pub deed: Deed,
}

/// A rack and its faults.
#[derive(Clone, Debug)]
pub struct HostedPlan {
    /// The seed.
    pub seed: u64,
    /// The configuration without folder and addresses, which every run chooses anew.
    pub config: RackConfig,
    /// How its leader is elected.
    pub election: Election,
    /// Faults, one after another.
    pub faults: Vec<Fault>,
}

impl HostedPlan {
    /// The plan of a seed. A `template` determines links, security and the standby.
    pub fn new(seed: u64, template: Option<&RackConfig>, has_etcd: bool) -> Self {
        let mut rng = Rng::new(seed);
        let (mut config, mut election) = match template {
            Some(template) => (template.clone(), Election::of(&template.hosted())),
            None => {
                let elections = [Election::Alone, Election::Lock, Election::Etcd];
                let election = *rng.fork("election").pick(&elections);
                (drawn(seed, &mut rng.fork("rack")), election)
            }
        };
        if election == Election::Etcd && !has_etcd {
            election = Election::Lock;
        }
        config.hosted = Some(HostedSection {
            heartbeat_ms: HEARTBEAT_MS,
            dead_after_ms: DEAD_AFTER_MS,
            lease_ms: LEASE_MS,
            ..config.hosted()
        });
        let mut rng = rng.fork("faults");
        let count = rng.between(1, FAULTS_MAX);
        let nodes = config.residents().count() as u64;
        let drawn = (0..count).map(|_| Fault::drawn(&mut rng, nodes, election));
        Self {
            seed,
            config,
            election,
            faults: drawn.collect(),
        }
    }
}

impl Election {
    fn of(hosted: &HostedSection) -> Self {
        match &hosted.standby {
            None => Self::Alone,
            Some(_) if hosted.etcd.is_empty() => Self::Lock,
            Some(_) => Self::Etcd,
        }
    }

    /// The processes that are victims beside nodes and programs. The leader is one most often.
    fn victims(self) -> &'static [Victim] {
        use Victim::{Etcd, Standby, Switch};
        match self {
            Self::Alone => &[Switch],
            Self::Lock => &[Switch, Switch, Standby],
            Self::Etcd => &[Switch, Switch, Switch, Standby, Etcd, Etcd],
        }
    }
}

/// The default hosted rack with one kind of link. Kinds alternate, so that a few seeds cover all.
fn drawn(seed: u64, rng: &mut Rng) -> RackConfig {
    let mut config = RackConfig::hosted_default();
    let link = LINKS[(seed % LINKS.len() as u64) as usize];
    if link == LinkKind::Udp && rng.chance(0.5) {
        config.faults.loss = LOSS;
    }
    let security = if seed.is_multiple_of(TLS_EVERY) {
        SecurityKind::Tls
    } else {
        SecurityKind::Plain
    };
    config.hosted = Some(HostedSection {
        link,
        security,
        ..HostedSection::default()
    });
    config
}

impl Fault {
    fn drawn(rng: &mut Rng, nodes: u64, election: Election) -> Self {
        let mut span = |(low, high)| Duration::from_millis(rng.between(low, high));
        let (after, stopped, absent) = (span(GAP_MS), span(STOP_MS), span(ABSENT_MS));
        let (slow, leader_stopped) = (span(SLOW_MS), span(LEADER_STOP_MS));
        let (pause, others) = (span(PAUSE_MS), nodes.div_ceil(2));
        let victim = match rng.below(2 * nodes + others) {
            at if at < nodes => Victim::Node(at as usize),
            at if at < nodes + others => *rng.pick(election.victims()),
            _ => Victim::Program(rng.below(PROGRAMS.into()) as u16),
        };
        let deed = match victim {
            Victim::Node(at) if nodes > 1 && rng.chance(HINDERS) => {
                let others = rng.between(1, nodes - 1);
                let node = (at + others as usize) % nodes as usize;
                let bystander = Bystander { node, absent };
                *rng.pick(&[Deed::Stall(bystander), Deed::Slow(bystander, slow)])
            }
            Victim::Program(_) => *rng.pick(&[
                Deed::Kill(absent),
                Deed::Stop(pause),
                Deed::Freeze(absent),
                Deed::Wake(absent),
                Deed::Restart(absent),
            ]),
            Victim::Node(_) => *rng.pick(&[
                Deed::Kill(absent),
                Deed::Stop(stopped),
                Deed::Cut(stopped),
                Deed::Restart(absent),
            ]),
            Victim::Switch if election == Election::Etcd => *rng.pick(&[
                Deed::Kill(absent),
                Deed::Stop(leader_stopped),
                Deed::Cut(leader_stopped),
                Deed::Restart(absent),
            ]),
            Victim::Switch => *rng.pick(&[
                Deed::Kill(absent),
                Deed::Kill(absent),
                Deed::Stop(stopped),
                Deed::Restart(absent),
            ]),
            Victim::Standby => *rng.pick(&[
                Deed::Kill(absent),
                Deed::Stop(leader_stopped),
                Deed::Restart(absent),
            ]),
            Victim::Etcd => *rng.pick(&[
                Deed::Kill(absent),
                Deed::Stop(leader_stopped),
                Deed::Forget(leader_stopped),
                Deed::Forget(leader_stopped),
            ]),
        };
        Self {
            after,
            victim,
            deed,
        }
    }
}

/// The name of a program's process.
pub fn program_name(program: u16) -> String {
    format!("program{program}")
}

impl fmt::Display for HostedPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosted = self.config.hosted();
        let security = match hosted.security {
            SecurityKind::Tls => "TLS",
            SecurityKind::Plain => "plain",
        };
        write!(f, "{} links", hosted.link.name())?;
        if self.config.faults.any() {
            write!(f, " with faults")?;
        }
        write!(f, ", {security}")?;
        match self.election {
            Election::Alone => {}
            Election::Lock => write!(f, ", a standby")?,
            Election::Etcd => write!(f, ", a standby by etcd")?,
        }
        for Fault {
            after,
            victim,
            deed,
        } in &self.faults
        {
            let name = |at: usize| self.config.node[at].name.as_str();
            let whom = match *victim {
                Victim::Switch => "the switch".to_owned(),
                Victim::Standby => "the standby".to_owned(),
                Victim::Etcd => "etcd".to_owned(),
                Victim::Node(at) => name(at).to_owned(),
                Victim::Program(at) => program_name(at),
            };
            let (what, then, span) = match *deed {
                Deed::Kill(span) => (format!("kill {whom}"), "start", span),
                Deed::Stop(span) => (format!("stop {whom}"), "continue", span),
                Deed::Cut(span) => (format!("cut off {whom}"), "mend it", span),
                Deed::Restart(span) => (format!("end {whom}"), "start", span),
                Deed::Forget(span) => (format!("empty {whom}"), "give back its data", span),
                Deed::Freeze(span) => (format!("freeze {whom}"), "kill and start", span),
                Deed::Wake(span) => (format!("freeze {whom} and wake it"), "mend it", span),
                Deed::Stall(Bystander { node, absent }) => {
                    let what = format!("stall {whom} and kill {}", name(node));
                    (what, "start it", absent)
                }
                Deed::Slow(Bystander { node, absent }, stopped) => {
                    let stopped = stopped.as_millis();
                    let what = format!("slow {whom} by {stopped} ms and kill {}", name(node));
                    (what, "start it", absent)
                }
            };
            let (after, span) = (after.as_millis(), span.as_millis());
            write!(f, "; after {after} ms {what}, {then} after {span} ms")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
