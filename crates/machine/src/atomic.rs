//! Atomic words, as traits: what a queue may do with shared memory.

use std::sync::atomic::Ordering;

mod sealed {
    /// Unsafe code trusts the conversions of a word: nobody else adds one.
    pub trait Sealed {}
}

/// A plain word that fits an atomic: `u8`, `u32`, `u64`, `usize` and raw pointers, and nothing else.
pub trait Word: sealed::Sealed + Copy + Eq + std::fmt::Debug + 'static {
    /// The `std` atomic that holds this word.
    type Std: Send + Sync;
    /// The machine-independent bits, which models store.
    fn to_bits(self) -> u64;
    /// Inverse of [`Word::to_bits`].
    fn from_bits(bits: u64) -> Self;
    #[doc(hidden)]
    fn std_new(value: Self) -> Self::Std;
    #[doc(hidden)]
    fn std_load(cell: &Self::Std, order: Ordering) -> Self;
    #[doc(hidden)]
    fn std_store(cell: &Self::Std, value: Self, order: Ordering);
    #[doc(hidden)]
    fn std_swap(cell: &Self::Std, value: Self, order: Ordering) -> Self;
    #[doc(hidden)]
    fn std_cas(cell: &Self::Std, old: Self, new: Self, ok: Ordering, err: Ordering) -> Result<Self, Self>;
    #[doc(hidden)]
    fn std_cas_weak(cell: &Self::Std, old: Self, new: Self, ok: Ordering, err: Ordering) -> Result<Self, Self>;
}

/// A [`Word`] with arithmetic.
pub trait Integer: Word {
    #[doc(hidden)]
    fn std_add(cell: &Self::Std, value: Self, order: Ordering) -> Self;
    #[doc(hidden)]
    fn std_sub(cell: &Self::Std, value: Self, order: Ordering) -> Self;
    #[doc(hidden)]
    fn std_or(cell: &Self::Std, value: Self, order: Ordering) -> Self;
    #[doc(hidden)]
    fn std_and(cell: &Self::Std, value: Self, order: Ordering) -> Self;
    #[doc(hidden)]
    fn wrapping(kind: Arithmetic, a: Self, b: Self) -> Self;
}

/// The arithmetic that read-modify-write operations offer (models compute it themselves).
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Arithmetic {
    Add,
    Sub,
    Or,
    And,
}

/// Operations on an atomic word, with the meanings and orderings of `std::sync::atomic`.
///
/// # Safety
/// Unsafe code follows pointers and indices that it stored in one: each operation is atomic, answers with a word that
/// was stored, and orders as asked.
pub unsafe trait Atomic<T: Word>: Send + Sync {
    /// A cell that holds `value`.
    fn new(value: T) -> Self;
    /// Reads.
    fn load(&self, order: Ordering) -> T;
    /// Writes.
    fn store(&self, value: T, order: Ordering);
    /// Writes and returns what was there.
    fn swap(&self, value: T, order: Ordering) -> T;
    /// Writes `new` if the cell holds `old`; `Err` with what it held instead.
    fn compare_exchange(&self, old: T, new: T, ok: Ordering, err: Ordering) -> Result<T, T>;
    /// As [`Atomic::compare_exchange`], but may fail for no reason: for loops.
    fn compare_exchange_weak(&self, old: T, new: T, ok: Ordering, err: Ordering) -> Result<T, T>;
    /// Adds, wrapping, and returns what was there.
    fn fetch_add(&self, value: T, order: Ordering) -> T
    where
        T: Integer;
    /// Subtracts, wrapping, and returns what was there.
    fn fetch_sub(&self, value: T, order: Ordering) -> T
    where
        T: Integer;
    /// Sets bits and returns what was there.
    fn fetch_or(&self, value: T, order: Ordering) -> T
    where
        T: Integer;
    /// Keeps bits and returns what was there.
    fn fetch_and(&self, value: T, order: Ordering) -> T
    where
        T: Integer;
}

macro_rules! word {
    ($t:ty, $std:ty $(, $generic:ident)?) => {
        impl$(<$generic: 'static>)? sealed::Sealed for $t {}
        impl$(<$generic: 'static>)? Word for $t {
            type Std = $std;
            word!(@bits $t $(, $generic)?);
            #[inline(always)]
            fn std_new(value: Self) -> Self::Std { <$std>::new(value) }
            #[inline(always)]
            fn std_load(cell: &Self::Std, order: Ordering) -> Self { cell.load(order) }
            #[inline(always)]
            fn std_store(cell: &Self::Std, value: Self, order: Ordering) { cell.store(value, order) }
            #[inline(always)]
            fn std_swap(cell: &Self::Std, value: Self, order: Ordering) -> Self { cell.swap(value, order) }
            #[inline(always)]
            fn std_cas(cell: &Self::Std, old: Self, new: Self, ok: Ordering, err: Ordering) -> Result<Self, Self> {
                cell.compare_exchange(old, new, ok, err)
            }
            #[inline(always)]
            fn std_cas_weak(cell: &Self::Std, old: Self, new: Self, ok: Ordering, err: Ordering) -> Result<Self, Self> {
                cell.compare_exchange_weak(old, new, ok, err)
            }
        }
    };
    (@bits $t:ty) => {
        #[inline(always)]
        fn to_bits(self) -> u64 { self as u64 }
        #[inline(always)]
        fn from_bits(bits: u64) -> Self { bits as $t }
    };
    (@bits $t:ty, $generic:ident) => {
        #[inline(always)]
        fn to_bits(self) -> u64 { self.expose_provenance() as u64 }
        #[inline(always)]
        fn from_bits(bits: u64) -> Self { std::ptr::with_exposed_provenance_mut(bits as usize) }
    };
}

macro_rules! integer {
    ($t:ty, $std:ty) => {
        word!($t, $std);
        impl Integer for $t {
            #[inline(always)]
            fn std_add(cell: &Self::Std, value: Self, order: Ordering) -> Self {
                cell.fetch_add(value, order)
            }
            #[inline(always)]
            fn std_sub(cell: &Self::Std, value: Self, order: Ordering) -> Self {
                cell.fetch_sub(value, order)
            }
            #[inline(always)]
            fn std_or(cell: &Self::Std, value: Self, order: Ordering) -> Self {
                cell.fetch_or(value, order)
            }
            #[inline(always)]
            fn std_and(cell: &Self::Std, value: Self, order: Ordering) -> Self {
                cell.fetch_and(value, order)
            }
            fn wrapping(kind: Arithmetic, a: Self, b: Self) -> Self {
                match kind {
                    Arithmetic::Add => a.wrapping_add(b),
                    Arithmetic::Sub => a.wrapping_sub(b),
                    Arithmetic::Or => a | b,
                    Arithmetic::And => a & b,
                }
            }
        }
    };
}

integer!(u8, std::sync::atomic::AtomicU8);
integer!(u32, std::sync::atomic::AtomicU32);
integer!(u64, std::sync::atomic::AtomicU64);
integer!(usize, std::sync::atomic::AtomicUsize);
word!(*mut T, std::sync::atomic::AtomicPtr<T>, T);
