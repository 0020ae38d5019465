//! `clustered(k, P)`: clusters of k processors, each under a policy P of its own; `clustered(P)`: of as many as share
//! the machine's last cache, or as its user groups them.
//!
//! Source: DESIGN of this project, after hierarchical clustering in the Hurricane papers and the MSc report *Effective
//! parallelism with OCaml schedulers*, section 7.1.1, which would fit neighbourhoods to the hierarchy of memory.
//!
//! Processors 0 to k-1 are a cluster, k to 2k-1 the next; the last may be smaller. A push goes to the pusher's own
//! cluster, and P decides there. A processor that finds nothing in its cluster visits the others, from the next one on,
//! those first that offer something: each has one place for a *visitor*, which takes part in its P like one more
//! processor, for one search, and brings home what it found and at most [`BROUGHT`] more. (With one thread a visit, a
//! processor whose thread yields for ever would keep to it, however many wait elsewhere; and if nearly all do that in
//! one cluster, its freeze stops them.) What its steal takes beyond them stays there, for everybody; the cluster's own
//! take one of these every [`ROUND`] selections, so that it runs though they never run dry. If the place is taken, the
//! visitor goes on to the next cluster.
//!
//! Threads from outside come through one inbox for all clusters, which every processor looks into when it runs dry and
//! every [`ROUND`] selections.
//!
//! Order, fairness, priorities: P's within a cluster; nothing between clusters but that nobody idles while another
//! cluster offers something. So with `clustered(k, priority(n, P))` a high thread of one cluster does not go before a
//! low one of another.
//!
//! Suits: machines whose cores share caches or memory in groups; very many processors, since what contends is as wide
//! as a cluster. Bad at: work that appears in one cluster in small pieces, such as a tree of threads (every other
//! cluster comes through one visitor's place), fairness and priorities across clusters. A ring cannot be cut, so P is
//! not `rotator`.
//!
//! A frozen processor strands what P strands; frozen on a visit, also the visits of others to that cluster, and for as
//! long processors that find nothing else keep looking instead of sleeping.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::policies::{self, Busy};
//! use raddle_scheduler::Policy;
//! let shape = "clustered(2, steal(fifo))".parse().unwrap();
//! let policy = policies::build::<Real>(&shape, 5, std::sync::Arc::new(Busy)).unwrap();
//! assert_eq!(policy.describe(), "clustered(2, steal(fifo))");
//! ```
#![forbid(unsafe_code)]

use super::{AnyPolicy, Others};
use crate::policy::{Cause, Local, Notify, Policy};
use crate::ready::{Ready, Upcoming};
use crate::tokens::{Inbox, Slot};
use raddle_machine::Machine;
use std::sync::Arc;

/// Selections of a processor between two looks into the inbox, and at what visitors left, while its cluster does not
/// run dry.
pub const ROUND: u32 = 16;
/// Threads that a visitor brings home besides the one it runs. Simulated, `clustered(4, fifo)` on 8 cores: `fib` takes
/// 0.77, 0.57 and 1.23 ms with 8, 32 and 128; under `clustered(4, steal)` they are alike (2026-11-28,
/// docs/constants.md).
pub const BROUGHT: usize = 32;

/// The processors of one cluster, as its policy counts them; the one behind the last is the visitor, who never sleeps
/// here.
struct Members {
    others: Arc<dyn Others>,
    first: usize,
    count: usize,
}

impl Members {
    fn whole(&self, member: usize) -> Option<usize> {
        (member < self.count).then_some(self.first + member)
    }
}

impl Others for Members {
    fn hungry(&self) -> bool {
        self.others.hungry()
    }
    fn asleep(&self, member: usize) -> bool {
        self.whole(member).is_some_and(|processor| self.others.asleep(processor))
    }
    fn wake(&self, whom: Notify) {
        let whom = match whom {
            Notify::Processor(member) => self.whole(member).map_or(Notify::Nobody, Notify::Processor),
            whom => whom,
        };
        self.others.wake(whom);
    }
}

/// What the policy of cluster number `cluster` may ask, where each has `size` of the `processors`.
pub(super) fn members(others: Arc<dyn Others>, cluster: usize, size: usize, processors: usize) -> Arc<dyn Others> {
    let first = cluster * size;
    Arc::new(Members { others, first, count: size.min(processors - first) })
}

struct Cluster<M: Machine> {
    policy: AnyPolicy<M>,
    visitor: Slot<Box<dyn Local<M>>, M>,
}

struct Shared<M: Machine> {
    clusters: Box<[Cluster<M>]>,
    /// As the expression says it, and how many a cluster has.
    written: u32,
    size: usize,
    inbox: Inbox<M>,
    others: Arc<dyn Others>,
}

impl<M: Machine> Shared<M> {
    fn offers(&self) -> bool {
        !self.inbox.is_empty() || self.clusters.iter().any(|cluster| cluster.policy.offers())
    }
}

/// The policy.
pub struct Clustered<M: Machine>(Arc<Shared<M>>);

impl<M: Machine> Clustered<M> {
    /// A policy per cluster, each made for `size` processors and a visitor. `written` is the size in the expression,
    /// which may exceed the number of processors.
    pub fn new(policies: Vec<AnyPolicy<M>>, size: usize, written: u32, others: Arc<dyn Others>) -> Self {
        let cluster = |policy: AnyPolicy<M>| {
            let visitor = Slot::new(policy.local(size));
            Cluster { policy, visitor }
        };
        let clusters = policies.into_iter().map(cluster).collect();
        Self(Arc::new(Shared { clusters, written, size, inbox: Inbox::default(), others }))
    }
}

