//! Loom as a [`Machine`]: every interleaving, weak orderings included, within its bounds. For tests only.

use crate::Machine;
use crate::atomic::{Arithmetic, Atomic, Integer, Word};
use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;

std::thread_local! {
    /// Who waits at which word. Loom runs all threads of an execution on one kernel thread, so this is the kernel's own
    /// list.
    static WAITING: RefCell<Vec<(usize, loom::thread::Thread)>> = const { RefCell::new(Vec::new()) };
}

loom::thread_local! {
    /// True once a wait of this thread has returned for no reason.
    static DISTURBED: Cell<bool> = Cell::new(false);
}

/// The machine under the loom model checker; use only inside `loom::model`.
#[derive(Clone, Copy, Debug)]
pub struct Loom;

/// A loom cell that stores any [`Word`] as its bits.
pub struct LoomAtomic<T: Word>(loom::sync::atomic::AtomicU64, std::marker::PhantomData<fn() -> T>);

impl<T: Word> LoomAtomic<T> {
    fn modify(&self, kind: Arithmetic, value: T, order: Ordering) -> T
    where
        T: Integer,
    {
        // Loom's own operations, which are one step: its `fetch_update` is a load and an exchange, and loom forgets an
        // earlier load by another thread that might have come after the exchange, so not every interleaving would be
        // tried.
        let operand = value.to_bits();
        let bits = match kind {
            Arithmetic::Add => self.0.fetch_add(operand, order),
            Arithmetic::Sub => self.0.fetch_sub(operand, order),
            Arithmetic::Or => self.0.fetch_or(operand, order),
            Arithmetic::And => self.0.fetch_and(operand, order),
        };
        let word = T::wrapping(kind, T::from_bits(bits), value);
        let wide = u64::wrapping(kind, bits, operand);
        assert_eq!(wide, word.to_bits(), "a narrow word overflows, which this machine cannot store");
        T::from_bits(bits)
    }
}

// SAFETY: each operation is loom's, on the word's bits.
unsafe impl<T: Word> Atomic<T> for LoomAtomic<T> {
    fn new(value: T) -> Self {
        Self(loom::sync::atomic::AtomicU64::new(value.to_bits()), std::marker::PhantomData)
    }
    fn load(&self, order: Ordering) -> T {
        T::from_bits(self.0.load(order))
    }
    fn store(&self, value: T, order: Ordering) {
        self.0.store(value.to_bits(), order)
    }
    fn swap(&self, value: T, order: Ordering) -> T {
        T::from_bits(self.0.swap(value.to_bits(), order))
    }
    fn compare_exchange(&self, old: T, new: T, ok: Ordering, err: Ordering) -> Result<T, T> {
        self.0.compare_exchange(old.to_bits(), new.to_bits(), ok, err).map(T::from_bits).map_err(T::from_bits)
    }
    fn compare_exchange_weak(&self, old: T, new: T, ok: Ordering, err: Ordering) -> Result<T, T> {
        self.compare_exchange(old, new, ok, err)
    }
    fn fetch_add(&self, value: T, order: Ordering) -> T
    where
        T: Integer,
    {
        self.modify(Arithmetic::Add, value, order)
    }
    fn fetch_sub(&self, value: T, order: Ordering) -> T
    where
        T: Integer,
    {
        self.modify(Arithmetic::Sub, value, order)
    }
    fn fetch_or(&self, value: T, order: Ordering) -> T
    where
        T: Integer,
    {
        self.modify(Arithmetic::Or, value, order)
    }
    fn fetch_and(&self, value: T, order: Ordering) -> T
    where
        T: Integer,
    {
        self.modify(Arithmetic::And, value, order)
    }
}

// SAFETY: the fences are loom's, both sides of the asymmetric one the strongest.
unsafe impl Machine for Loom {
    type Atomic<T: Word> = LoomAtomic<T>;
    fn fence(order: Ordering) {
        loom::sync::atomic::fence(order)
    }
    fn model_fence(order: Ordering) {
        loom::sync::atomic::fence(order)
    }
    fn light_fence() {
        loom::sync::atomic::fence(Ordering::SeqCst)
    }
    fn heavy_fence() {
        loom::sync::atomic::fence(Ordering::SeqCst)
    }
    fn now() -> u64 {
        0
    }
    fn random() -> u64 {
        0
    }
    fn spin_hint() {
        loom::thread::yield_now()
    }
    fn wait(word: &LoomAtomic<u32>, expected: u32, _deadline: Option<u64>) {
        // As the kernel does it: compare with the latest value, which only a read-modify-write sees, and go to sleep,
        // in one step. Relaxed: callers must not rely on more.
        if word.0.fetch_or(0, Ordering::Relaxed) != expected.to_bits() {
            return;
        }
        // A thread's first wait returns for no reason, as waits may: callers look again. Later ones last until a
        // wake-up, so a lost one is a dead-lock, which loom reports. (Being woken orders memory in loom; returning for
        // no reason does not.)
        if !DISTURBED.with(|disturbed| disturbed.replace(true)) {
            return loom::thread::yield_now();
        }
        let me = loom::thread::current();
        let id = me.id();
        WAITING.with_borrow_mut(|waiting| waiting.push((std::ptr::from_ref(word).addr(), me)));
        loom::thread::park();
        // Unparked by somebody else's doing: no longer to be woken here.
        WAITING.with_borrow_mut(|waiting| waiting.retain(|(_, thread)| thread.id() != id));
    }
    fn wake(word: &LoomAtomic<u32>, count: u32) {
        let address = std::ptr::from_ref(word).addr();
        for _ in 0..count {
            let first = WAITING.with_borrow_mut(|waiting| {
                waiting.iter().position(|(at, _)| *at == address).map(|index| waiting.remove(index).1)
            });
            let Some(thread) = first else { return };
            thread.unpark();
        }
    }
}
