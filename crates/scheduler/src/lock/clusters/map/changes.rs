//! What changes elements: in their place, by taking them out, by moving their home.

use super::copies::Then;
use super::instance::{InUse, Instance, Kept, Met, Role, World, count};
use super::{Clustered, ReserveMap};
use crate::lock::clusters::{Change, Clusters, Protocol, Seat, Ways};
use crate::lock::reserve::never;
use crate::lock::{Algorithm, Busy, Waits};
use raddle_machine::{Atomic, Ordering};
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
    /// Changes an element, everywhere: when this returns, nobody reads what was there before. None if there is no
    /// such key. If `f` panics, what it has changed so far stays, and replicas are dropped.
    ///
    /// # Panics
    /// If the calling thread changes it already, or keeps a [`Replica`](super::Replica) of it, and the map parks its
    /// threads. So do the other calls that change it.
    pub fn update<R>(&self, key: &K, f: impl FnOnce(&mut V) -> R) -> Option<R> {
        self.update_by(self.ways, key, f)
    }

    /// As [`Clustered::update`], in these ways.
    ///
    /// # Panics
    /// As there.
    pub fn update_by<R>(&self, ways: Ways, key: &K, f: impl FnOnce(&mut V) -> R) -> Option<R> {
        let me = self.here();
        loop {
            let own = match ways.protocol {
                Protocol::Optimistic => Some(never(self.own(me, key, || self.keeps_nothing(me, key)))?),
                Protocol::Pessimistic => None,
            };
            let (mut own, found) = match own {
                // The caller's cluster is the home.
                Some(own) if own.get().is_home() => (None, Ok((me.cluster, own.keep()))),
                Some(own) => {
                    let hint = self.hint(me, key, own.get());
                    let found = self.find(me, key, hint, ReserveMap::try_reserve);
                    (Some(own), found)
                }
                None => (None, self.find(me, key, None, ReserveMap::try_reserve)),
            };
            match found {
                Ok((at, home)) => {
                    let instance = own.as_mut().map(|own| {
                        own.placed = false;
                        own.instance.as_mut().unwrap_or_else(|| unreachable!("kept by the home alone"))
                    });
                    let (result, moves) = self.change(me, key, (at, home), instance, ways, f);
                    // A move begins with nothing in hand, as everything does that waits for the anchor.
                    drop(own);
                    if moves {
                        self.migrate(key, me.cluster);
                    }
                    return Some(result);
                }
                Err(Met::Absent) => {
                    own.iter_mut().for_each(|own| own.placed = true);
                    return None;
                }
                Err(Met::Busy(at)) => {
                    drop(own);
                    self.retry(me);
                    // The pessimist waits there, too: it holds nothing.
                    drop(self.patient_at(me, at, key));
                }
            }
        }
    }

    /// The instance of a cluster, held alone; waits for it, without a lane. The caller holds nothing.
    ///
    /// # Panics
    /// If it would have to wait, and its thread reads the element.
    fn patient_at(&self, me: Seat, cluster: usize, key: &K) -> Option<Kept<'_, V, W>> {
        never(self.clusters[cluster].instances.reserve_unless(key, || self.keeps_nothing(me, key)))
    }

    /// The instance of another cluster, held alone; waits for it, without a lane. The caller holds the home's, so who
    /// has it are readers, and its thread is told there if it is one of them.
    fn instance_at(&self, me: Seat, cluster: usize, key: &K) -> Option<Kept<'_, V, W>> {
        match self.call(me, cluster, |map| map.try_reserve(key)) {
            Ok(found) => found,
            Err(Busy { .. }) => self.clusters[cluster].instances.reserve(key),
        }
    }

    /// Changes the element, whose home the caller holds, and what other clusters have of it. Whether it should move
    /// to the caller's.
    fn change<R>(
        &self,
        me: Seat,
        key: &K,
        (at, mut home): (usize, Kept<'_, V, W>),
        own: Option<&mut Kept<'_, V, W>>,
        ways: Ways,
        f: impl FnOnce(&mut V) -> R,
    ) -> (R, bool) {
        let anchor = self.anchor(key);
        let mut renewed: Vec<Kept<'_, V, W>> = Vec::new();
        let mut taken = Vec::new();
        let then = if ways.change == Change::Broadcast { Then::Renew } else { Then::Drop };
        self.take_copies(me, at, key, &home, then, &mut taken);
        let (mut lone, has_own) = (true, own.is_some());
        for cluster in home.at_home().clusters() {
            if cluster == at || has_own && cluster == me.cluster {
                continue;
            }
            let Some(mut instance) = self.instance_at(me, cluster, key) else {
                home.at_home().forget(cluster);
                continue;
            };
            lone &= cluster == me.cluster || instance.value.is_none();
            self.take_copies(me, cluster, key, &instance, then, &mut taken);
            let old = instance.value.take();
            if old.is_some() && ways.change == Change::Broadcast {
                renewed.push(instance);
                continue;
            }
            count::<World<W>>(&self.counters(me.cluster).invalidated);
            if cluster == anchor {
                // It stays, and is found there by who takes the element out; changes need not come to it again (I3).
                home.at_home().forget(cluster);
            } else if instance.used() == 0 {
                home.at_home().forget(cluster);
                drop(self.call(me, cluster, |map| map.remove_entry(key, instance)));
            }
        }
        let mut own = own;
        if let Some(own) = &mut own {
            debug_assert!(!own.is_home(), "the home is held by another guard");
            home.at_home().note(me.cluster);
            self.take_copies(me, me.cluster, key, own, then, &mut taken);
            own.value = None;
        }
        let result = f(home.value.as_mut().unwrap_or_else(|| unreachable!("the home has a value")));
        for mut instance in renewed {
            instance.value = Some(home.valid().clone());
            count::<World<W>>(&self.counters(me.cluster).renewed);
        }
        if let Some(own) = own {
            own.value = Some(home.valid().clone());
        }
        self.renew_copies(me, taken, home.valid());
        (result, self.moves(me, at, &mut home, lone, ways))
    }

    /// Notes who writes; whether that is the same cluster for so long that the element should move there.
    fn moves(&self, me: Seat, at: usize, home: &mut Kept<'_, V, W>, lone: bool, ways: Ways) -> bool {
        let Role::Home(home) = &mut home.role else { return false };
        let (writer, turns) = home.writer;
        home.writer = (me.cluster, if writer == me.cluster && lone { turns.saturating_add(1) } else { 1 });
        at != me.cluster && ways.moves_after.is_some_and(|after| home.writer.1 >= after)
    }

    /// Puts a value there, and returns what was there before. A new element's home is its key's anchor.
    pub fn insert(&self, key: K, value: V) -> Option<V> {
        let (me, anchor) = (self.here(), self.anchor(&key));
        let (mut key, mut given) = (key, Some(value));
        loop {
            let mut put = |old: &mut V| given.take().map(|value| std::mem::replace(old, value));
            if let Some(old) = self.update(&key, &mut put) {
                return old;
            }
            let value = given.take().unwrap_or_else(|| unreachable!("nothing was changed"));
            let instance = Instance::home(value, self.clusters.len());
            let put = self.call(me, anchor, |map| {
                let put = map.insert_new(key, instance);
                if put.is_ok() {
                    self.counters(anchor).keys.fetch_add(1, Ordering::Relaxed);
                }
                put
            });
            match put {
                Ok(()) => return None,
                Err((back, instance)) => (key, given) = (back, instance.value),
            }
        }
    }

    /// The anchor's instance and the home's, if that is another one, both held alone, with the home's number. None:
    /// there is no such key.
    #[expect(clippy::type_complexity, reason = "a pair, named by its doc")]
    fn both(&self, me: Seat, key: &K) -> Option<(usize, Kept<'_, V, W>, Option<Kept<'_, V, W>>)> {
        let anchor = self.anchor(key);
        loop {
            let first = match self.call(me, anchor, |map| map.try_reserve(key)) {
                Ok(found) => found?,
                Err(Busy { .. }) => self.patient_at(me, anchor, key)?,
            };
            let at = match first.role {
                Role::Home(_) => return Some((anchor, first, None)),
                Role::Away(home) => home,
            };
            match self.call(me, at, |map| map.try_reserve(key)) {
                Ok(home) => return Some((at, first, home)),
                Err(Busy { .. }) => {
                    drop(first);
                    self.retry(me);
                    drop(self.patient_at(me, at, key));
                }
            }
        }
    }

    /// Takes an element out, everywhere; those who hold it ([`Clustered::hold`]) hold nothing then.
    pub fn remove(&self, key: &K) -> Option<V> {
        self.take_out(key, false).unwrap_or_else(|InUse| unreachable!("not asked"))
    }

    /// As [`Clustered::remove`], if nobody holds it in any cluster. The counts are looked at here alone: to hold an
    /// element is a matter of one cluster.
    ///
    /// # Errors
    /// If somebody holds it: then nothing is changed.
    pub fn remove_unused(&self, key: &K) -> Result<Option<V>, InUse> {
        self.take_out(key, true)
    }

    fn take_out(&self, key: &K, unused: bool) -> Result<Option<V>, InUse> {
        let (me, anchor) = (self.here(), self.anchor(key));
        let Some((at, mut first, mut home)) = self.both(me, key) else { return Ok(None) };
        let noted = home.as_ref().unwrap_or(&first).at_home().clusters();
        let replicas: Vec<_> = noted
            .into_iter()
            .filter(|&cluster| cluster != at && cluster != anchor)
            .filter_map(|cluster| Some((cluster, self.instance_at(me, cluster, key)?)))
            .collect();
        if unused {
            let counts = replicas.iter().map(|(_, instance)| instance).chain(&home).chain([&first]);
            if counts.map(|instance| instance.used()).sum::<usize>() > 0 {
                return Err(InUse);
            }
        }
        let instances = replicas.iter().map(|(cluster, instance)| (*cluster, instance));
        let ends = home.iter().map(|home| (at, home)).chain([(anchor, &first)]);
        for (cluster, instance) in instances.chain(ends) {
            self.take_copies(me, cluster, key, instance, Then::Drop, &mut Vec::new());
        }
        if let Some(home) = &mut home {
            // The anchor becomes the home: who panics from here on leaves the element whole.
            let role = std::mem::replace(&mut home.role, Role::Away(anchor));
            let stale = std::mem::replace(&mut first.value, home.value.take());
            first.role = role;
            first.at_home().forget(anchor);
            first.at_home().note(at);
            drop(stale);
        }
        let others = replicas.into_iter().chain(home.map(|home| (at, home)));
        // The anchor's last (I1). Each is dropped here, without a lane.
        others.for_each(|(cluster, instance)| drop(self.call(me, cluster, |map| map.remove_entry(key, instance))));
        let last = self.call(me, anchor, |map| {
            let last = map.remove_entry(key, first);
            // Where the element goes, so that no panic comes between.
            self.counters(anchor).keys.fetch_sub(1, Ordering::Relaxed);
            last
        });
        let (_, instance) = last.unwrap_or_else(|| unreachable!("reserved by the caller"));
        Ok(instance.and_then(|instance| instance.value))
    }

    /// Drops all replicas of an element; who reads it next asks for a new one. False if there is no such key.
    pub fn invalidate(&self, key: &K) -> bool {
        let ways = Ways { protocol: Protocol::Pessimistic, change: Change::Invalidate, moves_after: None };
        self.update_by(ways, key, |_| ()).is_some()
    }

    /// Moves an element's home to another cluster. The old home keeps a replica. False if there is no such key.
    ///
    /// # Panics
    /// If there is no such cluster.
    pub fn migrate(&self, key: &K, to: usize) -> bool {
        assert!(to < self.clusters.len(), "there are {} clusters", self.clusters.len());
        let (me, anchor) = (self.here(), self.anchor(key));
        let Some((at, mut first, mut home)) = self.both(me, key) else { return false };
        if at == to {
            return true;
        }
        let place = || {
            let mut stale = Some(Instance::stale(anchor));
            never(self.clusters[to].instances.find_or_place(key.clone(), &mut stale, || None)).0
        };
        let mut target = (to != anchor).then(place);
        let old = home.as_mut().unwrap_or(&mut first);
        let value = old.valid().clone();
        let role = std::mem::replace(&mut old.role, Role::Away(to));
        if let Role::Home(home) = &role {
            home.forget(to);
            home.note(at);
        }
        if anchor != at {
            first.role = Role::Away(to);
        }
        let new = target.as_mut().unwrap_or(&mut first);
        // What it was goes when all is in its place: it may panic.
        let replica = new.value.replace(value);
        new.role = role;
        count::<World<W>>(&self.counters(to).moved);
        drop(replica);
        true
    }
}
