//! One lock that spins, taken by a thread on each core, for ever so often: what `raddle sim --machine epyc --cores 128`
//! has of Hurricane's section 4.1. (Its own figures, on processors without threads, are [`crate::hurricane`]'s.)

use super::Arguments;
use crate::hurricane::clusters::{Asked, LOADS, System};
use crate::machine::Controlled;
use crate::threads::{compute, spawn};
use raddle_scheduler::lock::{
    Algorithm, Cna, H1Mcs, H2Mcs, Hemlock, Lock, Mcs, Place, Reciprocating, Spin, SpinThenQueue, SwapH1Mcs, SwapH2Mcs,
    SwapMcs,
};
use raddle_scheduler::lock::{Change, Protocol, Ways};
use std::rc::Rc;

/// What the number of a lock means, in order.
pub(super) const ABOUT: &str = "0 spin, 1 spin with a look first, 2 MCS, 3 H1-MCS, 4 H2-MCS, 5 to 7 these by swaps \
                                alone, 8 Hemlock, 9 CNA, 10 Reciprocating, 11 spin, then queue";
pub(super) const LAST: u64 = 11;

/// Cores to a cluster of CNA.
const CLUSTER: usize = 4;

fn turns<A: Algorithm<Controlled> + 'static>(
    arguments: &Arguments,
    algorithm: A,
    place: fn(usize) -> Place<A, Controlled>,
) {
    let [threads, total, hold, think] = ["t", "total", "hold", "think"].map(|name| arguments.of(name));
    let lock = Rc::new(Lock::<(), A, Controlled>::with_algorithm(algorithm, ()));
    for thread in 0..threads {
        let (lock, count) = (lock.clone(), total / threads + u64::from(thread < total % threads));
        // A thread never leaves its core while it waits or holds, so who is in the queue runs.
        spawn(move || {
            let mut place = place(thread as usize);
            for _ in 0..count {
                lock.with_place(&mut place, |()| compute(hold));
                compute(think);
            }
        });
    }
}

fn any<A: Algorithm<Controlled>>(_: usize) -> Place<A, Controlled> {
    Place::new()
}

pub(super) fn locks(arguments: &Arguments) {
    let [cap, patience] = ["cap", "patience"].map(|name| arguments.of(name).clamp(1, u64::from(u32::MAX)) as u32);
    match arguments.of("lock") {
        0 => turns(arguments, Spin::<_, false, true>::with_caps(1, cap), any),
        1 => turns(arguments, Spin::<_, true, false>::with_caps(1, cap), any),
        2 => turns(arguments, Mcs::new(), any),
        3 => turns(arguments, H1Mcs::new(), any),
        4 => turns(arguments, H2Mcs::new(), any),
        5 => turns(arguments, SwapMcs::new(), any),
        6 => turns(arguments, SwapH1Mcs::new(), any),
        7 => turns(arguments, SwapH2Mcs::new(), any),
        8 => turns(arguments, Hemlock::new(), any),
        9 => turns(arguments, <Cna<_>>::with_patience(patience), |thread| Place::in_cluster(thread / CLUSTER)),
        10 => turns(arguments, Reciprocating::new(), any),
        _ => turns(arguments, SpinThenQueue::<_, false>::new(), any),
    }
}

/// What the number of a load means, in order.
pub(super) const LOADS_ABOUT: &str = "0 faults on pages of one's own, 1 on the same pages, 2 copy-on-write faults, 3 ends of programs, \
                                      4 look-ups in a registry, one in a hundred a change, 5 messages, 6 a file server, 7 ends of programs and messages in one \
                                      record, 8 in two";

/// The loads of [`crate::hurricane::clusters`], a thread for each processor.
pub(super) fn faults(arguments: &Arguments) {
    let [threads, total, cluster, load] = ["t", "total", "cluster", "load"].map(|name| arguments.of(name));
    let [pages, work, call] = ["pages", "work", "call"].map(|name| arguments.of(name));
    let protocol = if arguments.of("protocol") == 0 { Protocol::Optimistic } else { Protocol::Pessimistic };
    let change = if arguments.of("change") == 0 { Change::Invalidate } else { Change::Broadcast };
    let system = Rc::new(System::<SwapH2Mcs<Controlled>>::new(Asked {
        load: LOADS[load as usize],
        processors: threads as usize,
        cluster: cluster as usize,
        turns: total.div_ceil(threads),
        pages,
        work,
        call,
        ways: Ways { protocol, change, moves_after: None },
    }));
    system.fill();
    for number in 0..threads as usize {
        let system = system.clone();
        spawn(move || system.process(number));
    }
}