impl<M: Machine> Policy<M> for Clustered<M> {
    fn local(&self, index: usize) -> Box<dyn Local<M>> {
        let cluster = index / self.0.size;
        let home = self.0.clusters[cluster].policy.local(index % self.0.size);
        Box::new(ClusteredLocal { home, cluster, shared: self.0.clone(), turn: 0, visits: (0, 0) })
    }

    fn submit(&self, thread: Ready<M>) -> Notify {
        self.0.inbox.push(thread);
        Notify::Anyone
    }

    fn describe(&self) -> String {
        format!("clustered({}, {})", self.0.written, self.0.clusters[0].policy.describe())
    }

    fn priorities(&self) -> u8 {
        self.0.clusters[0].policy.priorities()
    }

    fn offers(&self) -> bool {
        self.0.offers()
    }

    fn strands(&self) -> &'static str {
        self.0.clusters[0].policy.strands()
    }
}

struct ClusteredLocal<M: Machine> {
    home: Box<dyn Local<M>>,
    cluster: usize,
    shared: Arc<Shared<M>>,
    turn: u32,
    /// Visits made, and those that brought a thread.
    visits: (u64, u64),
}

impl<M: Machine> ClusteredLocal<M> {
    #[cold]
    fn empty_inbox(&mut self) {
        let mut taken = Vec::new();
        self.shared.inbox.take_all(|thread| taken.push(thread));
        // Whoever looked while they were on their way has seen nothing.
        let several = taken.len() > 1;
        for thread in taken {
            let notify = self.home.push(thread, Cause::Submitted);
            self.shared.others.wake(notify);
        }
        // They were everybody's, and stay so.
        if several {
            let notify = self.home.publish();
            self.shared.others.wake(notify);
        }
    }

    /// One of the threads that visitors left in this cluster. Nobody selects there but who runs dry, and with a loop of
    /// yields that waits for such a thread nobody does.
    fn left_by_visitors(&mut self, floor: u8) -> Option<Ready<M>> {
        let cluster = &self.shared.clusters[self.cluster];
        let mut visitor = cluster.visitor.borrow()?;
        let found = visitor.next(floor);
        // What it has taken to itself meanwhile stays everybody's.
        let left = visitor.publish();
        cluster.visitor.put(visitor);
        if found.is_some() {
            self.shared.others.wake(left);
        }
        found
    }

    fn visit(&mut self, cluster: usize) -> Option<Ready<M>> {
        let cluster = &self.shared.clusters[cluster];
        if !cluster.policy.offers() {
            return None;
        }
        let mut visitor = cluster.visitor.borrow()?;
        self.visits.0 += 1;
        let found = visitor.search();
        if found.is_some() {
            self.visits.1 += 1;
            // One by one: a freeze in between strands no more than one.
            for _ in 0..BROUGHT {
                let Some(more) = visitor.next(u8::MAX) else { break };
                let notify = self.home.push(more, Cause::Submitted);
                self.shared.others.wake(notify);
            }
        }
        let left = visitor.publish();
        cluster.visitor.put(visitor);
        if found.is_some() {
            self.shared.others.wake(left);
        }
        found
    }
}

impl<M: Machine> Local<M> for ClusteredLocal<M> {
    fn push(&mut self, thread: Ready<M>, cause: Cause) -> Notify {
        self.home.push(thread, cause)
    }

    fn push_told(&mut self, thread: Ready<M>, cause: Cause, tell: bool) -> Notify {
        self.home.push_told(thread, cause, tell)
    }

    fn hides(&self) -> bool {
        self.home.hides()
    }

    fn hidden(&self) -> u64 {
        self.home.hidden()
    }

    fn hides_unstarted(&self) -> bool {
        self.home.hides_unstarted()
    }

    fn upcoming(&self, n: u32) -> Option<Upcoming> {
        self.home.upcoming(n)
    }

    fn has_own(&self) -> bool {
        self.home.has_own()
    }

    fn next(&mut self, floor: u8) -> Option<Ready<M>> {
        self.turn = self.turn.wrapping_add(1);
        if self.turn.is_multiple_of(ROUND) {
            if !self.shared.inbox.is_empty() {
                self.empty_inbox();
            }
            if let Some(thread) = self.left_by_visitors(floor) {
                return Some(thread);
            }
        }
        if let Some(thread) = self.home.next(floor) {
            return Some(thread);
        }
        if self.shared.inbox.is_empty() {
            return None;
        }
        self.empty_inbox();
        self.home.next(floor)
    }

    fn search(&mut self) -> Option<Ready<M>> {
        if let Some(thread) = self.next(u8::MAX).or_else(|| self.home.search()) {
            return Some(thread);
        }
        let count = self.shared.clusters.len();
        (1..count).find_map(|distance| self.visit((self.cluster + distance) % count))
    }

    fn relieve(&mut self, victim: usize) -> Option<Ready<M>> {
        match victim / self.shared.size {
            cluster if cluster == self.cluster => self.home.relieve(victim % self.shared.size),
            cluster => self.visit(cluster),
        }
    }

    fn has_work(&self) -> bool {
        self.home.has_work() || self.shared.offers()
    }

    fn holds_private(&self) -> bool {
        self.home.holds_private()
    }

    fn publish(&mut self) -> Notify {
        self.home.publish()
    }

    fn drain(&mut self, out: &mut dyn FnMut(Ready<M>)) {
        self.home.drain(out);
        // What visitors left; if one is there now, it leaves it where the cluster's others, or the next visitor, find
        // it.
        let cluster = &self.shared.clusters[self.cluster];
        if let Some(mut visitor) = cluster.visitor.borrow() {
            visitor.drain(out);
            cluster.visitor.put(visitor);
        }
        self.shared.inbox.take_all(out);
    }

    fn steals(&self) -> (u64, u64) {
        let (tried, won) = self.home.steals();
        (tried + self.visits.0, won + self.visits.1)
    }
}
