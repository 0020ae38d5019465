//! Calls of a [`ReserveMap`] that ask, before they wait, whether there is something to do instead: what a map over
//! several of them needs ([`crate::lock::Clustered`]), where who waits in one may hold what it waits for in another.

use super::element::{Kind, World};
use super::{ReserveMap, Reserved, Shared, Waits};
use crate::lock::Algorithm;
use std::convert::Infallible;
use std::hash::{BuildHasher, Hash};

impl<K, V, A, W, S> ReserveMap<K, V, A, W, S>
where
    K: Hash + Eq,
    A: Algorithm<World<W>>,
    W: Waits,
    S: BuildHasher + Clone,
{
    /// As [`ReserveMap::reserve`]; before it waits it asks `instead` for what to return instead.
    pub(in crate::lock) fn reserve_unless<G>(
        &self,
        key: &K,
        mut instead: impl FnMut() -> Option<G>,
    ) -> Result<Option<Reserved<'_, V, W>>, G> {
        Ok(self.take(key, Kind::Exclusive, true, |_| instead())?.map(Reserved))
    }

    /// As [`ReserveMap::read`]; before it waits it asks `instead` for what to return instead.
    pub(in crate::lock) fn read_unless<G>(
        &self,
        key: &K,
        mut instead: impl FnMut() -> Option<G>,
    ) -> Result<Option<Shared<'_, V, W>>, G> {
        Ok(self.take(key, Kind::Shared, true, |_| instead())?.map(Shared))
    }

    /// The element once more, if the calling thread reads it already. Waits for nobody.
    pub(in crate::lock) fn read_again(&self, key: &K) -> Option<Shared<'_, V, W>> {
        let name = W::me();
        let (element, place) = self.part(key).with(|table| {
            let element = table.get(key).filter(|element| name != 0 && element.names.has(name))?;
            let again = element.reservation.try_shared_again();
            again.then(|| (element.clone(), Some(element.names.beside_others(name))))
        })?;
        Some(Shared(self.held(element, Kind::Shared, place)))
    }
}

/// What comes of a call that has nothing to do instead of waiting.
pub(in crate::lock) fn never<T>(result: Result<T, Infallible>) -> T {
    let Ok(it) = result;
    it
}
