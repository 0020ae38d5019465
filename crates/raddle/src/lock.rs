//! Locks for where several processors meet on one structure: those of [`raddle_scheduler::lock`] on this machine.
//!
//! For threads, [`crate::sync::Mutex`] is the lock to begin with. [`Fair`] serves threads in the order of their coming,
//! and parks those who wait. The others spin: they are for kernel threads that own their cores, or for a hold of a few
//! instructions. Which one to choose, and what each promises, is told in [`raddle_scheduler::lock`]; `docs/locks.md`
//! has the figures.
//!
//! ```
//! use raddle::lock::{Fair, Lock};
//! let line = Lock::<Vec<u32>, Fair>::new(Vec::new());
//! let pool = raddle::Builder::new().processors(2).build().unwrap();
//! pool.run(|| raddle::scope(|scope| {
//!     for number in 0..3 {
//!         let line = &line;
//!         scope.spawn(move || line.with(|line| line.push(number)));
//!     }
//! }));
//! assert_eq!(line.into_inner().len(), 3);
//! ```

pub use crate::topology::{Grouping, Topology};

use crate::Host;
use raddle_machine::Real;
use raddle_scheduler::lock as generic;

/// The machine that these locks are for.
pub use raddle_machine::Real as Machine;

pub use generic::{Algorithm, Busy, Change, ClusterStats, Clusters, Full, InUse, Job, Protocol, Seat, Waits, Ways};

/// The optimistic protocol: reserve what is needed here, then do the remote part with it; if that meets a reservation,
/// give up and begin again. See [`raddle_scheduler::lock::optimistic`].
///
/// ```
/// use raddle::lock::{ReserveMap, optimistic};
/// let (here, there): (ReserveMap<u32, u32>, ReserveMap<u32, u32>) = (ReserveMap::new(), ReserveMap::new());
/// here.insert(1, 1);
/// there.insert(1, 2);
/// let (mine, remote, retries) = optimistic(|| here.reserve(&1), |_| there.try_reserve(&1));
/// assert_eq!((mine.as_deref(), remote.as_deref(), retries), (Some(&1), Some(&2), 0));
/// ```
///
/// # Panics
/// If what the remote part meets is held by the calling thread.
pub fn optimistic<L, T>(reserve: impl FnMut() -> L, remote: impl FnMut(&mut L) -> Result<T, Busy>) -> (L, T, u32) {
    generic::optimistic::<Host, L, T>(reserve, remote)
}

/// A value behind a lock of the given algorithm: [`raddle_scheduler::lock::Lock`].
pub type Lock<T, A> = generic::Lock<T, A, Real>;
/// A waiter's node, ready to be used: [`raddle_scheduler::lock::Place`].
pub type Place<A> = generic::Place<A, Real>;
/// The right to a lock's value: [`raddle_scheduler::lock::Guard`].
pub type Guard<'a, T, A> = generic::Guard<'a, T, A, Real>;

/// [`crate::sync::Mutex`]'s algorithm: no order, who waits parks.
pub type Barging = generic::Barging<Host>;
/// A concurrent hash map whose elements can be kept for long while others pass: [`raddle_scheduler::lock::ReserveMap`].
///
/// ```
/// use raddle::lock::ReserveMap;
/// let pages: ReserveMap<&str, String> = ReserveMap::new();
/// let page = pages.reserve_or_make("index", |_| Ok::<_, std::io::Error>(String::from("hello"))).unwrap();
/// // However long `page` is kept, others pass.
/// pages.insert("about", String::from("us"));
/// assert_eq!((page.as_str(), pages.len()), ("hello", 2));
/// ```
pub type ReserveMap<K, V, S = std::collections::hash_map::RandomState> = generic::ReserveMap<K, V, Barging, Parking, S>;
/// The right to use an element of a [`ReserveMap`] alone.
pub type Reserved<'a, V> = generic::Reserved<'a, V, Parking>;
/// The right to read an element of a [`ReserveMap`].
pub type Shared<'a, V> = generic::Shared<'a, V, Parking>;

/// A reserve bit, exclusive or shared, for elements of a structure of one's own: set under the lock of the structure,
/// several under one hold if need be, and ended without it.
///
/// ```
/// use raddle::lock::{Barging, Lock, Parking, Reservation, Waits};
/// // Two accounts, the lock under which their bits are set, and where those wait who find one reserved.
/// let accounts = [Reservation::new(), Reservation::new()];
/// let (table, waits) = (Lock::<(), Barging>::new(()), Parking::new());
/// // Both or none, under one hold. Who has waited for one says so, and wakes the next one who waits in the end.
/// let both = |waited: Option<usize>| {
///     let take = |which: usize| accounts[which].try_exclusive_covering(waited == Some(which));
///     table.with(|()| {
///         let (first, second) = (take(0), take(1));
///         if first != second {
///             accounts[usize::from(second)].end_exclusive(&waits);
///         }
///         first && second
///     })
/// };
/// assert!(both(None) && !both(None));
/// // To wait: say so under the lock, wait without it, then lock and search again. (Here they end in between.)
/// let waits_for_it = table.with(|()| accounts[1].prepare::<Parking>());
/// accounts.iter().for_each(|account| account.end_exclusive(&waits));
/// accounts[1].wait(&waits);
/// assert!(waits_for_it && both(Some(1)));
/// ```
pub type Reservation = generic::Reservation<Real>;
/// Waits for the end of a [`Reservation`] parked.
pub type Parking = generic::Parking<Host>;
/// Waits for the end of a [`Reservation`] with pauses that grow: for kernel threads that own their cores.
pub type Spinning = generic::Spinning<Real>;

