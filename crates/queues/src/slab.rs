//! A type-stable slab: objects of one type that are created in chunks, recycled without locks, and never unmapped.
//!
//! Source: the magazines of J. Bonwick and J. Adams, "Magazines and Vmem", 2001, section 3, over the stack of R. K.
//! Treiber, "Systems Programming: Coping with Parallelism", 1986. Differs from the papers: magazines are linked through
//! the objects, and a depot is one stack of such chains, its head tagged against reuse. There may be a depot for each
//! cluster of caches (R. Unrau et al., "Experiences with Locking in a NUMA Multiprocessor Operating System Kernel",
//! section 2.2): caches meet at that of their cluster, and when it is empty go to the others', in the order of
//! `own ^ 1`, `own ^ 2`, ..: near ones first, and at no step do two clusters go to the same one.
//!
//! Roles: a [`Cache`] (one user at a time) allocates and frees; anyone who has the [`Slab`] looks up and iterates, and
//! allocates and frees single objects at the depot itself, as a cache of one step would.
//!
//! Words: a depot = tag (high 32 bits) and 1 + index of the first object of the first chain (low 32 bits, 0: empty);
//! `created`, how many objects exist; `chunks[i]`, a chunk's address or null, set once; per object `link` (the next in
//! its chain) and `chain` (length of the chain it leads, and the first object of the next chain in its depot).
//!
//! | object | state changes to | by |
//! |---|---|---|
//! | absent | held by a cache: `created` moved past it, initialised | the cache that moved it |
//! | in a cache | in use | its user (`allocate`) |
//! | in use | in a cache | the user (`free`) |
//! | in a cache | in its cluster's depot: a whole chain, by one exchange | the cache |
//! | in a depot | in a cache: a whole chain, by one exchange | a cache |
//!
//! Invariants:
//! - I1. An object's address and type never change while the slab lives, so a late reader of a freed object reads an
//!   object of that type, initialised. (Users put an epoch or a state word into it.)
//! - I2. A chain is in one depot, once. A cache that pops loads the head, reads the first object's `chain`, exchanges
//!   the head: if that succeeds, no chain was pushed in between, as a push changes the tag; so the object stayed first
//!   and its `chain` is what was read. Tags repeat after 2^32 pushes within one load and exchange.
//! - I3. `iterate` visits an object only after its group's bit, which is set after initialisation.
//!
//! Progress: allocate and free without the depot are wait-free, with it lock-free; the system's allocator is called
//! once per chunk. Nothing is lost to a frozen user but its cache. Allocation failure is an `Err`, and changes nothing.
//!
//! Memory: given back when the slab is dropped, at the highest number of objects ever in use at once, rounded up to
//! groups. Chunks are touched group by group, so an unused rest costs address space only.
//!
//! Edges: `slab-push` → `slab-pop` (links of the chain, and what the last user wrote into the objects); `slab-chunk`
//! store → loads (flags of the chunk); `slab-ready` → iteration (the initialised objects).
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_queues::slab::Slab;
//! let slab = Slab::<u64, Real>::new(|index| u64::from(index) * 10);
//! let mut cache = slab.cache();
//! let object = cache.allocate().unwrap();
//! // SAFETY: the object is of this slab, and lives as long.
//! let (index, value) = unsafe { (slab.index_of(object), *object.as_ptr()) };
//! assert_eq!(value, u64::from(index) * 10);
//! assert_eq!(slab.get(index), Some(&value));
//! // SAFETY: it came from this slab and is not used any more.
//! unsafe { cache.free(object) };
//! ```

mod layout;

pub use layout::SlabLayout;

use crate::pad::Padded;
use raddle_machine::{Atomic, Machine, Ordering};
use std::alloc::Layout;
use std::mem::offset_of;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

/// Why no object could be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoObject {
    /// The system has no memory for a further chunk.
    OutOfMemory,
    /// As many objects as indices allow are in use.
    Limit,
}

