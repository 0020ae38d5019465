//! What one cluster has of an element, and the rights to it.

use crate::lock::{Algorithm, ReserveMap, Reserved, Shared, Waits};
use raddle_machine::{Atomic, Machine, Ordering};
use std::hash::{BuildHasher, Hash};
use std::ops::Deref;
use std::sync::Arc;

pub(super) type World<W> = <W as Waits>::Machine;
pub(super) type Count<M> = <M as Machine>::Atomic<usize>;
pub(super) type Kept<'a, V, W> = Reserved<'a, Instance<V, World<W>>, W>;
pub(super) type Instances<K, V, A, W, S> = ReserveMap<K, Instance<V, World<W>>, A, W, S>;

/// What a cluster has of an element.
pub(super) struct Instance<V, M: Machine> {
    /// Absent: stale. The home's is always there.
    pub(super) value: Option<V>,
    pub(super) role: Role<M>,
    /// A bit for each processor of the cluster that may have a copy ([`super::copies`], I6).
    pub(super) copied: Count<M>,
    /// Who holds it in this cluster (5.2).
    pub(super) uses: Arc<Count<M>>,
}

pub(super) enum Role<M: Machine> {
    Home(Home<M>),
    /// At the anchor: where the home is. Elsewhere it says nothing.
    Away(usize),
}

/// What the home knows of an element.
pub(super) struct Home<M: Machine> {
    /// A bit for each cluster that has an instance (I3).
    pub(super) noted: Box<[M::Atomic<u64>]>,
    /// Who changed it last, and how often in turn.
    pub(super) writer: (usize, u32),
}

impl<M: Machine> Home<M> {
    pub(super) fn new(clusters: usize) -> Self {
        Self { noted: (0..clusters.div_ceil(64)).map(|_| Atomic::new(0)).collect(), writer: (0, 0) }
    }

    /// Relaxed: noted under a shared reservation, read and cleared under an exclusive one, whose edge orders them.
    pub(super) fn note(&self, cluster: usize) {
        self.noted[cluster / 64].fetch_or(1 << (cluster % 64), Ordering::Relaxed);
    }

    pub(super) fn forget(&self, cluster: usize) {
        self.noted[cluster / 64].fetch_and(!(1 << (cluster % 64)), Ordering::Relaxed);
    }

    pub(super) fn clusters(&self) -> Vec<usize> {
        let words = self.noted.iter().map(|word| word.load(Ordering::Relaxed)).enumerate();
        words
            .flat_map(|(index, word)| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index * 64 + bit))
            .collect()
    }
}

impl<V, M: Machine> Instance<V, M> {
    pub(super) fn home(value: V, clusters: usize) -> Self {
        Self::with(Some(value), Role::Home(Home::new(clusters)))
    }

    pub(super) fn stale(home: usize) -> Self {
        Self::with(None, Role::Away(home))
    }

    fn with(value: Option<V>, role: Role<M>) -> Self {
        Self { value, role, copied: Atomic::new(0), uses: Arc::new(Atomic::new(0)) }
    }

    pub(super) fn at_home(&self) -> &Home<M> {
        match &self.role {
            Role::Home(home) => home,
            Role::Away(_) => unreachable!("the caller has looked"),
        }
    }

    pub(super) fn is_home(&self) -> bool {
        matches!(self.role, Role::Home(_))
    }

    /// The value of an instance that is known to have one.
    pub(super) fn valid(&self) -> &V {
        self.value.as_ref().unwrap_or_else(|| unreachable!("the caller has looked, or it is the home's"))
    }

    pub(super) fn used(&self) -> usize {
        // Ordering[clusters.use]: Acquire. Pairs with the end of a `Hold`. Makes visible: what its holder has done.
        self.uses.load(Ordering::Acquire)
    }
}

