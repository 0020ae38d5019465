//! A power-of-two array of word-sized slots that its one writer can replace while readers look at it.
//!
//! Source: the growing array of D. Chase and Y. Lev, "Dynamic Circular Work-Stealing Deque", 2005, section 3. Differs
//! from the paper: slots are relaxed atomics, arrays shrink too, and a count of readers tells when a replaced one can
//! be freed.
//!
//! Roles: the *writer* (one, the ring's owner) writes slots and replaces the array; *readers* (thieves) enter, read
//! slots, leave. Words: `current`, the array in use, written by the writer only; `readers`, the number of readers
//! inside; `retired`, a chain of replaced arrays that only the writer touches.
//!
//! | array | state changes to | by |
//! |---|---|---|
//! | fresh | current: its live slots are copied, then `current` is stored | writer |
//! | current | retired: no slot of it is written any more | writer |
//! | retired | freed: `readers` was seen at 0 after the fence | writer |
//!
//! Invariants:
//! - I1. A retired array's slots do not change, so a reader that still looks at it sees what was valid when it was
//!   replaced.
//! - I2. An array is freed only when no reader can reach it. The writer stores `current` (W), fences (F1), loads
//!   `readers` (R) as 0. A reader adds to `readers` (A), fences (F2), loads `current` (L). Forbidden: L returns the
//!   retired array and the reader is still inside at R. If F1 precedes F2 in the order of fences, L returns what W
//!   stored or newer. Else F2 precedes F1, so R sees A or something later in `readers`; a 0 there means that the
//!   reader's subtraction came before, and as all changes of `readers` are read-modify-writes, R synchronises with that
//!   subtraction: the reader has left.
//! - I3. The writer shrinks only while nothing is retired. So a reader that is frozen inside costs at most the arrays
//!   of one growth: in sum, less than twice the largest.
//!
//! Progress: all operations are wait-free (the copy is as long as the contents). Memory: as I2; what is left is freed
//! when the ring is dropped.
//!
//! Under the interleaving tests freed arrays are kept as corpses until the ring is dropped, so that a reader that comes
//! too late is caught.
//!
//! Edges: `ring-current` store → load (the copied slots, the array's length); `ring-leave` subtraction → `ring-free`
//! load (a reader's last look precedes the free); fences `ring-fence-writer` and `ring-fence-reader` as in I2.

use crate::pad::Padded;
use raddle_machine::{Atomic, Machine, Ordering};
use std::alloc::Layout;
use std::ptr::NonNull;

/// The most slots that an array may have.
pub const MAX_CAPACITY: u64 = 1 << 26;

/// A push that could not be done: the ring may not, or memory does not let it, grow. The item stays with the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a ready queue cannot grow: out of memory, or {MAX_CAPACITY} entries reached")
    }
}

impl std::error::Error for Full {}

type Slot<M> = <M as Machine>::Atomic<usize>;

/// The header of an array; the slots follow it. Never borrowed as a whole: `next` changes while readers read `mask`.
#[repr(C)]
struct Array<M: Machine> {
    mask: u64,
    /// It is a map of its own, not the allocator's.
    mapped: bool,
    next: *mut Array<M>,
    slots: [Slot<M>; 0],
}

impl<M: Machine> Array<M> {
    fn layout(capacity: u64) -> Option<Layout> {
        let slots = Layout::array::<Slot<M>>(usize::try_from(capacity).ok()?).ok()?;
        Some(Layout::new::<Self>().extend(slots).ok()?.0.pad_to_align())
    }

    /// `mapped`: without the allocator, in the middle of which somebody may be who waits for what calls this.
    fn allocate(capacity: u64, mapped: bool) -> Option<NonNull<Self>> {
        debug_assert!(capacity.is_power_of_two());
        if capacity > MAX_CAPACITY {
            return None;
        }
        let layout = Self::layout(capacity)?;
        // SAFETY: the layout is not empty, it holds the header, and is aligned as that one is.
        let memory = unsafe { if mapped { M::map(layout) } else { std::alloc::alloc(layout) } };
        let array = NonNull::new(memory.cast::<Self>())?;
        let raw = array.as_ptr();
        // SAFETY: `raw` is a fresh allocation for one header and `capacity` slots behind it; each is written once.
        unsafe {
            (&raw mut (*raw).mask).write(capacity - 1);
            (&raw mut (*raw).mapped).write(mapped);
            (&raw mut (*raw).next).write(std::ptr::null_mut());
            let slots = (&raw mut (*raw).slots).cast::<Slot<M>>();
            for i in 0..capacity as usize {
                slots.add(i).write(Slot::<M>::new(0));
            }
        }
        Some(array)
    }