impl std::fmt::Display for NoObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::OutOfMemory => "out of memory for a further chunk of objects",
            Self::Limit => "the slab's largest number of objects is in use",
        })
    }
}

impl std::error::Error for NoObject {}

/// Caches of a cluster, in the order of their processors' numbers. Measured on 128 simulated cores of an EPYC, half of
/// which take objects while the others give them back, all in step: an object takes 1.28 µs with 1 to 8 caches to a
/// depot (1.27 without any depot), 1.32 with 16, 1.58 with 32, 12.8 with 64, 17.4 with 128. (2026-11-27)
pub const TOGETHER: usize = 8;

/// Chunks are found through two levels of this many entries each.
const FAN_OUT: usize = 256;

#[repr(C)]
struct Object<T: 'static, M: Machine> {
    /// To an `Object<T, M>`; erased, since a type that contains an atomic pointer to itself overwhelms the trait
    /// solver.
    link: M::Atomic<*mut ()>,
    chain: M::Atomic<u64>,
    index: u32,
    value: T,
}

/// One leaf of the directory.
struct Leaf<T: 'static, M: Machine> {
    chunks: [M::Atomic<*mut Object<T, M>>; FAN_OUT],
    /// For each chunk a bit per group that is initialised.
    ready: [M::Atomic<u64>; FAN_OUT],
}

/// A chunk, and the leaf that it hangs on.
type ChunkOnLeaf<'a, T, M> = (&'a Leaf<T, M>, *mut Object<T, M>);

/// The objects, in chunks of `CHUNK` (at most 64 groups), made and recycled in groups of `GROUP`.
pub struct Slab<T: 'static, M: Machine, const GROUP: usize = 64, const CHUNK: usize = 4096> {
    /// One for each cluster of caches: a power of two.
    depots: Box<[Padded<M::Atomic<u64>>]>,
    created: Padded<M::Atomic<u32>>,
    leaves: Box<[M::Atomic<*mut Leaf<T, M>>]>,
    init: fn(u32) -> T,
}

// SAFETY: objects are shared by reference (`T: Sync`) and dropped by whoever drops the slab (`T: Send`); all else is
// atomic.
unsafe impl<T: Send + Sync + 'static, M: Machine, const G: usize, const C: usize> Send for Slab<T, M, G, C> {}
// SAFETY: shared, it gives `&T` (Sync), and free objects to whoever allocates them (Send).
unsafe impl<T: Send + Sync + 'static, M: Machine, const G: usize, const C: usize> Sync for Slab<T, M, G, C> {}

