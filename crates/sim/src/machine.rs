//! The controlled machine: each operation is a step that a driver grants.

use crate::execution::{self, Values};
use crate::world::{Access, Op};
use raddle_machine::{Atomic, Integer, Machine, Ordering, Word};
use std::any::TypeId;
use std::sync::atomic::AtomicU64;

/// The machine whose kernel threads are coroutines of a [`crate::run`]. Outside of one its atomics are plain words.
#[derive(Clone, Copy, Debug)]
pub struct Controlled;

/// An atomic word of [`Controlled`].
///
/// The value lies in an atomic of `std`, since nothing keeps safe code from using it on several kernel threads; no
/// order of memory is asked of it.
pub struct ControlledAtomic<T: Word> {
    value: T::Std,
    /// Run and location ([`execution::turn`]).
    place: AtomicU64,
}

/// True for words that can hold addresses, which differ from run to run. (A lock keeps its holder in a `u64`.)
fn holds_addresses<T: Word>() -> bool {
    let word = TypeId::of::<T>();
    ![TypeId::of::<u8>(), TypeId::of::<u32>()].contains(&word)
}

impl<T: Word> ControlledAtomic<T> {
    /// One step: `change` answers with what to write, if anything.
    #[inline]
    fn step(&self, op: Op, order: Ordering, failed: Ordering, change: impl FnOnce(T) -> Option<T>) -> (T, bool) {
        let access = execution::turn(Access::at(op, 0, order), Some(&self.place));
        // Relaxed here and below: one kernel thread at a time, in turns.
        let old = T::std_load(&self.value, Ordering::Relaxed);
        let new = change(old);
        if let Some(new) = new {
            T::std_store(&self.value, new, Ordering::Relaxed);
        }
        if let Some(access) = access {
            let failed = (op == Op::CompareExchange && new.is_none()).then_some(failed);
            let (wrote, address) = (new.is_some(), holds_addresses::<T>());
            let (old, new) = (old.to_bits(), new.unwrap_or(old).to_bits());
            execution::done(access, Values { old, new, wrote, address, failed });
        }
        (old, new.is_some())
    }

    fn modify(&self, op: Op, order: Ordering, change: impl FnOnce(&T::Std)) -> T {
        let changed = |old| {
            let cell = T::std_new(old);
            change(&cell);
            Some(T::std_load(&cell, Ordering::Relaxed))
        };
        self.step(op, order, order, changed).0
    }
}

impl<T: Word> Drop for ControlledAtomic<T> {
    fn drop(&mut self) {
        execution::forget_place(*self.place.get_mut());
    }
}

// SAFETY: coroutines of one kernel thread take turns: a step is atomic, and all see the same order.
unsafe impl<T: Word> Atomic<T> for ControlledAtomic<T> {
    fn new(value: T) -> Self {
        Self { value: T::std_new(value), place: AtomicU64::new(execution::new_place()) }
    }
    fn load(&self, order: Ordering) -> T {
        self.step(Op::Load, order, order, |_| None).0
    }
    fn store(&self, value: T, order: Ordering) {
        self.step(Op::Store, order, order, |_| Some(value));
    }
    fn swap(&self, value: T, order: Ordering) -> T {
        self.step(Op::Swap, order, order, |_| Some(value)).0
    }
    fn compare_exchange(&self, old: T, new: T, ok: Ordering, err: Ordering) -> Result<T, T> {
        match self.step(Op::CompareExchange, ok, err, |now| (now == old).then_some(new)) {
            (found, true) => Ok(found),
            (found, false) => Err(found),
        }
    }
    fn compare_exchange_weak(&self, old: T, new: T, ok: Ordering, err: Ordering) -> Result<T, T> {
        self.compare_exchange(old, new, ok, err)
    }
    fn fetch_add(&self, value: T, order: Ordering) -> T
    where
        T: Integer,
    {
        self.modify(Op::Add, order, |cell| {
            T::std_add(cell, value, Ordering::Relaxed);
        })
    }
    fn fetch_sub(&self, value: T, order: Ordering) -> T
    where
        T: Integer,
    {
        self.modify(Op::Sub, order, |cell| {
            T::std_sub(cell, value, Ordering::Relaxed);
        })
    }
    fn fetch_or(&self, value: T, order: Ordering) -> T
    where
        T: Integer,
    {
        self.modify(Op::Or, order, |cell| {
            T::std_or(cell, value, Ordering::Relaxed);
        })
    }
    fn fetch_and(&self, value: T, order: Ordering) -> T
    where
        T: Integer,
    {
        self.modify(Op::And, order, |cell| {
            T::std_and(cell, value, Ordering::Relaxed);
        })
    }
}

/// A step without a value.
fn step(access: Access) {
    if execution::turn(access, None).is_some() {
        execution::done(access, Values::default());
    }
}

// SAFETY: as above: every step is seen by the next one, whatever its ordering.
unsafe impl Machine for Controlled {
    type Atomic<T: Word> = ControlledAtomic<T>;

    fn fence(order: Ordering) {
        step(Access { order, ..Access::nowhere(Op::Fence) });
    }

    fn light_fence() {
        step(Access::nowhere(Op::LightFence));
    }

    fn heavy_fence() {
        step(Access::nowhere(Op::HeavyFence));
    }

    fn now() -> u64 {
        execution::now()
    }

    fn random() -> u64 {
        execution::random()
    }

    fn spin_hint() {
        step(Access::nowhere(Op::SpinHint));
    }

    fn wait(word: &ControlledAtomic<u32>, expected: u32, deadline: Option<u64>) {
        let access = execution::turn(Access::at(Op::Wait, 0, Ordering::Relaxed), Some(&word.place));
        let found = u32::std_load(&word.value, Ordering::Relaxed);
        let Some(access) = access else {
            // In the setup, after the run or while a coroutine panics: nobody would end it.
            assert!(found != expected || std::thread::panicking(), "a wait where nobody can end it");
            if found == expected {
                eprintln!("raddle: a coroutine panicked, and waits for a lock while it unwinds");
                std::process::abort();
            }
            return;
        };
        let values = Values { old: found.into(), new: found.into(), ..Values::default() };
        execution::sleep(access, values, found == expected, deadline);
    }

    fn wake(word: &ControlledAtomic<u32>, count: u32) {
        let access = Access { amount: count.into(), ..Access::at(Op::Wake, 0, Ordering::Relaxed) };
        if let Some(access) = execution::turn(access, Some(&word.place)) {
            execution::wake(access);
        }
    }
}
