//! After a fork, in the child: one kernel thread is left, the caller's, and with it only the caller's thread.
//!
//! The child goes on as a program in which no lightweight thread was ever started but that the caller, if it was one,
//! keeps its stack and storage. Pools, activations and the monitor are forgotten, and made anew when somebody spawns.
//! What other threads waited for is void: their records are disarmed, so that a wake-up that still finds them in a list
//! does nothing. The lock-free structures that all pools share (slabs, stack arenas, wait lists) are whole at any
//! instant, so they are kept; what other kernel threads held of them at that instant is lost to the child.

use crate::carry::descriptor::{Descriptor, FREE};

/// Makes the runtime of a child process usable. Call it first in the child of a fork, from its only thread.
///
/// # Safety
/// Only in the child of a fork, before anything else of this library is used there; not from inside the runtime.
pub unsafe fn forked() {
    // It shares the file of a trace, and is not the program.
    crate::lanes::end();
    crate::pace::watch(false);
    crate::carry::turns::forget();
    crate::carry::pool::forget();
    crate::threads::pool::forget();
    crate::services::stage::forget();
    crate::carry::activations::forget();
    crate::govern::monitor::forget();
    crate::govern::standby::forget();
    crate::govern::dump::circles::forget();
    crate::govern::deadlock::forget();
    crate::os::looks::forget();
    crate::carry::foreign::forget();
    for (_, descriptor) in crate::carry::pool::descriptors().iterate() {
        // A record of a kernel thread may be the caller's own: it is not waiting, and goes on to be its record.
        descriptor.thread.disarm();
        if !descriptor.thread.is_kernel_thread() {
            Descriptor::set_tag(descriptor, FREE);
        }
    }
    raddle_context::tls::forked();
    crate::carry::signal::forget();
    crate::os::marks::forget();
    crate::os::room::forget();
    crate::services::io::forked();
    let _ = crate::carry::switching::show(std::ptr::null());
}