impl<T: Send + Sync + 'static, M: Machine, const GROUP: usize, const CHUNK: usize> Slab<T, M, GROUP, CHUNK> {
    const GROUPS: usize = {
        assert!(CHUNK.is_power_of_two() && CHUNK.is_multiple_of(GROUP) && CHUNK / GROUP <= 64);
        CHUNK / GROUP
    };
    const LIMIT: u64 = {
        let most = (FAN_OUT * FAN_OUT) as u64 * CHUNK as u64;
        let indices = u32::MAX as u64 - CHUNK as u64;
        if most < indices { most } else { indices }
    };

    /// A slab whose objects are made by `init`, once each, from their index. Allocates no object yet.
    pub fn new(init: fn(u32) -> T) -> Arc<Self> {
        Self::in_clusters(1, init)
    }

    /// As [`Slab::new`], with depots for so many processors: one for each [`TOGETHER`] of them.
    pub fn for_processors(processors: usize, init: fn(u32) -> T) -> Arc<Self> {
        Self::in_clusters(processors.div_ceil(TOGETHER), init)
    }

    /// As [`Slab::new`], with a depot for each of so many clusters of caches, rounded up to a power of two.
    pub fn in_clusters(clusters: usize, init: fn(u32) -> T) -> Arc<Self> {
        Arc::new(Self {
            depots: (0..clusters.next_power_of_two()).map(|_| Padded(M::Atomic::new(0))).collect(),
            created: Padded(M::Atomic::new(0)),
            leaves: (0..FAN_OUT).map(|_| M::Atomic::new(null_mut())).collect(),
            init,
        })
    }

    /// A cache: the way to allocate and free. Its objects go back to the slab when it is dropped.
    pub fn cache(self: &Arc<Self>) -> Cache<T, M, GROUP, CHUNK> {
        self.cache_in(0)
    }

    /// A cache of this processor, which belongs to the cluster of its number.
    pub fn cache_of(self: &Arc<Self>, processor: usize) -> Cache<T, M, GROUP, CHUNK> {
        self.cache_in(processor / TOGETHER)
    }

    /// A cache of one of the clusters; numbers beyond them are taken modulo.
    pub fn cache_in(self: &Arc<Self>, cluster: usize) -> Cache<T, M, GROUP, CHUNK> {
        let cluster = cluster & (self.depots.len() - 1);
        Cache { first: null_mut(), count: 0, spare: null_mut(), cluster, slab: self.clone() }
    }

    /// The cluster of who is on the core of this number; not asked for where there is only one.
    #[inline]
    fn cluster_of(&self, core: impl FnOnce() -> usize) -> usize {
        match self.depots.len() - 1 {
            0 => 0,
            mask => (core() / TOGETHER) & mask,
        }
    }

    /// One object, as from a cache that is dropped again: for whoever wants one now and then. One exchange, two where a
    /// chain of several is on top. `core` says where the caller is, if anybody needs to know.
    ///
    /// # Errors
    /// As for [`Cache::allocate`].
    pub fn allocate_near(&self, core: impl FnOnce() -> usize) -> Result<NonNull<T>, NoObject> {
        let cluster = self.cluster_of(core);
        let (first, count) = match self.pop_chain(cluster) {
            Some(chain) => chain,
            None => (self.create()?, GROUP as u32),
        };
        if count > 1 {
            // Relaxed: our own chain. SAFETY: not null, type-stable.
            let rest = unsafe { (*first).link.load(Ordering::Relaxed).cast() };
            self.push_chain(cluster, rest, count - 1);
        }
        Ok(Self::value_of(first))
    }

    /// As [`Slab::allocate_near`] the first core.
    ///
    /// # Errors
    /// As for [`Cache::allocate`].
    pub fn allocate(&self) -> Result<NonNull<T>, NoObject> {
        self.allocate_near(|| 0)
    }

    /// Returns an object, for whoever comes next.
    ///
    /// # Safety
    /// As for [`Cache::free`].
    pub unsafe fn free(&self, object: NonNull<T>) {
        // SAFETY: the caller's promise is the same.
        unsafe { self.free_near(object, || 0) };
    }

    /// As [`Slab::free`], for those first that are near this core.
    ///
    /// # Safety
    /// As for [`Cache::free`].
    pub unsafe fn free_near(&self, object: NonNull<T>, core: impl FnOnce() -> usize) {
        let object = Self::object_of(object);
        // Relaxed: published with the chain. SAFETY: one of this slab's, and the caller's, by the contract.
        unsafe { (*object).link.store(null_mut(), Ordering::Relaxed) };
        self.push_chain(self.cluster_of(core), object, 1);
    }

    /// How many objects exist, in use or not.
    pub fn created(&self) -> u32 {
        // Relaxed: counter only.
        self.created.load(Ordering::Relaxed)
    }

    /// The object of this index, if it exists (in use or not).
    pub fn get(&self, index: u32) -> Option<&T> {
        let (leaf, chunk, within) = Self::place(index);
        let leaf = self.leaf(leaf)?;
        // Ordering[slab-ready]: Acquire. Pairs with the setting of the group's bit. Makes visible: the initialised
        // objects.
        let ready = leaf.ready[chunk].load(Ordering::Acquire);
        if ready >> (within / GROUP) & 1 == 0 {
            return None;
        }
        // Relaxed: set before the bit.
        let objects = leaf.chunks[chunk].load(Ordering::Relaxed);
        // SAFETY: within its chunk, which lives as long as the slab; initialised, as its group's bit is set (I3).
        Some(unsafe { &(*objects.add(within)).value })
    }

    /// As [`Slab::get`], for whoever will [`Cache::free`] it.
    pub fn at(&self, index: u32) -> Option<NonNull<T>> {
        self.get(index)?;
        Some(Self::value_of(self.address(index)))
    }

    /// The index of an object.
    ///
    /// # Safety
    /// The object came from a cache of this slab; it may be in use or free.
    pub unsafe fn index_of(&self, object: NonNull<T>) -> u32 {
        // SAFETY: by the contract it lies in an object of ours, which lives as long as the slab; its index never
        // changes.
        let index = unsafe { (*Self::object_of(object)).index };
        debug_assert!(index < self.created());
        index
    }

    /// All objects that exist, in the order of their indices, in use or not: for dumps.
    pub fn iterate(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..self.created()).filter_map(|index| Some((index, self.get(index)?)))
    }

    fn object_of(value: NonNull<T>) -> *mut Object<T, M> {
        value.as_ptr().wrapping_byte_sub(offset_of!(Object<T, M>, value)).cast()
    }

    fn value_of(object: *mut Object<T, M>) -> NonNull<T> {
        // SAFETY: objects are never null, and the field lies within.
        unsafe { NonNull::new_unchecked(&raw mut (*object).value) }
    }

    /// Leaf, chunk within the leaf, object within the chunk.
    fn place(index: u32) -> (usize, usize, usize) {
        let (chunk, within) = (index as usize / CHUNK, index as usize % CHUNK);
        (chunk / FAN_OUT, chunk % FAN_OUT, within)
    }

    fn leaf(&self, leaf: usize) -> Option<&Leaf<T, M>> {
        // Ordering[slab-leaf]: Acquire. Pairs with the exchange of slab-leaf. Makes visible: the initialised leaf.
        let leaf = self.leaves.get(leaf)?.load(Ordering::Acquire);
        // SAFETY: null or a leaf that lives as long as the slab.
        unsafe { leaf.as_ref() }
    }

    /// The address of an object that is known to exist.
    fn address(&self, index: u32) -> *mut Object<T, M> {
        let (leaf, chunk, within) = Self::place(index);
        let leaf = self.leaf(leaf).expect("the object exists");
        // Relaxed: whoever gave us the index has published the object, and with it the chunk.
        let objects = leaf.chunks[chunk].load(Ordering::Relaxed);
        objects.wrapping_add(within)
    }

    fn chunk_layout() -> Layout {
        Layout::array::<Object<T, M>>(CHUNK).expect("a chunk is far smaller than the address space")
    }

    /// The chunk's address and its leaf, allocating what is missing.
    fn chunk(&self, leaf: usize, chunk: usize) -> Result<ChunkOnLeaf<'_, T, M>, NoObject> {
        let leaf = match self.leaf(leaf) {
            Some(leaf) => leaf,
            None => self.add_leaf(leaf)?,
        };
        // Ordering[slab-chunk]: Acquire. Pairs with the exchange of slab-chunk. Makes visible: that the memory was
        // allocated.
        // Not weakened: loom does not follow raw memory; Miri does.
        let objects = leaf.chunks[chunk].load(Ordering::Acquire);
        if !objects.is_null() {
            return Ok((leaf, objects));
        }
        let layout = Self::chunk_layout();
        // SAFETY: the layout is not empty, objects have a header.
        let fresh = unsafe { std::alloc::alloc(layout) }.cast::<Object<T, M>>();
        if fresh.is_null() {
            return Err(NoObject::OutOfMemory);
        }
        // Ordering[slab-chunk]: Release. Pairs with the loads of slab-chunk, Acquire on failure with their exchange.
        // Not weakened: as the load.
        match leaf.chunks[chunk].compare_exchange(null_mut(), fresh, Ordering::Release, Ordering::Acquire) {
            Ok(_) => Ok((leaf, fresh)),
            Err(theirs) => {
                // SAFETY: just allocated with this layout, seen by nobody.
                unsafe { std::alloc::dealloc(fresh.cast(), layout) };
                Ok((leaf, theirs))
            }
        }
    }

    fn add_leaf(&self, number: usize) -> Result<&Leaf<T, M>, NoObject> {
        let layout = Layout::new::<Leaf<T, M>>();
        // SAFETY: the layout is not empty.
        let fresh = unsafe { std::alloc::alloc(layout) }.cast::<Leaf<T, M>>();
        if fresh.is_null() {
            return Err(NoObject::OutOfMemory);
        }
        for i in 0..FAN_OUT {
            // SAFETY: fresh memory of a leaf's layout; each element is written once.
            unsafe {
                (&raw mut (*fresh).chunks[i]).write(M::Atomic::new(null_mut()));
                (&raw mut (*fresh).ready[i]).write(M::Atomic::new(0));
            }
        }
        // Ordering[slab-leaf]: Release. Pairs with the loads of slab-leaf. Makes visible: the initialised leaf.
        match self.leaves[number].compare_exchange(null_mut(), fresh, Ordering::Release, Ordering::Acquire) {
            // SAFETY: published for the slab's life.
            Ok(_) => Ok(unsafe { &*fresh }),
            Err(theirs) => {
                // SAFETY: `fresh` is initialised and seen by nobody; `theirs` lives as long as the slab.
                unsafe {
                    fresh.drop_in_place();
                    std::alloc::dealloc(fresh.cast(), layout);
                    Ok(&*theirs)
                }
            }
        }
    }

    /// Makes a group of objects, linked.
    fn create(&self) -> Result<*mut Object<T, M>, NoObject> {
        // Relaxed: counter; what it counts is published by the groups' bits.
        let mut base = self.created.load(Ordering::Relaxed);
        let (leaf, chunk, objects, within) = loop {
            if u64::from(base) + GROUP as u64 > Self::LIMIT {
                return Err(NoObject::Limit);
            }
            let (leaf, chunk, within) = Self::place(base);
            // Memory first: what fails must leave no hole.
            let (leaf, objects) = self.chunk(leaf, chunk)?;
            let next = base + GROUP as u32;
            match self.created.compare_exchange_weak(base, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break (leaf, chunk, objects, within),
                Err(now) => base = now,
            }
        };
        for k in 0..GROUP {
            let value = (self.init)(base + k as u32);
            // SAFETY: the group's objects lie within the chunk and are ours alone by the exchange; each is written
            // once.
            unsafe {
                let object = objects.add(within + k);
                let link = if k + 1 < GROUP { object.add(1) } else { null_mut() };
                let (link, chain) = (M::Atomic::new(link.cast()), M::Atomic::new(0));
                object.write(Object { link, chain, index: base + k as u32, value });
            }
        }
        debug_assert!(within / GROUP < Self::GROUPS);
        // Ordering[slab-ready]: Release. Pairs with the loads of slab-ready. Makes visible: the initialised objects
        // (I3).
        leaf.ready[chunk].fetch_or(1 << (within / GROUP), Ordering::Release);
        // SAFETY: within the chunk.
        Ok(unsafe { objects.add(within) })
    }

    /// Gives a chain of `count` objects to a cluster's depot.
    fn push_chain(&self, cluster: usize, first: *mut Object<T, M>, count: u32) {
        let word = &self.depots[cluster].0;
        // SAFETY: the chain is the caller's own; objects live as long as the slab.
        let first = unsafe { &*first };
        // Relaxed: validated by the exchange.
        let mut depot = word.load(Ordering::Relaxed);
        loop {
            // Relaxed: published by the exchange.
            first.chain.store(u64::from(count) << 32 | depot & u64::from(u32::MAX), Ordering::Relaxed);
            let tag = (depot >> 32).wrapping_add(1) << 32;
            let new = tag | u64::from(first.index + 1);
            // Ordering[slab-push]: Release. Pairs with slab-pop. Makes visible: the chain's links, the objects' last
            // state.
            match word.compare_exchange_weak(depot, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => depot = now,
            }
        }
    }

    /// Takes a chain from a cluster's depot, or else from another one's.
    fn pop_chain(&self, cluster: usize) -> Option<(*mut Object<T, M>, u32)> {
        (0..self.depots.len()).find_map(|step| self.pop_chain_of(&self.depots[cluster ^ step].0))
    }

    fn pop_chain_of(&self, word: &M::Atomic<u64>) -> Option<(*mut Object<T, M>, u32)> {
        // Ordering[slab-pop]: Acquire. Pairs with slab-push. Makes visible: the chain's links, the objects' last state.
        let mut depot = word.load(Ordering::Acquire);
        loop {
            let index = (depot as u32).checked_sub(1)?;
            let first = self.address(index);
            // Relaxed: validated by the exchange (I2). SAFETY: type-stable memory (I1).
            let chain = unsafe { (*first).chain.load(Ordering::Relaxed) };
            let new = depot & !u64::from(u32::MAX) | chain & u64::from(u32::MAX);
            // Ordering[slab-pop]: Acquire on failure, as the load above. Relaxed on success: the value was acquired
            // with it, as the tag tells the pushes apart.
            match word.compare_exchange_weak(depot, new, Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => return Some((first, (chain >> 32) as u32)),
                Err(now) => depot = now,
            }
        }
    }
}

