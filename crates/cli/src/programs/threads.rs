//! Groups of programs, in real time each on its own thread.

use super::{OwnRack, Program, RealRack, Session};
use crate::globals::Globals;
use crate::outcome::CliError;
use crate::programs::Wish;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use rackweave_base::{Duration, NodeId};

/// Programs with their nodes.
pub type Group<P> = Vec<(NodeId, P)>;

/// What a run does besides its programs.
pub struct Watch<'a> {
    /// Has the user's interrupt flag.
    pub globals: &'a Globals,
    /// What to do on an interrupt.
    pub if_interrupted: Wish,
    /// Virtual time between two checks of the programs.
    pub slice: Duration,
    /// Virtual time in which programs must make progress; without it they may wait for ever.
    pub idle_max: Option<Duration>,
    /// Called periodically with the progress of the programs, and the time.
    pub progress: &'a mut dyn FnMut(u64, u64),
}

impl<'a> Watch<'a> {
    /// A watch of programs that may wait for ever.
    pub fn new(
        globals: &'a Globals,
        if_interrupted: Wish,
        slice: Duration,
        progress: &'a mut dyn FnMut(u64, u64),
    ) -> Self {
        Self {
            globals,
            if_interrupted,
            slice,
            idle_max: None,
            progress,
        }
    }
}

/// Runs groups of programs: in real time each on its own thread, the last one on this thread; in
/// virtual time all together. The programs are returned in any case, in order.
pub fn run<P: Program + Send + 'static>(
    rack: &mut OwnRack,
    groups: Vec<Group<P>>,
    watch: &mut Watch<'_>,
) -> (Vec<P>, Result<(), CliError>) {
    match rack {
        OwnRack::Real(rack) if groups.len() > 1 => in_threads(rack, groups, watch),
        rack => {
            let mut session = Session::new(rack, watch.slice);
            for (node, program) in groups.into_iter().flatten() {
                session.add(node, program);
            }
            let (interrupt, if_interrupted) = (&watch.globals.interrupt, watch.if_interrupted);
            let wish = || match interrupt.is_set() {
                true => if_interrupted,
                false => Wish::GoOn,
            };
            let ran = session.run(wish, watch.idle_max, &mut watch.progress);
            (session.into_programs(), ran)
        }
    }
}

/// As [`run`] in real time, without progress reports.
pub fn drive<P: Program + Send + 'static>(
    rack: &RealRack,
    groups: Vec<Group<P>>,
    if_interrupted: Wish,
    globals: &Globals,
) -> (Vec<P>, Result<(), CliError>) {
    let mut silent = |_, _| {};
    let mut watch = Watch::new(globals, if_interrupted, Duration::ZERO, &mut silent);
    run(&mut rack.clone().into(), groups, &mut watch)
}

/// A program that fails ends all others; a group that only serves ends with the last other group.
fn in_threads<P: Program + Send + 'static>(
    rack: &RealRack,
    groups: Vec<Group<P>>,
    watch: &mut Watch<'_>,
) -> (Vec<P>, Result<(), CliError>) {
    let (has_failed, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let all_done: Vec<_> = groups.iter().map(|_| AtomicU64::new(0)).collect();
    let (interrupt, if_interrupted) = (&watch.globals.interrupt, watch.if_interrupted);
    let wish = |only_serves: bool| match interrupt.is_set() {
        _ if has_failed.load(Ordering::Relaxed) => Wish::Stop,
        _ if only_serves && is_over.load(Ordering::Relaxed) => Wish::Stop,
        true => if_interrupted,
        false => Wish::GoOn,
    };
    let work = |group: Group<P>, done: &AtomicU64, watch: &mut dyn FnMut(u64)| {
        let driver = rack.driver_of(group.iter().map(|(node, _)| *node));
        let only_serves = group.iter().all(|(_, program)| program.is_server());
        let mut session = Session::on_thread(rack, &*driver, group);
        let ran = session.run(
            || wish(only_serves),
            None,
            |now_done, now| {
                done.store(now_done, Ordering::Relaxed);
                watch(now);
            },
        );
        has_failed.fetch_or(ran.is_err(), Ordering::Relaxed);
        (session.into_programs(), ran)
    };
    let (work, all_done) = (&work, &all_done);
    std::thread::scope(|scope| {
        let mut groups: Vec<_> = groups.into_iter().zip(all_done).collect();
        let last = groups.pop();
        let start = |(group, done)| scope.spawn(move || work(group, done, &mut |_| {}));
        let threads: Vec<_> = groups.into_iter().map(start).collect();
        let here = last.map(|(group, done)| {
            work(group, done, &mut |now| {
                let done = all_done.iter().map(|done| done.load(Ordering::Relaxed));
                (watch.progress)(done.sum(), now);
            })
        });
        is_over.store(true, Ordering::Relaxed);
        let (mut programs, mut ran) = (Vec::new(), Ok(()));
        let panicked = || Err(CliError::run("a thread of the run panicked"));
        let joined = threads.into_iter();
        let joined = joined.map(|it| it.join().unwrap_or_else(|_| (Vec::new(), panicked())));
        for (its_programs, its) in joined.chain(here) {
            programs.extend(its_programs);
            ran = ran.and(its);
        }
        (programs, ran)
    })
}
