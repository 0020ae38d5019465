//! A concurrent hash map whose elements can be kept for long: hybrid locking, after Unrau et al., section 2.
//!
//! Each part of the map has one coarse lock, held while somebody searches and reserves, never while somebody uses an
//! element. So whoever holds an element may do with the map what it likes, other parts and the same one, but reserve
//! that element again. An element that is made on demand is inserted before it is made, reserved: others who want it
//! wait for that one request ("combining", section 2.2).
//!
//! Invariants: I1. A value is used by who holds its reservation, exclusively or for reading. I2. A value is absent
//! only in a place-holder, which is reserved, and in an element that is out of the map. Whose key panics while a
//! place-holder is taken out leaves it there: it counts as absent, and who puts the key there again has it. I3. Nobody
//! holds a coarse lock while it waits, calls a closure of the user or drops a value.
//!
//! Progress: blocking on holders of elements. Who waits for several elements holds none of them meanwhile, so there is
//! no dead-lock among those who reserve by one call; who holds an element and waits for another one must keep an order,
//! or use [`optimistic`]. Memory: elements are counted.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::lock::{H2Mcs, ReserveMap, Spinning};
//! let map = ReserveMap::<&str, u32, H2Mcs<Real>, Spinning<Real>>::new();
//! map.insert("a", 1);
//! let mut a = map.reserve(&"a").unwrap();
//! // Others pass meanwhile, and so may we.
//! map.insert("b", 2);
//! assert!(map.try_reserve(&"a").is_err());
//! *a += 1;
//! drop(a);
//! assert_eq!((map.get(&"a"), map.get(&"b"), map.len()), (Some(2), Some(2), 2));
//! ```

use super::element::{Covered, Element, Kind, World};
use super::guards::{Held, Reserved, Shared};
use super::names::Place;
#[cfg(debug_assertions)]
use super::order::{Class, Leaves};
use super::unless::never;
use super::{Order, Reservation, Waits};
use crate::lock::{Algorithm, Lock};
use crate::runtime::Runtime;
use raddle_machine::Machine;
use raddle_queues::pad::Padded;
use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// Parts of a map, if nothing else is asked for. Measured on two busy cores of an AMD EPYC, 2 and 8 kernel threads and
/// 1,024 elements: with 1 to 64 parts the processor time of an operation differs by less than the rounds do (60 to 92
/// ns), with 256 a read takes 88 (2026-11-27). So it is as many as a chip or two have cores.
const PARTS: usize = 16;

/// Elements under one coarse lock.
#[expect(clippy::type_complexity, reason = "each parameter is the map's own")]
struct Part<K, V, A, W: Waits, S> {
    lock: Padded<Lock<Table<K, V, W, S>, A, World<W>>>,
}

pub(super) type Table<K, V, W, S> = HashMap<K, Arc<Element<V, World<W>>>, S>;

/// See the module.
#[expect(clippy::type_complexity, reason = "as in `Part`")]
pub struct ReserveMap<K, V, A, W: Waits, S = RandomState> {
    parts: Box<[Part<K, V, A, W, S>]>,
    hash: S,
    waits: W,
    #[cfg(debug_assertions)]
    class: Option<Class<A, World<W>>>,
}

/// Somebody holds the element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    /// The calling thread itself is known to hold it, alone or for reading: each try fails until it gives that up.
    /// Never known where waits do not park.
    pub by_caller: bool,
}

impl std::fmt::Display for Busy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.by_caller {
            "the caller itself has reserved the element"
        } else {
            "the element is reserved"
        })
    }
}

impl std::error::Error for Busy {}

impl<K, V, A, W> ReserveMap<K, V, A, W>
where
    K: Hash + Eq,
    A: Algorithm<World<W>>,
    W: Waits,
{
    /// An empty map.
    pub fn new() -> Self {
        Self::with_parts(PARTS, RandomState::new())
    }
}

impl<K, V, A, W> Default for ReserveMap<K, V, A, W>
where
    K: Hash + Eq,
    A: Algorithm<World<W>>,
    W: Waits,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V, A, W, S> ReserveMap<K, V, A, W, S>