impl<T: 'static, M: Machine, const GROUP: usize, const CHUNK: usize> Drop for Slab<T, M, GROUP, CHUNK> {
    fn drop(&mut self) {
        let layout = Layout::array::<Object<T, M>>(CHUNK).expect("it was computed before");
        for leaf in &self.leaves {
            // Relaxed, here and below: alone by `&mut`.
            let leaf = leaf.load(Ordering::Relaxed);
            if leaf.is_null() {
                continue;
            }
            // SAFETY: leaves are made by `add_leaf`, and no cache, hence no user, is left.
            let contents = unsafe { leaf.read() };
            for (chunk, ready) in contents.chunks.iter().zip(&contents.ready) {
                let objects = chunk.load(Ordering::Relaxed);
                if objects.is_null() {
                    continue;
                }
                let ready = ready.load(Ordering::Relaxed);
                for i in (0..CHUNK).filter(|i| ready >> (i / GROUP) & 1 == 1) {
                    // SAFETY: initialised, by its group's bit; dropped once.
                    unsafe { objects.add(i).drop_in_place() };
                }
                // SAFETY: allocated with this layout.
                unsafe { std::alloc::dealloc(objects.cast(), layout) };
            }
            // SAFETY: allocated with this layout; its contents were moved out.
            unsafe { std::alloc::dealloc(leaf.cast(), Layout::new::<Leaf<T, M>>()) };
        }
    }
}

