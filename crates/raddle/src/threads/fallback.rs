//! Where lightweight threads cannot be had, each thread is a kernel thread, with the same handle.

use crate::carry::descriptor::Descriptor;
use crate::carry::pool::Shared;
use crate::threads::thread::{SpawnError, free};
use raddle_scheduler::join::Ended;
use std::cell::Cell;
use std::os::unix::thread::JoinHandleExt as _;

/// A kernel thread that is one of ours.
#[derive(Clone, Copy)]
struct Ours {
    descriptor: &'static Descriptor,
    pool: &'static Shared,
}

/// Tells the end of a kernel thread. The C library runs the destructors of a thread's storage in the reverse order of
/// their registration: this one, registered before any code of the program runs, is the last.
struct End(Cell<Option<Ours>>);

thread_local! {
    static END: End = const { End(Cell::new(None)) };
}

impl Drop for End {
    fn drop(&mut self) {
        let Some(Ours { descriptor, pool }) = self.0.take() else { return };
        if descriptor.join.end(crate::carry::ready::ready_outside) == Ended::Detached {
            free(descriptor);
        }
        pool.kernel_thread_ended();
    }
}

/// True on a kernel thread that stands for a thread of `pool`.
pub(crate) fn is_of(pool: &Shared) -> bool {
    // Not there any more: the thread ends.
    END.try_with(|end| end.0.get().is_some_and(|ours| ours.pool.index == pool.index)).unwrap_or(false)
}

/// The descriptor of the calling kernel thread, if it stands for a thread of ours.
pub(crate) fn descriptor() -> Option<&'static Descriptor> {
    // Not there any more: the thread ends.
    END.try_with(|end| end.0.get().map(|ours| ours.descriptor)).ok().flatten()
}

/// Starts the kernel thread for a thread that was filled in.
///
/// # Errors
/// The kernel's; the descriptor is free again.
pub(crate) fn start(
    pool: &'static Shared,
    name: Option<&str>,
    stack_size: Option<usize>,
    descriptor: &'static Descriptor,
) -> Result<(), SpawnError> {
    let mut thread = std::thread::Builder::new();
    if let Some(name) = name {
        thread = thread.name(crate::os::thread_name(name));
    }
    if let Some(bytes) = stack_size {
        thread = thread.stack_size(bytes);
    }
    let ours = Ours { descriptor, pool };
    let main = move || {
        // By itself: another one's call reads, once the thread is detached, whether it has ended. Up to glibc 2.36 at
        // least, one that ends just then has given its memory back.
        crate::os::detach_self();
        END.with(|end| end.0.set(Some(ours)));
        // SAFETY: the closure was put into the descriptor by the spawn, and is run once.
        unsafe { descriptor.run.get()(descriptor) };
    };
    pool.kernel_thread_begins();
    let spawned = crate::os::marks::native(|| thread.spawn(main));
    spawned.map(|handle| _ = handle.into_pthread_t()).map_err(|error| {
        pool.kernel_thread_ended();
        free(descriptor);
        SpawnError::KernelThread(error.to_string())
    })
}