where
    K: Hash + Eq,
    A: Algorithm<World<W>>,
    W: Waits,
    S: BuildHasher + Clone,
{
    /// An empty map of so many parts, each with a lock.
    ///
    /// # Panics
    /// If there is no part.
    pub fn with_parts(parts: usize, hash: S) -> Self {
        assert!(parts > 0, "a map has a part at least");
        let part = |_| Part { lock: Padded(Lock::new(HashMap::with_hasher(hash.clone()))) };
        Self {
            parts: (0..parts).map(part).collect(),
            waits: W::new(),
            hash,
            #[cfg(debug_assertions)]
            class: None,
        }
    }

    /// With a place in an order: who holds an element waits for those of later classes alone. It is checked where
    /// assertions are compiled in, and the map parks its threads ([`Order`]).
    #[must_use]
    #[cfg_attr(not(debug_assertions), expect(unused_mut, reason = "nothing is kept then"))]
    pub fn in_order(mut self, order: &Arc<Order<A, World<W>>>, class: u32) -> Self {
        #[cfg(debug_assertions)]
        {
            self.class = Some(Class::new(order.clone(), class));
        }
        let _ = (order, class);
        self
    }

    pub(super) fn part(&self, key: &K) -> &Lock<Table<K, V, W, S>, A, World<W>> {
        // The table inside places elements by the low bits, and tells them apart by the highest.
        let hash = self.hash.hash_one(key) >> 24 & 0xffff_ffff;
        &self.parts[hash as usize % self.parts.len()].lock.0
    }

    /// # Panics
    /// With assertions: if the caller holds what forbids it to wait for an element of this map.
    #[inline(always)]
    fn assert_in_order(&self) {
        #[cfg(debug_assertions)]
        if let Some(class) = self.class.as_ref().filter(|_| W::me() != 0) {
            class.assert_may_wait(W::me());
        }
    }

    /// Reserves the element of a key. Each time it is reserved, `instead` is asked: what it gives ends the call, else
    /// this waits, which only the `patient` do.
    pub(super) fn take<G>(
        &self,
        key: &K,
        kind: Kind,
        patient: bool,
        mut instead: impl FnMut(&Element<V, World<W>>) -> Option<G>,
    ) -> Result<Option<Held<'_, V, W>>, G> {
        if patient {
            self.assert_in_order();
        }
        let part = self.part(key);
        let mut covered = Covered::new(&self.waits);
        loop {
            let found = part.with(|table| {
                let element = table.get(key)?;
                Some((element.clone(), Self::try_element(element, kind, patient, covered.is(element))))
            });
            let Some((element, looked)) = found else {
                return Ok(None);
            };
            match looked {
                Looked::Ours(place) => {
                    covered.has(&element, kind);
                    let held = self.held(element, kind, place);
                    return Ok(held.has_value().then_some(held));
                }
                Looked::Over => {}
                Looked::Reserved => match instead(&element) {
                    // If it has marked the element, who ends the reservation looks for one to wake, and goes on.
                    Some(given) => return Err(given),
                    None => self.wait(element, kind, &mut covered),
                },
            }
        }
    }

    fn try_element(element: &Element<V, World<W>>, kind: Kind, patient: bool, covers: bool) -> Looked {
        let name = W::me();
        let ours = match kind {
            Kind::Exclusive => element.reservation.try_exclusive_covering(covers),
            Kind::Shared => {
                element.reservation.try_shared()
                    || name != 0 && element.names.has(name) && element.reservation.try_shared_again()
            }
        };
        match ours {
            true => Looked::Ours((name != 0).then(|| match kind {
                Kind::Exclusive => element.names.alone(name),
                Kind::Shared => element.names.beside_others(name),
            })),
            false if !patient => Looked::Reserved,
            false => {
                let waits = match kind {
                    Kind::Exclusive => element.reservation.prepare::<W>(),
                    Kind::Shared => element.reservation.prepare_shared::<W>(),
                };
                if waits { Looked::Reserved } else { Looked::Over }
            }
        }
    }

    pub(super) fn held(&self, element: Arc<Element<V, World<W>>>, kind: Kind, place: Option<Place>) -> Held<'_, V, W> {
        Held {
            element,
            kind,
            place,
            waits: &self.waits,
            #[cfg(debug_assertions)]
            entered: self.class.as_ref().filter(|_| W::me() != 0).map(|class| {
                class.enter(W::me());
                (class as &dyn Leaves, W::me())
            }),
        }
    }

    /// True if the calling thread is known to hold it, alone or as a reader.
    fn is_callers(element: &Element<V, World<W>>) -> bool {
        let me = W::me();
        me != 0 && element.names.has(me)
    }

    /// What ends a try.
    fn busy(element: &Element<V, World<W>>) -> Option<Busy> {
        Some(Busy { by_caller: Self::is_callers(element) })
    }

    /// # Panics
    /// If the caller holds it itself, alone or as a reader.
    fn wait(&self, element: Arc<Element<V, World<W>>>, kind: Kind, covered: &mut Covered<'_, V, W>) {
        if Self::is_callers(&element) {
            panic!("a thread waits for an element that it holds already: it would wait for itself for ever");
        }
        covered.waits_for(&element);
        match kind {
            Kind::Exclusive => element.reservation.wait(&self.waits),
            Kind::Shared => element.reservation.wait_shared(&self.waits),
        }
        covered.has_waited(element);
    }

    /// The element for the caller alone, as long as it likes; waits while others have it. None if there is no such key
    /// (any more).
    ///
    /// # Panics
    /// If it would have to wait, and the calling thread itself holds it, alone or as a reader, and the map parks its
    /// threads. A guard counts for the thread that took it. So do the other calls that wait.
    pub fn reserve(&self, key: &K) -> Option<Reserved<'_, V, W>> {
        never(self.reserve_unless(key, || None))
    }

    /// As [`ReserveMap::reserve`], but does not wait: what a remote request does, which then goes back
    /// ([`optimistic`]).
    ///
    /// # Errors
    /// If somebody has the element.
    pub fn try_reserve(&self, key: &K) -> Result<Option<Reserved<'_, V, W>>, Busy> {
        Ok(self.take(key, Kind::Exclusive, false, Self::busy)?.map(Reserved))
    }

    /// The element for reading, together with other readers; waits while somebody has it alone, or waits for it. A
    /// thread that reads it already may read it again, whoever waits.
    pub fn read(&self, key: &K) -> Option<Shared<'_, V, W>> {
        never(self.read_unless(key, || None))
    }

    /// As [`ReserveMap::read`], but does not wait.
    ///
    /// # Errors
    /// If somebody has the element alone, or waits for it and the caller does not read it already.
    pub fn try_read(&self, key: &K) -> Result<Option<Shared<'_, V, W>>, Busy> {
        Ok(self.take(key, Kind::Shared, false, Self::busy)?.map(Shared))
    }

    /// A copy of a value; waits while somebody has it alone.
    pub fn get(&self, key: &K) -> Option<V>
    where
        V: Clone,
    {
        self.read(key).map(|value| value.clone())
    }

    /// Several elements for the caller alone, in the order of `keys`; those that are absent are left out. While it
    /// waits for one of them it holds none, so those who reserve by this call never wait for each other in a circle;
    /// and all try in one order, so that who has the last one that others want has what is before it. A key that is
    /// named twice counts once.
    pub fn reserve_all<'k>(&self, keys: impl IntoIterator<Item = &'k K>) -> Vec<Reserved<'_, V, W>>
    where
        K: 'k,
    {
        self.assert_in_order();
        let mut named = HashSet::with_hasher(self.hash.clone());
        let wanted: Vec<&K> = keys.into_iter().filter(|key| named.insert(*key)).collect();
        let mut order: Vec<usize> = (0..wanted.len()).collect();
        order.sort_by_cached_key(|at| self.hash.hash_one(wanted[*at]));
        let mut waited_for: Option<(usize, Reserved<'_, V, W>)> = None;
        loop {
            let mut all: Vec<Option<Reserved<'_, V, W>>> = wanted.iter().map(|_| None).collect();
            // Kept, so that those who wait behind are not woken to find it taken.
            if let Some((at, element)) = waited_for.take() {
                all[at] = Some(element);
            }
            let busy = order.iter().find(|at| {
                all[**at].is_none()
                    && match self.try_reserve(wanted[**at]) {
                        Ok(element) => {
                            all[**at] = element;
                            false
                        }
                        Err(Busy { .. }) => true,
                    }
            });
            let Some(at) = busy else { return all.into_iter().flatten().collect() };
            // Local reservations are given up before the retry (section 2.3).
            drop(all);
            waited_for = self.reserve(wanted[*at]).map(|element| (*at, element));
        }
    }

    /// Puts a value there, and returns what was there before; waits while others have the element.
    pub fn insert(&self, key: K, value: V) -> Option<V> {
        let mut value = Some(value);
        let (mut element, _) = never(self.find_or_place(key, &mut value, || None));
        // If an element was there, it is ours now.
        value.map(|value| std::mem::replace(&mut *element, value))
    }

    /// The element for the caller alone, made by `make` if there is none. While it is made others wait for this one
    /// request, and do not make it again; `make` may take long, and use the map.
    ///
    /// # Errors
    /// What `make` says; the element is not there then. The same if it panics: those who wait search again, and find
    /// nothing.
    pub fn reserve_or_make<E>(&self, key: K, make: impl FnOnce(&K) -> Result<V, E>) -> Result<Reserved<'_, V, W>, E>
    where
        K: Clone,
    {
        let (element, placed) = never(self.find_or_place(key.clone(), &mut None, || None));
        if !placed {
            return Ok(element);
        }
        let mut maker = Maker { map: self, key: &key, element: Some(element) };
        let value = make(&key)?;
        let Some(element) = maker.element.take() else { unreachable!("it was put in above") };
        // SAFETY: the reservation is exclusive (I1).
        unsafe { *element.0.element.value.get() = Some(value) };
        Ok(element)
    }

    /// The element, reserved: found, or placed now with the value that there is. Whether it was placed. Before it waits
    /// it asks `instead` for what to return instead.
    pub(in crate::lock) fn find_or_place<G>(
        &self,
        key: K,
        value: &mut Option<V>,
        mut instead: impl FnMut() -> Option<G>,
    ) -> Result<(Reserved<'_, V, W>, bool), G> {
        self.assert_in_order();
        let part = self.part(&key);
        let mut key = Some(key);
        let mut covered = Covered::new(&self.waits);
        // Owned out here, so that a panic in the key's hash drops the value without the lock (I3).
        let mut new = None;
        loop {
            let (element, looked, placed) = part.with(|table| {
                if let Some(element) = key.as_ref().and_then(|key| table.get(key)) {
                    let looked = Self::try_element(element, Kind::Exclusive, true, covered.is(element));
                    return (element.clone(), looked, false);
                }
                let element = new.insert(Element::new(Reservation::exclusive(), value.take())).clone();
                table.extend(key.take().map(|key| (key, element.clone())));
                let name = W::me();
                let place = (name != 0).then(|| element.names.alone(name));
                (element, Looked::Ours(place), true)
            });
            match looked {
                Looked::Ours(place) => {
                    covered.has(&element, Kind::Exclusive);
                    let held = self.held(element, Kind::Exclusive, place);
                    let left = !placed && !held.has_value();
                    if left {
                        // SAFETY: the reservation is exclusive (I1).
                        unsafe { *held.element.value.get() = value.take() };
                    }
                    return Ok((Reserved(held), placed || left));
                }
                Looked::Over => {}
                Looked::Reserved => match instead() {
                    Some(given) => return Err(given),
                    None => self.wait(element, Kind::Exclusive, &mut covered),
                },
            }
        }
    }

    /// Takes an element out, and waits for it while others have it.
    pub fn remove(&self, key: &K) -> Option<V> {
        let element = self.reserve(key)?;
        self.remove_reserved(key, element)
    }

    /// Takes an element out that the caller has. None if `element` is not the one of that key: then nothing is changed.
    pub fn remove_reserved(&self, key: &K, element: Reserved<'_, V, W>) -> Option<V> {
        self.remove_entry(key, element).and_then(|(_, value)| value)
    }

    /// As [`ReserveMap::remove_reserved`]; what is to be dropped is the caller's.
    pub(in crate::lock) fn remove_entry(&self, key: &K, element: Reserved<'_, V, W>) -> Option<(K, Option<V>)> {
        let removed = self.part(key).with(|table| {
            let ours = table.get(key).is_some_and(|found| Arc::ptr_eq(found, &element.0.element));
            ours.then(|| table.remove_entry(key)).flatten()
        });
        removed.map(|(key, _)| {
            // SAFETY: the reservation is exclusive (I1); those who wait for it will search again, and not find it.
            (key, unsafe { (*element.0.element.value.get()).take() })
        })
    }

    /// Puts a value there if there is none, and waits for nobody.
    ///
    /// # Errors
    /// What was given, if there is an element of that key, whoever has it.
    pub fn insert_new(&self, key: K, value: V) -> Result<(), (K, V)> {
        let element = Element::new(Reservation::new(), Some(value));
        let mut given = Some((key, element));
        self.part(given.as_ref().map_or_else(|| unreachable!("it was put in above"), |(key, _)| key)).with(|table| {
            if let Some((key, element)) = given.take_if(|(key, _)| !table.contains_key(key)) {
                table.insert(key, element);
            }
        });
        let Some((key, element)) = given else {
            return Ok(());
        };
        let value = Arc::into_inner(element).and_then(|element| element.value.into_inner());
        Err((key, value.unwrap_or_else(|| unreachable!("nobody has seen the element"))))
    }

    /// The keys that there are, one part after the other.
    pub fn keys(&self) -> Vec<K>
    where
        K: Clone,
    {
        self.parts.iter().flat_map(|part| part.lock.0.with(|table| table.keys().cloned().collect::<Vec<K>>())).collect()
    }

    /// How many elements there are, place-holders included.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.lock.0.with(|table| table.len())).sum()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `f` with each key and value that is there all the time, one after the other, waiting for those that others
    /// have; no lock is held meanwhile.
    pub fn for_each(&self, mut f: impl FnMut(&K, &mut V))
    where
        K: Clone,
    {
        for part in &self.parts {
            let keys: Vec<K> = part.lock.0.with(|table| table.keys().cloned().collect());
            for key in keys {
                if let Some(mut element) = self.reserve(&key) {
                    f(&key, &mut element);
                }
            }
        }
    }
}