/// One user's stock of objects: at most two groups. It may move between kernel threads; one uses it at a time.
pub struct Cache<T: Send + Sync + 'static, M: Machine, const GROUP: usize = 64, const CHUNK: usize = 4096> {
    first: *mut Object<T, M>,
    count: u32,
    /// Null, or a full group.
    spare: *mut Object<T, M>,
    /// Whose depot it goes to first.
    cluster: usize,
    slab: Arc<Slab<T, M, GROUP, CHUNK>>,
}

// SAFETY: the chains are the cache's own; the slab is `Send` and `Sync`.
unsafe impl<T: Send + Sync + 'static, M: Machine, const G: usize, const C: usize> Send for Cache<T, M, G, C> {}

impl<T: Send + Sync + 'static, M: Machine, const GROUP: usize, const CHUNK: usize> Cache<T, M, GROUP, CHUNK> {
    /// The slab behind it.
    pub fn slab(&self) -> &Arc<Slab<T, M, GROUP, CHUNK>> {
        &self.slab
    }

    /// An object, initialised, in the state in which its last user left it. Others may look at it by [`Slab::get`] at
    /// any time, so make no `&mut` of it: what changes in it is atomic. No locked instruction but one per group.
    #[inline]
    pub fn allocate(&mut self) -> Result<NonNull<T>, NoObject> {
        if self.first.is_null() {
            self.refill()?;
        }
        let object = self.first;
        // Relaxed: our own chain. SAFETY: not null, type-stable.
        self.first = unsafe { (*object).link.load(Ordering::Relaxed).cast() };
        self.count -= 1;
        Ok(Slab::<T, M, GROUP, CHUNK>::value_of(object))
    }

    /// Returns an object.
    ///
    /// # Safety
    /// It was allocated from this slab, by any cache or none, and this is its only return since. Its user uses it no
    /// more, except by shared reference, and then knows that it may have another user.
    #[inline]
    pub unsafe fn free(&mut self, object: NonNull<T>) {
        if self.count == GROUP as u32 {
            self.flush();
        }
        let object = Slab::<T, M, GROUP, CHUNK>::object_of(object);
        // Relaxed: our own chain, published with the chain. SAFETY: one of this slab's, by the contract.
        unsafe { (*object).link.store(self.first.cast(), Ordering::Relaxed) };
        self.first = object;
        self.count += 1;
    }

    #[cold]
    fn refill(&mut self) -> Result<(), NoObject> {
        debug_assert_eq!(self.count, 0);
        if !self.spare.is_null() {
            (self.first, self.count) = (std::mem::replace(&mut self.spare, null_mut()), GROUP as u32);
        } else if let Some((first, count)) = self.slab.pop_chain(self.cluster) {
            (self.first, self.count) = (first, count);
        } else {
            (self.first, self.count) = (self.slab.create()?, GROUP as u32);
        }
        Ok(())
    }

    /// Makes room for frees: the full chain becomes the spare one, the spare one goes to the depot.
    #[cold]
    fn flush(&mut self) {
        if !self.spare.is_null() {
            self.slab.push_chain(self.cluster, self.spare, GROUP as u32);
        }
        (self.spare, self.first, self.count) = (self.first, null_mut(), 0);
    }

    /// Gives all objects that are not in use back to the slab, for other caches.
    pub fn give_back(&mut self) {
        if !self.spare.is_null() {
            self.slab.push_chain(self.cluster, std::mem::replace(&mut self.spare, null_mut()), GROUP as u32);
        }
        if !self.first.is_null() {
            self.slab.push_chain(
                self.cluster,
                std::mem::replace(&mut self.first, null_mut()),
                std::mem::take(&mut self.count),
            );
        }
    }
}

