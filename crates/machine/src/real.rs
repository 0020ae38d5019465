//! The operating system as a [`Machine`]: `std` atomics, futexes, `membarrier`.

use crate::Machine;
use crate::atomic::{Atomic, Integer, Word};
use crate::raw::system_call;
#[cfg(not(miri))]
use std::alloc::Layout;
use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering, compiler_fence, fence};

/// A point in time as std has it.
pub use std::time::Instant as Deadline;

/// How long it is until then; nothing if that is over.
pub fn left_until(deadline: Deadline) -> std::time::Duration {
    deadline.saturating_duration_since(Deadline::now())
}

/// The machine that the operating system offers.
#[derive(Clone, Copy, Debug)]
pub struct Real;

/// An atomic word of [`Real`]: exactly the `std` atomic.
#[repr(transparent)]
pub struct RealAtomic<T: Word>(T::Std);

macro_rules! const_new {
    ($($t:ty, $std:ident);*) => {$(
        impl RealAtomic<$t> {
            /// A cell that holds `value`, in a constant (traits have no `const fn`).
            pub const fn constant(value: $t) -> Self { Self(std::sync::atomic::$std::new(value)) }
        }
    )*};
}
const_new!(u8, AtomicU8; u32, AtomicU32; u64, AtomicU64; usize, AtomicUsize);

impl<T: 'static> RealAtomic<*mut T> {
    /// A null pointer, in a constant.
    pub const fn null() -> Self {
        Self(std::sync::atomic::AtomicPtr::new(std::ptr::null_mut()))
    }
}

impl RealAtomic<u32> {
    /// The address that the kernel's futex calls take.
    pub fn as_ptr(&self) -> *mut u32 {
        self.0.as_ptr()
    }
}

// SAFETY: each operation is the one of `std::sync::atomic`.
unsafe impl<T: Word> Atomic<T> for RealAtomic<T> {
    #[inline(always)]
    fn new(value: T) -> Self {
        Self(T::std_new(value))
    }
    #[inline(always)]
    fn load(&self, order: Ordering) -> T {
        T::std_load(&self.0, order)
    }
    #[inline(always)]
    fn store(&self, value: T, order: Ordering) {
        T::std_store(&self.0, value, order)
    }
    #[inline(always)]
    fn swap(&self, value: T, order: Ordering) -> T {
        T::std_swap(&self.0, value, order)
    }
    #[inline(always)]
    fn compare_exchange(&self, old: T, new: T, ok: Ordering, err: Ordering) -> Result<T, T> {
        T::std_cas(&self.0, old, new, ok, err)
    }
    #[inline(always)]
    fn compare_exchange_weak(&self, old: T, new: T, ok: Ordering, err: Ordering) -> Result<T, T> {
        T::std_cas_weak(&self.0, old, new, ok, err)
    }
    #[inline(always)]
    fn fetch_add(&self, value: T, order: Ordering) -> T
    where
        T: Integer,
    {
        T::std_add(&self.0, value, order)
    }
    #[inline(always)]
    fn fetch_sub(&self, value: T, order: Ordering) -> T
    where
        T: Integer,
    {
        T::std_sub(&self.0, value, order)
    }
    #[inline(always)]
    fn fetch_or(&self, value: T, order: Ordering) -> T
    where
        T: Integer,
    {
        T::std_or(&self.0, value, order)
    }
    #[inline(always)]
    fn fetch_and(&self, value: T, order: Ordering) -> T
    where
        T: Integer,
    {
        T::std_and(&self.0, value, order)
    }
}

/// How [`Machine::heavy_fence`] is done here; decided once.
static HEAVY: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const MEMBARRIER: u8 = 1;
const ABSENT: u8 = 2;

const CMD_PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const CMD_REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

fn membarrier(command: libc::c_int) -> bool {
    // Miri knows no membarrier: there both sides of the pair are full fences.
    if cfg!(miri) {
        return true;
    }
    // SAFETY: membarrier takes two integers and touches no memory of ours.
    unsafe { system_call(libc::SYS_membarrier as usize, [command as usize, 0, 0, 0, 0, 0]) == 0 }
}

