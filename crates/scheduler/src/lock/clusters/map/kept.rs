//! Who keeps an element in one cluster and comes back for it in another, while a change waits for what it keeps.
//!
//! The change holds the home's instance, and others, while it waits for the one that a reader keeps. If that reader
//! goes on in another cluster, or on another processor, and wants the element again, it meets what the change holds:
//! each would wait for the other. So a call looks, before it waits, whether its thread reads the element already,
//! anywhere. Then it reads that instance or copy once more, which waits for nobody, or panics if reading is not what it
//! is to do. A thread takes no guard while it is in a call, so what it finds before a wait holds until the wait ends.
//!
//! It costs a look into each cluster, and into each processor's copies where there are any: as much as the change for
//! which the caller would wait.

use super::instance::{Replica, Right, World};
use super::{Clustered, Clusters, Seat};
use crate::lock::{Algorithm, Waits};
use raddle_machine::{Atomic, Ordering};
use std::convert::Infallible;
use std::hash::{BuildHasher, Hash};

impl<K, V, A, W, C, S> Clustered<K, V, A, W, C, S>
where
    K: Hash + Eq + Clone,
    V: Clone,
    A: Algorithm<World<W>>,
    W: Waits,
    C: Clusters,
    S: BuildHasher + Clone,
{
    /// The element, once more, if the calling thread reads it already, in whichever cluster.
    pub(super) fn kept(&self, me: Seat, key: &K) -> Option<Replica<'_, V, W>> {
        if W::me() == 0 {
            return None;
        }
        (0..self.clusters.len()).find_map(|number| {
            if let Some(kept) = self.call(me, number, |instances| instances.read_again(key)) {
                return Some(Replica(Right::Instance(kept)));
            }
            let cluster = &self.clusters[number];
            // Relaxed: who reads a copy has seen what was said before it was made.
            let has_copies = cluster.counters.0.has_copies.load(Ordering::Relaxed);
            let mut copies = cluster.copies.iter().filter(|_| has_copies != 0);
            let kept = copies.find_map(|copies| self.call(me, number, |_| copies.read_again(key)))?;
            Some(Replica(Right::Copy(kept)))
        })
    }

    /// What a call does before a wait if it cannot do with what its thread keeps.
    ///
    /// # Panics
    /// If the calling thread reads the element.
    pub(super) fn keeps_nothing(&self, me: Seat, key: &K) -> Option<Infallible> {
        assert!(
            self.kept(me, key).is_none(),
            "a thread waits for an element that it holds already: it reads it, by a `Replica`, a `Here` or within \
             `for_each`, and would wait for itself for ever; drop what it reads before it changes the element"
        );
        None
    }

    /// Waits until nobody has that cluster's instance alone; `Err`: the caller keeps the element, which it waits for.
    pub(super) fn wait_to_read(&self, me: Seat, at: usize, key: &K) -> Result<(), Replica<'_, V, W>> {
        self.clusters[at].instances.read_unless(key, || self.kept(me, key)).map(drop)
    }
}