impl<T: Send + Sync + 'static, M: Machine, const GROUP: usize, const CHUNK: usize> Drop for Cache<T, M, GROUP, CHUNK> {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raddle_machine::Real;
    use std::collections::HashSet;

    #[test]
    fn objects_are_distinct_found_by_index_and_reused() {
        const OBJECTS: u32 = if cfg!(miri) { 64 } else { 5000 };
        let slab = Slab::<u32, Real, 4, 16>::new(|index| index);
        let mut cache = slab.cache();
        let objects: Vec<_> = (0..OBJECTS).map(|_| cache.allocate().unwrap()).collect();
        let distinct: HashSet<_> = objects.iter().collect();
        assert_eq!((distinct.len(), slab.created()), (OBJECTS as usize, OBJECTS));
        for &object in &objects {
            // SAFETY: from this slab.
            let index = unsafe { slab.index_of(object) };
            assert_eq!(slab.get(index).unwrap() as *const u32, object.as_ptr().cast_const());
            assert_eq!(slab.get(index), Some(&index));
            // SAFETY: from this slab, freed once, not used below.
            unsafe { cache.free(object) };
        }
        assert_eq!(slab.iterate().map(|(i, &v)| u64::from(i == v)).sum::<u64>(), u64::from(OBJECTS));
        let mut other = slab.cache();
        drop(cache);
        for _ in 0..OBJECTS {
            other.allocate().unwrap();
        }
        assert_eq!(slab.created(), OBJECTS);
        assert_eq!((slab.get(OBJECTS), slab.get(u32::MAX)), (None, None));
    }

    #[test]
    fn single_objects_are_those_of_caches() {
        let slab = Slab::<u32, Real, 4, 16>::new(|index| index);
        let objects: Vec<_> = (0..6).map(|_| slab.allocate().unwrap()).collect();
        assert_eq!((objects.iter().collect::<HashSet<_>>().len(), slab.created()), (6, 8));
        for &object in &objects {
            // SAFETY: from this slab, freed once, not used below.
            unsafe { slab.free(object) };
        }
        let mut cache = slab.cache();
        let again: HashSet<_> = (0..8).map(|_| cache.allocate().unwrap()).collect();
        assert_eq!((again.len(), slab.created()), (8, 8), "none is lost, none is there twice");
    }

    #[test]
    fn what_one_cluster_gives_back_serves_the_others() {
        // Three clusters asked for are four depots; processors 0 and 8 are in the first two.
        let slab = Slab::<u32, Real, 4, 16>::for_processors(2 * TOGETHER + 1, |index| index);
        assert_eq!(slab.depots.len(), 4);
        let mut caches: Vec<_> = (0..5).map(|cluster| slab.cache_of(cluster * TOGETHER + 1)).collect();
        for turn in 0..20 {
            let objects: Vec<_> = (0..8).map(|_| caches[turn % 5].allocate().unwrap()).collect();
            assert_eq!(objects.iter().collect::<HashSet<_>>().len(), 8, "none is there twice");
            let other = &mut caches[(turn + 2) % 5];
            // SAFETY: from this slab, freed once, not used below.
            objects.into_iter().for_each(|object| unsafe { other.free(object) });
            caches.iter_mut().for_each(Cache::give_back);
        }
        let single = slab.allocate_near(|| 2 * TOGETHER).unwrap();
        // SAFETY: from this slab, freed once, not used below.
        unsafe { slab.free_near(single, || 99 * TOGETHER) };
        let again: HashSet<_> = (0..8).map(|_| caches[2].allocate().unwrap()).collect();
        assert_eq!((again.len(), slab.created()), (8, 8), "none is lost");
    }

    #[test]
    #[cfg_attr(miri, ignore = "a million chunks: hours under Miri, and nothing of it is unsafe that others do not do")]
    fn a_slab_that_has_reached_its_limit_says_so() {
        let slab = Slab::<(), Real, 1, 1>::new(|_| ());
        let mut cache = slab.cache();
        for _ in 0..FAN_OUT * FAN_OUT {
            cache.allocate().unwrap();
        }
        assert_eq!(cache.allocate(), Err(NoObject::Limit));
    }

    #[test]
    fn objects_are_dropped_with_the_slab() {
        static ALIVE: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(0);
        struct Counted;
        impl Drop for Counted {
            fn drop(&mut self) {
                ALIVE.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let slab = Slab::<Counted, Real, 4, 16>::new(|_| {
            ALIVE.fetch_add(1, Ordering::Relaxed);
            Counted
        });
        let mut cache = slab.cache();
        for _ in 0..21 {
            cache.allocate().unwrap();
        }
        assert_eq!(ALIVE.load(Ordering::Relaxed), 24);
        drop((slab, cache));
        assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
    }
}
