//! A map with a table in each cluster: elements have a home, and other clusters replicas on demand.
//!
//! Source: Unrau et al., sections 2.2, 2.3 and 5.2. See [`super`] for what differs.
//!
//! Words: an *instance* is what one cluster's table has of an element: the one at its *home* is the element, the
//! others are replicas. A processor may have a *copy* of its cluster's instance ([`copies`]). The *anchor* of a key is
//! a cluster that its hash names: the home, as long as the element has not moved, and else who knows the home. A
//! replica may be *stale*: without a value, a place-holder until somebody asks for it again.
//!
//! Roles: *readers*, who hold an instance in their own cluster; *requesters*, who hold their cluster's stale instance
//! alone while they ask the home; *writers*, who hold the home's instance alone, and then each replica; *movers* and
//! *removers*, who hold the anchor's instance too.
//!
//! Invariants: I1. A key is there if and only if its anchor has an instance. I2. An instance with a value has the
//! home's value: a writer has all of them alone while it changes the element. I3. The home notes each cluster that
//! has an instance (and maybe others), but the anchor while that is stale: noted under a reservation of the home's
//! instance. I4. The home changes only while the anchor's, the old and the new home's instances are held alone.
//!
//! No dead-lock (for one key): requesters and optimistic writers hold instances that are not the home's, and never
//! wait for another one; they *try*, and give up what they hold. Writers hold the home's and wait for replicas, whose
//! holders are those, or readers. Movers and removers hold the anchor's, *try* the home's and give up the anchor's,
//! then wait for replicas as writers do. Who keeps a [`Replica`] and waits for another element must keep an order, as
//! with any lock. Who keeps one and wants the same element again, in any cluster, reads what it keeps, or is told by a
//! panic ([`kept`]).
//!
//! Progress: blocking on holders of instances. Fairness: new readers wait as soon as a writer does. A request that
//! tries can be overtaken again and again by those of the home's own cluster, who wait at the instance itself, as in
//! the paper (2.3); it waits parked in between, for an end of the reservation.
//!
//! Memory: instances are counted. Edges: `reserve.end` of [`Reservation`](super::super::Reservation); `clusters.use`
//! the end of a [`Hold`] → [`Clustered::remove_unused`].
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::lock::{Clustered, Clusters, H2Mcs, Seat, Spinning};
//! # thread_local!(static SEAT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) });
//! # struct Two;
//! # impl Clusters for Two {
//! #     fn count(&self) -> usize { 2 }
//! #     fn members(&self, _: usize) -> usize { 2 }
//! #     fn here(&self) -> Seat { Seat { cluster: SEAT.get() / 2, member: SEAT.get() % 2 } }
//! # }
//! let map = Clustered::<&str, u32, H2Mcs<Real>, Spinning<Real>, Two>::over(Two);
//! map.insert("a", 1);
//! for seat in [0, 3, 1, 2] {
//!     SEAT.set(seat);
//!     assert_eq!(map.get(&"a"), Some(1));
//! }
//! // One of the clusters is the home; the other asked it once.
//! assert_eq!(map.stats().replicated, 1);
//! assert_eq!(map.update(&"a", |value| std::mem::replace(value, 2)), Some(1));
//! SEAT.set(0);
//! assert_eq!((map.get(&"a"), map.remove(&"a"), map.get(&"a")), (Some(2), Some(2), None));
//! ```

mod changes;
mod copies;
mod instance;
mod kept;

pub use copies::Here;
pub use instance::{Hold, InUse, Replica};

use super::{ClusterStats, Clusters, Seat, Ways};
use crate::lock::reserve::never;
use crate::lock::{Algorithm, Busy, Lock, ReserveMap, Waits};
use copies::{Copies, Then};
use instance::{Counters, Instance, Instances, Met, Own, Read, Right, Role, World, count};
use raddle_machine::{Atomic, Ordering};
use raddle_queues::pad::Padded;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::ops::Deref;

/// Parts of each cluster's table, if nothing else is asked for: as many as cores of an EPYC share a cache. What others
/// cost is told where a [`ReserveMap`] has its own.
const PARTS: usize = 8;