    /// # Safety
    /// `array` came from `allocate`, nobody uses it now or later.
    unsafe fn free(array: *mut Self) {
        // SAFETY: by the contract the header and the slots are initialised and ours alone.
        unsafe {
            let capacity = (*array).mask + 1;
            let slots = (&raw mut (*array).slots).cast::<Slot<M>>();
            for i in 0..capacity as usize {
                slots.add(i).drop_in_place();
            }
            let layout = Self::layout(capacity).expect("it was computed once, when allocating");
            match (*array).mapped {
                true => M::unmap(array.cast(), layout),
                false => std::alloc::dealloc(array.cast(), layout),
            }
        }
    }
}

/// The part that readers see.
pub(crate) struct Shared<M: Machine> {
    current: M::Atomic<*mut Array<M>>,
    /// Touched by the writer only, and by the drop.
    retired: M::Atomic<*mut Array<M>>,
    readers: Padded<M::Atomic<usize>>,
    #[cfg(feature = "loom")]
    corpses: std::sync::Mutex<Vec<usize>>,
}

impl<M: Machine> Shared<M> {
    pub(crate) fn new(capacity: u64) -> Result<(Self, Writer<M>), Full> {
        let array = Array::<M>::allocate(capacity, false).ok_or(Full)?.as_ptr();
        let shared = Self {
            current: M::Atomic::new(array),
            retired: M::Atomic::new(std::ptr::null_mut()),
            readers: Padded(M::Atomic::new(0)),
            #[cfg(feature = "loom")]
            corpses: Default::default(),
        };
        // SAFETY: just allocated and initialised; it is current.
        let writer = unsafe { Writer::over(array) };
        Ok((shared, writer))
    }

    /// Enters as a reader; leaves when the returned view is dropped. Load the indices that you read *before* entering.
    pub(crate) fn enter(&self) -> View<'_, M> {
        // Relaxed: ordered by the fence below; a counter.
        self.readers.fetch_add(1, Ordering::Relaxed);
        // Ordering[ring-fence-reader]: SeqCst. Pairs with ring-fence-writer, proof in I2.
        M::fence(Ordering::SeqCst);
        // Ordering[ring-current]: Acquire. Pairs with the store of ring-current. Makes visible: the array and its
        // copied slots.
        let array = self.current.load(Ordering::Acquire);
        View { shared: self, array }
    }

    fn free_all_retired(&self) {
        // Relaxed: single writer.
        let mut array = self.retired.load(Ordering::Relaxed);
        self.retired.store(std::ptr::null_mut(), Ordering::Relaxed);
        while !array.is_null() {
            // SAFETY: retired arrays are live until freed here, once; callers established I2 (or own the ring alone).
            unsafe {
                let next = (*array).next;
                #[cfg(feature = "loom")]
                self.corpses.lock().unwrap().push(array.expose_provenance());
                #[cfg(not(feature = "loom"))]
                Array::free(array);
                array = next;
            }
        }
    }
}

impl<M: Machine> Drop for Shared<M> {
    fn drop(&mut self) {
        self.free_all_retired();
        #[cfg(feature = "loom")]
        for corpse in self.corpses.get_mut().unwrap().drain(..) {
            // SAFETY: retired and freed once, kept until now; nobody is left.
            unsafe { Array::<M>::free(std::ptr::with_exposed_provenance_mut(corpse)) }
        }
        // Relaxed: alone by `&mut`. SAFETY: the current array came from `allocate`; no reader or writer outlives the
        // ring.
        unsafe { Array::free(self.current.load(Ordering::Relaxed)) }
    }
}

// SAFETY: the raw pointers lead to atomics and to headers that are written before publication (`mask`) or by the writer
// only (`next`).
unsafe impl<M: Machine> Send for Shared<M> {}
// SAFETY: shared, it gives atomics, and headers that are read after their publication only.
unsafe impl<M: Machine> Sync for Shared<M> {}

/// A reader inside.
pub(crate) struct View<'a, M: Machine> {
    shared: &'a Shared<M>,
    array: *mut Array<M>,
}