enum Looked {
    /// And where the caller's name stands, if it has one.
    Ours(Option<Place>),
    Reserved,
    /// It was reserved, and is not any more.
    Over,
}

/// Takes a place-holder out if its value was not made.
struct Maker<'a, 'k, K: Hash + Eq, V, A: Algorithm<World<W>>, W: Waits, S: BuildHasher + Clone> {
    map: &'a ReserveMap<K, V, A, W, S>,
    key: &'k K,
    element: Option<Reserved<'a, V, W>>,
}

impl<K: Hash + Eq, V, A: Algorithm<World<W>>, W: Waits, S: BuildHasher + Clone> Drop for Maker<'_, '_, K, V, A, W, S> {
    fn drop(&mut self) {
        if let Some(element) = self.element.take() {
            self.map.remove_reserved(self.key, element);
        }
    }
}

/// The optimistic protocol of section 2.3: `reserve` what is needed here, then do the remote part with it; if that
/// meets a reservation, all that was reserved here is given up, and both begin again, after a pause in which other
/// threads run. So nobody waits for one who waits for it. How often it began again comes with the result.
///
/// # Panics
/// If what the remote part meets is held by the calling thread, as a [`Busy`] that [`ReserveMap::try_reserve`] or
/// [`ReserveMap::try_read`] has returned says: it would begin again for ever.
pub fn optimistic<R: Runtime, L, T>(
    mut reserve: impl FnMut() -> L,
    mut remote: impl FnMut(&mut L) -> Result<T, Busy>,
) -> (L, T, u32) {
    let mut retries: u32 = 0;
    loop {
        let mut local = reserve();
        match remote(&mut local) {
            Ok(result) => return (local, result, retries),
            Err(Busy { by_caller: true }) => panic!(
                "a thread tries an element that it holds already, again and again: it would wait for itself for ever"
            ),
            Err(Busy { by_caller: false }) => drop(local),
        }
        retries = retries.saturating_add(1);
        // Uneven, so that two that met do not meet again for ever.
        let pause = 1 + R::Machine::random() % (1 << retries.min(10));
        (0..pause).for_each(|_| R::Machine::spin_hint());
        // Who has the element may be a thread that waits for this processor.
        R::yield_now();
    }
}