#[expect(clippy::type_complexity, reason = "each parameter is the map's own")]
struct Cluster<K, V, A, W: Waits, S> {
    instances: Instances<K, V, A, W, S>,
    /// What each of its processors has a copy of.
    copies: Box<[Copies<K, V, A, W, S>]>,
    /// One for each of its processors: who calls from elsewhere comes through the one of its own number.
    lanes: Box<[Padded<Lock<(), A, World<W>>>]>,
    counters: Padded<Counters<World<W>>>,
}

/// See the module.
#[expect(clippy::type_complexity, reason = "as in `Cluster`")]
pub struct Clustered<K, V, A, W: Waits, C, S = RandomState> {
    clusters: Box<[Cluster<K, V, A, W, S>]>,
    who: C,
    hash: S,
    ways: Ways,
}

impl<K, V, A, W, C> Clustered<K, V, A, W, C>
where
    K: Hash + Eq + Clone,
    V: Clone,
    A: Algorithm<World<W>>,
    W: Waits,
    C: Clusters,
{
    /// An empty map over these clusters.
    pub fn over(who: C) -> Self {
        Self::with_parts(who, PARTS, RandomState::new())
    }
}

impl<K, V, A, W, C, S> Clustered<K, V, A, W, C, S>
where
    K: Hash + Eq + Clone,
    V: Clone,
    A: Algorithm<World<W>>,
    W: Waits,
    C: Clusters,
    S: BuildHasher + Clone,
{
    /// An empty map, whose tables have so many parts, each with a lock.
    ///
    /// # Panics
    /// If there is no cluster, no processor in one, or no part.
    pub fn with_parts(who: C, parts: usize, hash: S) -> Self {
        assert!(who.count() > 0, "there is a cluster at least");
        let cluster = |number| {
            let members = who.members(number);
            assert!(members > 0, "a cluster has a processor at least");
            Cluster {
                instances: ReserveMap::with_parts(parts, hash.clone()),
                copies: (0..members).map(|_| ReserveMap::with_parts(1, hash.clone())).collect(),
                lanes: (0..members).map(|_| Padded(Lock::new(()))).collect(),
                counters: Padded(Counters::new()),
            }
        };
        Self { clusters: (0..who.count()).map(cluster).collect(), who, hash, ways: Ways::default() }
    }

    /// With other ways for what is not told otherwise.
    #[must_use]
    pub fn with_ways(mut self, ways: Ways) -> Self {
        self.ways = ways;
        self
    }

    fn here(&self) -> Seat {
        let Seat { cluster, member } = self.who.here();
        Seat { cluster: cluster % self.clusters.len(), member }
    }

    fn anchor(&self, key: &K) -> usize {
        // The tables place by other bits.
        ((self.hash.hash_one(key) >> 32).wrapping_mul(0x9e37_79b9) >> 16) as usize % self.clusters.len()
    }

    fn counters(&self, cluster: usize) -> &Counters<World<W>> {
        &self.clusters[cluster].counters.0
    }

    /// Looks into a cluster's table, in another one through the lane of the caller's number. `f` waits for nobody.
    fn call<'a, R>(&'a self, me: Seat, to: usize, f: impl FnOnce(&'a Instances<K, V, A, W, S>) -> R) -> R {
        let there = &self.clusters[to];
        if to == me.cluster {
            return f(&there.instances);
        }
        count::<World<W>>(&self.counters(me.cluster).calls);
        let member = me.member % there.lanes.len();
        let seat = Seat { cluster: to, member };
        there.lanes[member].0.with(|()| self.who.carry(me, seat, || f(&there.instances)))
    }

    /// The home's instance, taken by `take`, which does not wait; looked for at `hint` first.
    fn find<'a, G>(
        &'a self,
        me: Seat,
        key: &K,
        mut hint: Option<usize>,
        take: impl Fn(&'a Instances<K, V, A, W, S>, &K) -> Result<Option<G>, Busy>,
    ) -> Result<(usize, G), Met>
    where
        G: Deref<Target = Instance<V, World<W>>>,
    {
        let look = |at: usize| self.call(me, at, |map| take(map, key)).map_err(|Busy { .. }| Met::Busy(at));
        loop {
            let home = match hint.take() {
                Some(home) => home,
                None => {
                    let anchor = self.anchor(key);
                    let found = look(anchor)?.ok_or(Met::Absent)?;
                    match found.role {
                        Role::Home(_) => return Ok((anchor, found)),
                        Role::Away(home) => home,
                    }
                }
            };
            // Else it has moved meanwhile, or is gone: the anchor knows.
            if let Some(found) = look(home)?.filter(|found| found.is_home()) {
                return Ok((home, found));
            }
        }
    }

    /// The caller's cluster's instance, held alone; a place-holder if there was none. None: there is no such key.
    /// Before it waits it asks `instead` for what to return instead.
    #[expect(clippy::type_complexity, reason = "each parameter is the map's own")]
    fn own<'a, 'k, G>(
        &'a self,
        me: Seat,
        key: &'k K,
        instead: impl FnMut() -> Option<G>,
    ) -> Result<Option<Own<'a, 'k, K, V, A, W, S>>, G> {
        let map = &self.clusters[me.cluster].instances;
        let anchor = self.anchor(key);
        let (instance, placed) = if anchor == me.cluster {
            let Some(instance) = map.reserve_unless(key, instead)? else { return Ok(None) };
            (instance, false)
        } else {
            map.find_or_place(key.clone(), &mut Some(Instance::stale(anchor)), instead)?
        };
        Ok(Some(Own { map, key, instance: Some(instance), placed }))
    }

    /// Where the home is, if the instance that the caller holds is the anchor's, who knows.
    fn hint(&self, me: Seat, key: &K, own: &Instance<V, World<W>>) -> Option<usize> {
        match own.role {
            Role::Away(home) if self.anchor(key) == me.cluster => Some(home),
            _ => None,
        }
    }

    fn retry(&self, me: Seat) {
        count::<World<W>>(&self.counters(me.cluster).retries);
    }

    /// The element, for reading; its instance in the caller's cluster is asked for if there is none. Waits while
    /// somebody changes it; a thread that reads the element already, in whichever cluster, reads that once more, and
    /// waits for nobody. None if there is no such key.
    pub fn read(&self, key: &K) -> Option<Replica<'_, V, W>> {
        match self.read_at(self.here(), key) {
            Ok(found) => found.map(|found| Replica(Right::Instance(found))),
            Err(kept) => Some(kept),
        }
    }

    /// The instance of the caller's cluster, for reading; `Err`: what the caller keeps of it, instead of waiting.
    fn read_at(&self, me: Seat, key: &K) -> Result<Option<Read<'_, V, W>>, Replica<'_, V, W>> {
        let map = &self.clusters[me.cluster].instances;
        let kept = || self.kept(me, key);
        loop {
            if let Some(found) = map.read_unless(key, kept)?.filter(|found| found.value.is_some()) {
                return Ok(Some(found));
            }
            let Some(mut own) = self.own(me, key, kept)? else { return Ok(None) };
            if own.get().value.is_some() {
                // Somebody's request was answered meanwhile: the combining of section 2.2.
                return Ok(Some(own.keep().downgrade()));
            }
            match self.find(me, key, self.hint(me, key, own.get()), ReserveMap::try_read) {
                Ok((_, home)) => {
                    home.at_home().note(me.cluster);
                    own.placed = false;
                    let value = home.valid().clone();
                    let mut instance = own.keep();
                    instance.value = Some(value);
                    count::<World<W>>(&self.counters(me.cluster).replicated);
                    return Ok(Some(instance.downgrade()));
                }
                Err(Met::Absent) => {
                    // A stale one goes, too.
                    own.placed = true;
                    return Ok(None);
                }
                Err(Met::Busy(at)) => {
                    drop(own);
                    self.retry(me);
                    self.wait_to_read(me, at, key)?;
                }
            }
        }
    }

    /// A copy of a value, from the caller's cluster: see [`Clustered::read`].
    pub fn get(&self, key: &K) -> Option<V> {
        self.read(key).map(|value| value.clone())
    }

    /// A copy of a value from its home, without leaving a replica here: for what is written more than it is read.
    /// Holds nothing while it waits there.
    pub fn get_from_home(&self, key: &K) -> Option<V> {
        let me = self.here();
        loop {
            match self.find(me, key, None, ReserveMap::try_read) {
                Ok((_, home)) => return Some(home.valid().clone()),
                Err(Met::Absent) => return None,
                Err(Met::Busy(at)) => {
                    self.retry(me);
                    if let Err(kept) = self.wait_to_read(me, at, key) {
                        return Some(kept.clone());
                    }
                }
            }
        }
    }

    /// True if there is such a key.
    pub fn contains(&self, key: &K) -> bool {
        self.read(key).is_some()
    }

    /// Where an element's home is (racy); None if there is no such key.
    ///
    /// # Panics
    /// If the calling thread reads the element while somebody else changes it, and the map parks its threads.
    pub fn home(&self, key: &K) -> Option<usize> {
        let me = self.here();
        loop {
            match self.find(me, key, None, ReserveMap::try_read) {
                Ok((at, _)) => return Some(at),
                Err(Met::Absent) => return None,
                Err(Met::Busy(at)) => {
                    drop(never(self.clusters[at].instances.read_unless(key, || self.keeps_nothing(me, key))));
                }
            }
        }
    }

    /// Keeps an element from [`Clustered::remove_unused`], until what it returns is dropped. Counted in the caller's
    /// cluster, or where the calling thread reads the element. None if there is no such key.
    ///
    /// # Panics
    /// If the calling thread reads a processor's copy ([`Clustered::read_here`]) while somebody changes the element,
    /// and the map parks its threads.
    pub fn hold(&self, key: &K) -> Option<Hold<World<W>>> {
        let replica = self.read(key)?;
        let Right::Instance(instance) = &replica.0 else {
            panic!(
                "a thread waits for an element that it holds already: it reads a processor's copy, and would wait for \
                 itself for ever; hold the element before it is read, or read it by `read`"
            )
        };
        // Relaxed: under a reservation, which a remover has to wait for.
        instance.uses.fetch_add(1, Ordering::Relaxed);
        Some(Hold(instance.uses.clone()))
    }

    /// Gives back the replicas that nobody holds in the caller's cluster, and that nobody reads just now; how many.
    pub fn give_back(&self) -> usize {
        let me = self.here();
        let map = &self.clusters[me.cluster].instances;
        let unused = |key: &K| {
            // The home's note of it stays, and is found out by the next change (I3).
            let instance = map.try_reserve(key).ok().flatten()?;
            let spare = !instance.is_home() && instance.used() == 0 && self.anchor(key) != me.cluster;
            let spare = spare && self.take_copies(me, me.cluster, key, &instance, Then::DropUnread, &mut Vec::new());
            spare.then(|| map.remove_entry(key, instance))
        };
        map.keys().iter().filter_map(unused).count()
    }

    /// How many keys there are (racy).
    pub fn len(&self) -> usize {
        let counts = self.clusters.iter().map(|cluster| cluster.counters.0.keys.load(Ordering::Relaxed));
        // A removal may be counted before the insertion.
        let sum = counts.fold(0, usize::wrapping_add);
        if sum > usize::MAX / 2 { 0 } else { sum }
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `f` with each key that is there all the time, and its value, read where it is at home, one after the
    /// other.
    pub fn for_each(&self, mut f: impl FnMut(&K, &V)) {
        for (number, cluster) in self.clusters.iter().enumerate() {
            for key in cluster.instances.keys() {
                // Once for each key: by its anchor.
                if self.anchor(&key) == number
                    && let Some(value) = self.read(&key)
                {
                    f(&key, &value);
                }
            }
        }
    }

    /// What all clusters have done.
    pub fn stats(&self) -> ClusterStats {
        let mut sum = ClusterStats::default();
        for counters in self.clusters.iter().map(|cluster| &cluster.counters.0) {
            sum.calls += counters.calls.load(Ordering::Relaxed);
            sum.replicated += counters.replicated.load(Ordering::Relaxed);
            sum.retries += counters.retries.load(Ordering::Relaxed);
            sum.invalidated += counters.invalidated.load(Ordering::Relaxed);
            sum.renewed += counters.renewed.load(Ordering::Relaxed);
            sum.copied += counters.copied.load(Ordering::Relaxed);
            sum.copies_renewed += counters.copies_renewed.load(Ordering::Relaxed);
            sum.moved += counters.moved.load(Ordering::Relaxed);
        }
        sum
    }
}