impl<M: Machine> View<'_, M> {
    /// The slot's word: valid only if a later compare-exchange on the ring's head says so.
    #[inline]
    pub(crate) fn read(&self, index: u64) -> usize {
        #[cfg(feature = "loom")]
        assert!(!self.shared.corpses.lock().unwrap().contains(&self.array.addr()), "a freed array is read");
        // SAFETY: the array is live while we are inside (I2); the masked index is within its slots. Relaxed: validated
        // by the ring's compare-exchange.
        unsafe {
            let slots = (&raw const (*self.array).slots).cast::<Slot<M>>();
            (*slots.add((index & (*self.array).mask) as usize)).load(Ordering::Relaxed)
        }
    }
}

impl<M: Machine> Drop for View<'_, M> {
    fn drop(&mut self) {
        // Ordering[ring-leave]: Release. Pairs with ring-free. Makes visible: that this reader's looks are over.
        // Not weakened: it keeps earlier loads from being delayed beyond it, and loom never delays a load.
        self.shared.readers.fetch_sub(1, Ordering::Release);
    }
}

/// The writer's private knowledge of the current array.
pub(crate) struct Writer<M: Machine> {
    slots: *const Slot<M>,
    mask: u64,
    array: *mut Array<M>,
}

impl<M: Machine> Writer<M> {
    /// # Safety
    /// `array` is initialised and stays current until replaced through this writer.
    unsafe fn over(array: *mut Array<M>) -> Self {
        // SAFETY: initialised, by the contract.
        unsafe { Self { slots: (&raw const (*array).slots).cast(), mask: (*array).mask, array } }
    }

    #[inline(always)]
    pub(crate) fn capacity(&self) -> u64 {
        self.mask + 1
    }

    #[inline(always)]
    fn slot(&self, index: u64) -> &Slot<M> {
        // SAFETY: the masked index is within the slots of the current array, which only this writer retires.
        unsafe { &*self.slots.add((index & self.mask) as usize) }
    }

    #[inline(always)]
    pub(crate) fn read(&self, index: u64) -> usize {
        // Relaxed: single writer, and that is us.
        self.slot(index).load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn write(&self, index: u64, item: usize) {
        // Relaxed: published by the ring's release store of its index.
        self.slot(index).store(item, Ordering::Relaxed)
    }

    /// Moves to an array of `capacity` slots that holds the items of `from..to` (indices wrap). On `Full` nothing
    /// changed.
    ///
    /// # Safety
    /// `shared` is this writer's own; no index of `from..to` is written later than the copy without the ring's
    /// protocol.
    pub(crate) unsafe fn replace(&mut self, shared: &Shared<M>, from: u64, to: u64, capacity: u64) -> Result<(), Full> {
        let old = self.array;
        let new = Array::<M>::allocate(capacity, true).ok_or(Full)?.as_ptr();
        debug_assert!(to.wrapping_sub(from) <= capacity);
        // SAFETY: just allocated and initialised.
        let next = unsafe { Self::over(new) };
        let mut index = from;
        while index != to {
            next.write(index, self.read(index));
            index = index.wrapping_add(1);
        }
        *self = next;
        // Ordering[ring-current]: Release. Pairs with the load of ring-current. Makes visible: the copied slots, the
        // mask.
        shared.current.store(new, Ordering::Release);
        // SAFETY: `old` is live; `next` is the writer's field, readers look at the mask and the slots only.
        // Relaxed: single writer.
        unsafe { (*old).next = shared.retired.load(Ordering::Relaxed) };
        shared.retired.store(old, Ordering::Relaxed);
        self.free_retired(shared);
        Ok(())
    }

    /// Frees what was replaced if no reader can look at it. True if nothing retired is left.
    pub(crate) fn free_retired(&mut self, shared: &Shared<M>) -> bool {
        // Relaxed: single writer.
        if shared.retired.load(Ordering::Relaxed).is_null() {
            return true;
        }
        // Ordering[ring-fence-writer]: SeqCst. Pairs with ring-fence-reader, proof in I2.
        M::fence(Ordering::SeqCst);
        // Ordering[ring-free]: Acquire. Pairs with ring-leave. Makes visible: that the readers' looks precede the free.
        // Not weakened: as ring-leave.
        if shared.readers.load(Ordering::Acquire) != 0 {
            return false;
        }
        shared.free_all_retired();
        true
    }
}
