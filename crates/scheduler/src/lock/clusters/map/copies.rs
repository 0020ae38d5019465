//! Copies for single processors: the lowest level of the tree of section 2.2, as the paper has page tables. What is
//! there is changed by broadcast within each cluster, after the broadcast to the clusters.
//!
//! Roles: *readers*, who hold their processor's copy for reading, or make it while they hold their cluster's instance
//! for reading; *writers*, who hold that instance alone, and then each copy.
//!
//! Invariants (with those of the map): I5. A copy with a value has its cluster's instance's value: it is made under a
//! shared reservation of the instance, and taken away by who holds that alone, before the instance changes or goes. I6.
//! The instance notes each processor that may have a copy, before it has one.
//!
//! No dead-lock: who makes a copy waits for nobody (it goes without if the copy is reserved); writers hold instances
//! and wait for copies, whose holders are readers.

use super::Clustered;
use super::instance::{Instance, Replica, Right, World, count};
use crate::lock::clusters::{Clusters, Seat};
use crate::lock::{Algorithm, Busy, ReserveMap, Reserved, Waits};
use raddle_machine::{Atomic, Ordering};
use std::hash::{BuildHasher, Hash};
use std::ops::Deref;

/// What a processor has of elements; one without a value is to be made anew.
pub(super) type Copies<K, V, A, W, S> = ReserveMap<K, Option<V>, A, W, S>;
type KeptCopy<'a, V, W> = Reserved<'a, Option<V>, W>;

/// Copies that a writer holds, to be renewed.
pub(super) type Taken<'a, V, W> = Vec<KeptCopy<'a, V, W>>;

/// The bit of a processor in an instance's note; those whose numbers are equal modulo the bits share one.
fn bit(member: usize) -> usize {
    1 << (member % usize::BITS as usize)
}

/// What becomes of copies that somebody takes away.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// They get the new value.
    Renew,
    /// They are dropped.
    Drop,
    /// They are dropped, unless somebody reads one just now.
    DropUnread,
}

/// The right to read an element from the calling processor's copy: nobody changes it, anywhere, until this is dropped.
#[must_use = "dropping it ends the reservation at once"]
pub struct Here<'a, V, W: Waits>(Replica<'a, V, W>);

impl<V, W: Waits> Deref for Here<'_, V, W> {
    type Target = V;
    fn deref(&self) -> &V {
        &self.0
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
    /// As [`Clustered::read`], from a copy of the calling processor's own: reads touch nothing that another processor
    /// touches. Each change costs a visit of every copy, so this is for what changes seldom. None if there is no such
    /// key.
    pub fn read_here(&self, key: &K) -> Option<Here<'_, V, W>> {
        let me = self.here();
        let copies = &self.clusters[me.cluster].copies;
        let member = me.member % copies.len();
        let own = &copies[member];
        match own.read_unless(key, || self.kept(me, key)) {
            Ok(Some(copy)) if copy.is_some() => return Some(Here(Replica(Right::Copy(copy)))),
            Ok(_) => {}
            Err(kept) => return Some(Here(kept)),
        }
        let instance = match self.read_at(me, key) {
            Ok(found) => found?,
            Err(kept) => return Some(Here(kept)),
        };
        // Relaxed: under a shared reservation, whose end orders it before who has the instance alone (I6).
        instance.copied.fetch_or(bit(member), Ordering::Relaxed);
        let counters = self.counters(me.cluster);
        if counters.has_copies.load(Ordering::Relaxed) == 0 {
            // Relaxed: said before a copy is made, whose reservation or table orders it before who reads that.
            counters.has_copies.store(1, Ordering::Relaxed);
        }
        let value = || Some(instance.valid().clone());
        let made = match own.try_reserve(key) {
            Ok(Some(mut stale)) => std::mem::replace(&mut *stale, value()).is_none(),
            Ok(None) => own.insert_new(key.clone(), value()).is_ok(),
            // Another thread of this processor makes or reads it.
            Err(Busy { .. }) => false,
        };
        if made {
            count::<World<W>>(&counters.copied);
        }
        Some(Here(Replica(Right::Instance(instance))))
    }

    /// A copy of a value, from the calling processor's: see [`Clustered::read_here`].
    pub fn get_here(&self, key: &K) -> Option<V> {
        self.read_here(key).map(|value| value.clone())
    }

    /// Takes away what processors of a cluster have of an element whose instance there the caller holds alone; those
    /// that are to be renewed are added to `taken`. False if one is read just now and was to be dropped unread.
    pub(super) fn take_copies<'a>(
        &'a self,
        me: Seat,
        cluster: usize,
        key: &K,
        instance: &Instance<V, World<W>>,
        then: Then,
        taken: &mut Taken<'a, V, W>,
    ) -> bool {
        // Relaxed: set under a reservation that has ended.
        let noted = instance.copied.load(Ordering::Relaxed);
        for (member, copies) in self.clusters[cluster].copies.iter().enumerate().filter(|_| noted != 0) {
            if noted & bit(member) == 0 {
                continue;
            }
            let found = match self.call(me, cluster, |_| copies.try_reserve(key)) {
                Ok(found) => found,
                Err(Busy { .. }) if then == Then::DropUnread => return false,
                // Without a lane, as for instances.
                Err(Busy { .. }) => copies.reserve(key),
            };
            let Some(mut copy) = found else { continue };
            if copy.take().is_some() && then == Then::Renew {
                taken.push(copy);
            } else {
                drop(self.call(me, cluster, |_| copies.remove_entry(key, copy)));
            }
        }
        if then != Then::Renew {
            instance.copied.store(0, Ordering::Relaxed);
        }
        true
    }

    /// Gives copies the value that they are to have from now on.
    pub(super) fn renew_copies(&self, me: Seat, taken: Taken<'_, V, W>, value: &V) {
        for mut copy in taken {
            *copy = Some(value.clone());
            count::<World<W>>(&self.counters(me.cluster).copies_renewed);
        }
    }
}