impl Real {
    /// Registers the process for expedited `membarrier`. False where the kernel or a sandbox forbids it: then the light
    /// fence is not enough, and whoever relies on the pair must use time-outs instead (and say so).
    pub fn heavy_fence_available() -> bool {
        match HEAVY.load(Ordering::Relaxed) {
            MEMBARRIER => true,
            ABSENT => false,
            _ => {
                let ok = membarrier(CMD_REGISTER_PRIVATE_EXPEDITED);
                HEAVY.store(if ok { MEMBARRIER } else { ABSENT }, Ordering::Relaxed);
                ok
            }
        }
    }
}

impl Real {
    /// Offers the core to other kernel threads.
    pub fn yield_kernel_thread() {
        std::thread::yield_now();
    }
}

// SAFETY: the fences are `std`'s, and the kernel's `membarrier`; where that is missing, `heavy_fence_available` says
// so.
unsafe impl Machine for Real {
    type Atomic<T: Word> = RealAtomic<T>;

    #[inline(always)]
    fn fence(order: Ordering) {
        fence(order)
    }

    #[inline(always)]
    fn light_fence() {
        if cfg!(miri) {
            fence(Ordering::SeqCst);
        }
        compiler_fence(Ordering::SeqCst);
        // Hardware that reorders more than stores past loads needs more than the compiler's word where membarrier is
        // absent; with membarrier the kernel's barrier on every core supplies the order.
    }

    fn heavy_fence() {
        fence(Ordering::SeqCst);
        if Self::heavy_fence_available() {
            membarrier(CMD_PRIVATE_EXPEDITED);
        }
    }

    #[inline]
    #[cfg(not(miri))]
    fn now() -> u64 {
        // It always exists.
        crate::vdso::nanoseconds(libc::CLOCK_MONOTONIC).unwrap_or(0)
    }

    #[cfg(miri)]
    fn now() -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is a valid timespec to write to; CLOCK_MONOTONIC always exists.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    fn random() -> u64 {
        thread_local! {
            static STATE: Cell<u64> = const { Cell::new(0) };
        }
        STATE.with(|state| {
            let mut x = state.get();
            if x == 0 {
                x = Self::now() ^ (state as *const _ as u64).rotate_left(32) | 1;
            }
            // xorshift64: full period, three shifts; quality suffices for victim choice and jitter.
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            state.set(x);
            x
        })
    }

    #[inline(always)]
    fn spin_hint() {
        std::hint::spin_loop()
    }

    #[inline(always)]
    fn prefetch(address: usize) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch has no effect that a program can see, whatever the address.
        unsafe {
            core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address as *const i8);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = address;
    }

    // Miri has no maps of its own, and an allocator in which nobody can be stopped.
    #[cfg(not(miri))]
    unsafe fn map(layout: Layout) -> *mut u8 {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: no wish for a place, so nothing that is there is replaced.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), layout.size(), access, flags, -1, 0) };
        if memory == libc::MAP_FAILED { std::ptr::null_mut() } else { memory.cast() }
    }

    #[cfg(not(miri))]
    unsafe fn unmap(memory: *mut u8, layout: Layout) {
        // SAFETY: a map of that length, which nobody uses (caller).
        unsafe { libc::munmap(memory.cast(), layout.size()) };
    }

    fn wait(word: &RealAtomic<u32>, expected: u32, deadline: Option<u64>) {
        let time = deadline.map(|t| libc::timespec {
            tv_sec: (t / 1_000_000_000) as libc::time_t,
            tv_nsec: (t % 1_000_000_000) as libc::c_long,
        });
        let time_ptr = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the futex word is a live, aligned u32; the time-out is null or a live timespec (absolute and
        // monotonic with FUTEX_WAIT_BITSET); no other memory is touched.
        unsafe {
            let operation = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
            let any = libc::FUTEX_BITSET_MATCH_ANY as u32 as usize;
            system_call(
                libc::SYS_futex as usize,
                [
                    word.as_ptr().expose_provenance(),
                    operation as usize,
                    expected as usize,
                    time_ptr.expose_provenance(),
                    0,
                    any,
                ],
            );
        }
    }

    fn wake(word: &RealAtomic<u32>, count: u32) {
        // SAFETY: FUTEX_WAKE only uses the address as a key.
        unsafe {
            let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
            let count = count.min(i32::MAX as u32);
            system_call(
                libc::SYS_futex as usize,
                [word.as_ptr().expose_provenance(), operation as usize, count as usize, 0, 0, 0],
            );
        }
    }
}