pub(super) struct Counters<M: Machine> {
    pub(super) calls: M::Atomic<u64>,
    pub(super) replicated: M::Atomic<u64>,
    pub(super) retries: M::Atomic<u64>,
    pub(super) invalidated: M::Atomic<u64>,
    pub(super) renewed: M::Atomic<u64>,
    pub(super) copied: M::Atomic<u64>,
    pub(super) copies_renewed: M::Atomic<u64>,
    pub(super) moved: M::Atomic<u64>,
    /// Keys whose anchor this cluster is.
    pub(super) keys: M::Atomic<usize>,
    /// 1 once one of its processors has had a copy.
    pub(super) has_copies: M::Atomic<u32>,
}

impl<M: Machine> Counters<M> {
    pub(super) fn new() -> Self {
        let zero = || Atomic::new(0);
        let (calls, replicated, retries) = (zero(), zero(), zero());
        let (invalidated, renewed, moved) = (zero(), zero(), zero());
        let (copied, copies_renewed, keys) = (zero(), zero(), Atomic::new(0));
        let has_copies = Atomic::new(0);
        Self { calls, replicated, retries, invalidated, renewed, copied, copies_renewed, moved, keys, has_copies }
    }
}

pub(super) fn count<M: Machine>(counter: &M::Atomic<u64>) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Why a request for the home ended without it.
pub(super) enum Met {
    /// This cluster's instance is reserved.
    Busy(usize),
    Absent,
}

/// Somebody still holds the element ([`super::Clustered::hold`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse;

impl std::fmt::Display for InUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the element is still held")
    }
}

impl std::error::Error for InUse {}

/// The right to read an element in the reader's cluster: nobody changes it, anywhere, until this is dropped.
#[must_use = "dropping it ends the reservation at once"]
pub struct Replica<'a, V, W: Waits>(pub(super) Right<'a, V, W>);

pub(super) type Read<'a, V, W> = Shared<'a, Instance<V, World<W>>, W>;

/// What is reserved for a reader.
pub(super) enum Right<'a, V, W: Waits> {
    /// A cluster's instance, which has a value.
    Instance(Read<'a, V, W>),
    /// A processor's copy, which has a value.
    Copy(Shared<'a, Option<V>, W>),
}

impl<V, W: Waits> Deref for Replica<'_, V, W> {
    type Target = V;
    fn deref(&self) -> &V {
        match &self.0 {
            Right::Instance(instance) => instance.valid(),
            Right::Copy(copy) => copy.as_ref().unwrap_or_else(|| unreachable!("looked at when it was taken")),
        }
    }
}

/// Keeps an element from being removed as unused, without keeping anybody from reading or changing it. Counted in the
/// cluster where it was taken.
#[must_use = "dropping it ends the use at once"]
pub struct Hold<M: Machine>(pub(super) Arc<Count<M>>);

impl<M: Machine> Drop for Hold<M> {
    fn drop(&mut self) {
        // Ordering[clusters.use]: Release. Pairs with `Instance::used`. Makes visible: what the holder has done.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// A cluster's own instance, held alone. If it is `placed`, or found to stand for nothing, it goes again unless it is
/// kept.
pub(super) struct Own<'a, 'k, K: Hash + Eq, V, A: Algorithm<World<W>>, W: Waits, S: BuildHasher + Clone> {
    pub(super) map: &'a Instances<K, V, A, W, S>,
    pub(super) key: &'k K,
    pub(super) instance: Option<Kept<'a, V, W>>,
    pub(super) placed: bool,
}

impl<'a, K: Hash + Eq, V, A: Algorithm<World<W>>, W: Waits, S: BuildHasher + Clone> Own<'a, '_, K, V, A, W, S> {
    pub(super) fn keep(mut self) -> Kept<'a, V, W> {
        self.instance.take().unwrap_or_else(|| unreachable!("taken here alone"))
    }

    pub(super) fn get(&self) -> &Kept<'a, V, W> {
        self.instance.as_ref().unwrap_or_else(|| unreachable!("taken by `keep` alone"))
    }
}

impl<K: Hash + Eq, V, A: Algorithm<World<W>>, W: Waits, S: BuildHasher + Clone> Drop for Own<'_, '_, K, V, A, W, S> {
    fn drop(&mut self) {
        if let Some(instance) = self.instance.take()
            && self.placed
        {
            self.map.remove_entry(self.key, instance);
        }
    }
}
