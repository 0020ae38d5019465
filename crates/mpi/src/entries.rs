//! How entry points are made of their names and arguments.

use crate::abi::Word;
use std::ffi::c_int;

/// Makes `PMPI_X` of an entry point `MPI_X` of so many words, too: Fortran's calls of Open MPI are made by those names.
/// MPICH's are not, and its file calls use those names themselves while they hold its lock.
macro_rules! profiled {
    ($($mpi:ident($($argument:ident),*);)*) => {$(
        const _: () = {
            #[unsafe(export_name = concat!("P", stringify!($mpi)))]
            #[allow(clippy::too_many_arguments)]
            unsafe extern "C" fn profiled($($argument: $crate::abi::Word),*) -> std::ffi::c_int {
                // SAFETY: the caller's arguments, as MPI's function of this name takes them.
                unsafe {
                    if $crate::abi::is_open_mpi() {
                        return $mpi($($argument),*);
                    }
                    let name = concat!("P", stringify!($mpi), "\0");
                    $crate::abi::real!(name, fn($($crate::entries::word_for!($argument)),*))($($argument),*)
                }
            }
        };
    )*};
}
pub(crate) use profiled;

/// A word, whatever the argument.
macro_rules! word_for {
    ($argument:ident) => {
        $crate::abi::Word
    };
}
pub(crate) use word_for;

/// In an entry point with large counts, `or` the one with an `int`, which an implementation without large counts has
/// (Open MPI before 6). Python's mpi4py takes what is exported for what is there.
macro_rules! without_large_counts {
    ([] $arguments:tt) => {};
    ([$small:ident] ($($argument:ident),* $(,)?)) => {
        if !$crate::abi::has_large_counts() {
            // SAFETY: the caller's arguments. A count that is no `int` becomes one that the call refuses.
            return unsafe { $small($($crate::entries::int_for!($argument $argument)),*) };
        }
    };
}
pub(crate) use without_large_counts;

/// An argument, by its name, for the call with an `int`.
macro_rules! int_for {
    (count $value:ident) => {
        $crate::entries::as_int($value)
    };
    (sc $value:ident) => {
        $crate::entries::as_int($value)
    };
    (rc $value:ident) => {
        $crate::entries::as_int($value)
    };
    (unit $value:ident) => {
        $crate::entries::as_int($value)
    };
    ($name:ident $value:ident) => {
        $value
    };
}
pub(crate) use int_for;

/// A count for a call that takes an `int`: below zero where it is none.
pub(crate) fn as_int(count: Word) -> Word {
    if c_int::try_from(count).is_ok() { count } else { usize::MAX }
}

/// The rest of an entry point without a status: begins, and waits for the end. Of a call of all ranks errors are its
/// communicator's.
macro_rules! begun_and_ended {
    ($begin:ident($($argument:ident),*) $(over $comm:ident)? if $long:expr) => {{
        static KIND: $crate::soon::Kind = $crate::soon::Kind::new();
        let mut request: $crate::abi::RequestBytes = [0];
        let begin = $crate::abi::pmpi!($begin: fn($($crate::entries::word_for!($argument),)* $crate::abi::Word));
        // SAFETY: the caller's arguments, and a place for the request.
        match unsafe { begin($($argument,)* $crate::abi::word(request.as_mut_ptr())) } {
            $crate::abi::SUCCESS => {
                let [over, ..] = [$(Some($comm),)? None];
                $crate::told::finish(over, &KIND, &mut request, || $long)
            }
            error => error,
        }
    }};
}
pub(crate) use begun_and_ended;

/// `blocking!(MPI_Send: Isend(buffer, count, …) if …);` makes an entry point of a call that begins `PMPI_Isend` of the
/// same arguments and waits for its end; `over comm` where all ranks of that take part. The condition says, where it
/// must wait, whether it is long ([`lengths`](crate::lengths)).
macro_rules! blocking {
    ($($mpi:ident: $begin:ident($($argument:ident),*) $(over $comm:ident)? if $long:expr $(, or $small:ident)?;)*) => {$(
        /// # Safety
        /// As MPI says.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub unsafe extern "C" fn $mpi($($argument: $crate::abi::Word),*) -> std::ffi::c_int {
            $crate::entries::without_large_counts! { [$($small)?] ($($argument),*) }
            $crate::entries::begun_and_ended!($begin($($argument),*) $(over $comm)? if $long)
        }
        $crate::entries::profiled! { $mpi($($argument),*); }
    )*};
}
pub(crate) use blocking;

/// As [`blocking`], for calls whose last argument is a place for a status.
macro_rules! blocking_with_status {
    ($($mpi:ident: $begin:ident($($argument:ident),*) if $long:expr $(, or $small:ident)?;)*) => {$(
        /// # Safety
        /// As MPI says.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub unsafe extern "C" fn $mpi($($argument: $crate::abi::Word,)* status: $crate::abi::Word) -> std::ffi::c_int {
            $crate::entries::without_large_counts! { [$($small)?] ($($argument,)* status) }
            static KIND: $crate::soon::Kind = $crate::soon::Kind::new();
            let mut request: $crate::abi::RequestBytes = [0];
            let begin = $crate::abi::pmpi!($begin: fn($($crate::entries::word_for!($argument),)* $crate::abi::Word));
            // SAFETY: the caller's arguments, and a place for the request.
            match unsafe { begin($($argument,)* $crate::abi::word(request.as_mut_ptr())) } {
                $crate::abi::SUCCESS => $crate::soon::finish(&KIND, &mut request, $crate::abi::wanted(status), || $long),
                error => error,
            }
        }
        $crate::entries::profiled! { $mpi($($argument,)* status); }
    )*};
}
pub(crate) use blocking_with_status;
