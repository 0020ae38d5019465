//! Clusters: processors in groups, each with tables of its own, so that few meet on a lock and what all read is near
//! everybody.
//!
//! Source: Unrau et al., sections 2.2, 2.3, 5.1 and 5.2 ("hierarchical clustering"). Differs from the paper: there a
//! remote call runs on the i-th processor of the other cluster, which is locked meanwhile; here the caller itself
//! goes there, through the *lane* of that processor, and parks while another caller is in it. So no more callers meet
//! in a cluster than it has processors, and no processor is part of a dead-lock. A caller holds a lane only while it
//! looks into a table: never while it waits, copies a value or calls its user.
//!
//! [`Clusters`] says who belongs together, [`Clustered`] is a map whose elements are replicated on demand.

mod map;

pub use map::{Clustered, Here, Hold, InUse, Replica};

use std::sync::Arc;

/// A processor's number within its cluster, and the cluster's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Which cluster, from 0.
    pub cluster: usize,
    /// Which of its processors, from 0.
    pub member: usize,
}

/// How processors are grouped.
///
/// What [`Clusters::here`] says is a hint: a thread may be elsewhere a moment later, and whoever acts on it is still
/// right, only farther away.
///
/// # Example
/// ```
/// use raddle_scheduler::lock::{Clusters, Seat};
/// /// Two clusters of two; kernel threads are told their place.
/// struct Two;
/// thread_local!(static SEAT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) });
/// impl Clusters for Two {
///     fn count(&self) -> usize {
///         2
///     }
///     fn members(&self, _: usize) -> usize {
///         2
///     }
///     fn here(&self) -> Seat {
///         Seat { cluster: SEAT.get() / 2, member: SEAT.get() % 2 }
///     }
/// }
/// SEAT.set(3);
/// assert_eq!(Two.here(), Seat { cluster: 1, member: 1 });
/// ```
pub trait Clusters: Send + Sync {
    /// How many clusters there are: one at least, and always as many.
    fn count(&self) -> usize;

    /// How many processors a cluster has: one at least, and always as many.
    fn members(&self, cluster: usize) -> usize;

    /// Where the caller runs. Numbers beyond the counts are taken modulo.
    fn here(&self) -> Seat;

    /// Carries a call from one seat to one of another cluster: what it costs on a machine whose costs are simulated.
    fn carry<R>(&self, from: Seat, to: Seat, call: impl FnOnce() -> R) -> R {
        let _ = (from, to);
        call()
    }
}

impl<C: Clusters> Clusters for Arc<C> {
    fn count(&self) -> usize {
        (**self).count()
    }

    fn members(&self, cluster: usize) -> usize {
        (**self).members(cluster)
    }

    #[inline]
    fn here(&self) -> Seat {
        (**self).here()
    }

    fn carry<R>(&self, from: Seat, to: Seat, call: impl FnOnce() -> R) -> R {
        (**self).carry(from, to, call)
    }
}

/// How an operation keeps out of a circle of clusters that wait for each other (section 2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The caller's cluster has an instance, which stays reserved while the home is asked: others of the cluster wait
    /// for this one request. The request fails if it meets a reservation; then all that is held is given up, the
    /// caller waits where it failed, and begins again.
    #[default]
    Optimistic,
    /// Nothing is held while the home is asked, so the request may wait there. The caller's cluster does not get an
    /// instance by it.
    Pessimistic,
}

/// What becomes of the replicas when an element changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Change {
    /// They are dropped; who reads next in a cluster asks for a new one. For elements that change often.
    #[default]
    Invalidate,
    /// They get the new value. For elements that are read everywhere after each change.
    Broadcast,
}

/// How a map's operations go about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// How a dead-lock is avoided.
    pub protocol: Protocol,
    /// What becomes of replicas.
    pub change: Change,
    /// After so many changes in turn from one cluster, while no other has a replica, an element moves there. `None`:
    /// it stays.
    pub moves_after: Option<u32>,
}

/// What a cluster's processors have done; racy sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterStats {
    /// Calls to other clusters, of all kinds.
    pub calls: u64,
    /// Requests for a replica that were answered.
    pub replicated: u64,
    /// Requests that met a reservation, gave up what they had, and began again.
    pub retries: u64,
    /// Replicas of other clusters that a change from here dropped.
    pub invalidated: u64,
    /// Replicas of other clusters that a change from here renewed.
    pub renewed: u64,
    /// Copies that were made for single processors of this cluster.
    pub copied: u64,
    /// Copies of single processors, anywhere, that a change from here renewed.
    pub copies_renewed: u64,
    /// Elements that moved to this cluster.
    pub moved: u64,
}
