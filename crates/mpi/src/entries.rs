//! How entry points are made of their names and arguments.

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

/// `blocking!(MPI_Send: Isend(buffer, count, …) if …);` makes an entry point of a call that begins `PMPI_Isend` of the
/// same arguments and waits for its end. The condition says, where it must wait, whether it is long
/// ([`lengths`](crate::lengths)).
macro_rules! blocking {
    ($($mpi:ident: $begin:ident($($argument:ident),*) if $long:expr;)*) => {$(
        /// # Safety
        /// As MPI says.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub unsafe extern "C" fn $mpi($($argument: $crate::abi::Word),*) -> std::ffi::c_int {
            static KIND: $crate::soon::Kind = $crate::soon::Kind::new();
            let mut request: $crate::abi::RequestBytes = [0];
            let begin = $crate::abi::pmpi!($begin: fn($($crate::entries::word_for!($argument),)* $crate::abi::Word));
            // SAFETY: the caller's arguments, and a place for the request.
            match unsafe { begin($($argument,)* $crate::abi::word(request.as_mut_ptr())) } {
                $crate::abi::SUCCESS => $crate::soon::finish(&KIND, &mut request, None, || $long),
                error => error,
            }
        }
        $crate::entries::profiled! { $mpi($($argument),*); }
    )*};
}
pub(crate) use blocking;

/// As [`blocking`], for calls whose last argument is a place for a status.
macro_rules! blocking_with_status {
    ($($mpi:ident: $begin:ident($($argument:ident),*) if $long:expr;)*) => {$(
        /// # Safety
        /// As MPI says.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub unsafe extern "C" fn $mpi($($argument: $crate::abi::Word,)* status: $crate::abi::Word) -> std::ffi::c_int {
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