/// An order among the maps that a program keeps elements of at the same time: [`raddle_scheduler::lock::Order`].
pub type Order = generic::Order<Barging, Real>;

/// A concurrent hash map with a table in each cluster of processors, which replicates what is read in several:
/// [`raddle_scheduler::lock::Clustered`]. `C` says who belongs together: by default those that share the last cache, or
/// as `RADDLE_CLUSTERS` says ([`Topology::machine`]).
///
/// ```
/// use raddle::lock::{Clustered, Topology};
/// let routes: Clustered<String, u32> = Clustered::over(Topology::machine());
/// routes.insert("home".into(), 7);
/// // From the caller's cluster: asked for once, wherever the element is at home.
/// assert_eq!(routes.get(&"home".into()), Some(7));
/// // When this returns, nobody reads what was there before, in any cluster.
/// routes.update(&"home".into(), |hops| *hops += 1).unwrap();
/// assert_eq!((routes.get(&"home".into()), routes.len()), (Some(8), 1));
/// ```
pub type Clustered<K, V, C = std::sync::Arc<Topology>, S = std::collections::hash_map::RandomState> =
    generic::Clustered<K, V, Barging, Parking, C, S>;
/// The right to read an element of a [`Clustered`].
pub type Replica<'a, V> = generic::Replica<'a, V, Parking>;
/// The right to read an element of a [`Clustered`] from the calling processor's copy.
pub type Here<'a, V> = generic::Here<'a, V, Parking>;
/// Keeps an element of a [`Clustered`] from being removed as unused.
pub type Hold = generic::Hold<Real>;

/// First come, first served, for threads: who waits parks.
pub type Fair = generic::Parked<Host>;
/// Test-and-set with exponential back-off.
pub type Spin = generic::Spin<Real>;
/// A few tries, then a queue: what [`H1Mcs`] and [`H2Mcs`] make unnecessary.
pub type SpinThenQueue = generic::SpinThenQueue<Real>;
/// The queue lock of Mellor-Crummey and Scott.
pub type Mcs = generic::Mcs<Real>;
/// With nodes that are ready.
pub type H1Mcs = generic::H1Mcs<Real>;
/// Moreover without a look for a successor.
pub type H2Mcs = generic::H2Mcs<Real>;
/// As [`Mcs`] for machines that only swap: an unlock may have to repair the queue, and let others overtake.
pub type SwapMcs = generic::SwapMcs<Real>;
/// As [`H1Mcs`], by swaps alone.
pub type SwapH1Mcs = generic::SwapH1Mcs<Real>;
/// As [`H2Mcs`], by swaps alone, as the paper has it.
pub type SwapH2Mcs = generic::SwapH2Mcs<Real>;
/// A queue without links.
pub type Hemlock = generic::Hemlock<Real>;
/// Arrivals on a stack, served segment by segment.
pub type Reciprocating = generic::Reciprocating<Real>;
/// A queue that prefers the holder's cluster for a while: as [`Topology::machine`] groups cores, or as
/// [`Place::in_cluster`](raddle_scheduler::lock::Place::in_cluster) says.
pub type Cna = generic::Cna<Real, Topology>;
/// A queue lock that can be tried.
pub type TryMcs = generic::TryMcs<Real>;
/// What one needs to try a lock of [`TryMcs`].
pub type Trying = generic::Trying<Real>;
/// The right to the value of a lock that was tried.
pub type TryGuard<'a, T> = generic::TryGuard<'a, T, Real>;
/// A thread's place for one lock, by which a handler that has interrupted it there is refused:
/// [`raddle_scheduler::lock::Lock::with_own`].
///
/// ```
/// use raddle::lock::{H2Mcs, Lock, Own};
/// let (lock, own) = (Lock::<u32, H2Mcs>::new(1), Own::<H2Mcs>::new());
/// let refused = lock.with_own(&own, |value| {
///     *value += 1;
///     // What a handler finds that comes just now.
///     lock.with_own(&own, |_| ()).is_none()
/// });
/// assert_eq!(refused, Some(true));
/// ```
pub type Own<A> = generic::Own<A, Real>;
/// A value to which work can be left instead of waiting for it.
pub type Deferred<T> = generic::Deferred<T, Real>;
/// What who takes a [`Deferred`] without a closure lends to it.
pub type Turn = generic::Turn<Real>;
/// A processor's flag that makes handlers leave their work.
pub type Masked = generic::Masked<Real>;
