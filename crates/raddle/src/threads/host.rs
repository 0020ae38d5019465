//! Raddle as the [`Runtime`] that the synchronisation primitives of `raddle-scheduler` run on.

use crate::carry::activation::Activation;
use crate::carry::descriptor::Descriptor;
use crate::carry::switching::{activation_of, current, park, yield_in_silence, yield_now};
use raddle_machine::Real;
use raddle_queues::wait_list::NodePool;
use raddle_scheduler::{Epoch, Runtime, Thread, Wake};

/// The runtime on the real machine: lightweight threads where the caller is one, kernel threads otherwise.
///
/// Who calls it answers for the park protocol, so safe code cannot make a thread ready that is not (it would run
/// twice):
/// ```compile_fail,E0133
/// use raddle_scheduler::Runtime;
/// raddle::Host::make_ready(raddle::Host::current());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Host;

// SAFETY: `current` is the running thread's descriptor, or the kernel thread's record; both ways of waiting end by the
// claim; one static pool of nodes.
unsafe impl Runtime for Host {
    type Machine = Real;

    #[inline(always)]
    unsafe fn current() -> &'static Thread<Real> {
        match current() {
            Some(me) => me.record(),
            None => crate::carry::foreign::current(),
        }
    }

    #[inline]
    unsafe fn suspend(epoch: Epoch, deadline: Option<u64>) -> Wake {
        match current() {
            Some(me) => {
                // After the fence of `wait_until`: whoever interrupts sees the wait, or is seen here.
                if me.thread.is_interrupted() {
                    // Whether this claim wins or another did: the wait is over, and its outcome stands.
                    let _ = me.thread.claim(epoch, Wake::Itself);
                } else {
                    park(me, epoch, deadline);
                }
                let outcome = me.thread.outcome();
                crate::carry::switching::activation_of(me).open();
                if me.goes_on_interrupted() {
                    crate::carry::above::interrupted(me, true);
                }
                outcome
            }
            None => crate::carry::foreign::suspend(epoch, deadline),
        }
    }

    #[inline]
    unsafe fn make_ready(thread: &'static Thread<Real>) {
        // SAFETY: the caller has claimed the thread's wait, so it is off its stack and nobody else makes it ready.
        unsafe { crate::carry::ready::make_ready(thread) }
    }

    #[inline]
    fn wait_over() {
        if let Some(me) = current() {
            crate::carry::switching::activation_of(me).open();
        }
    }

    #[inline]
    fn yield_now() {
        match current() {
            Some(me) => {
                yield_now(me);
            }
            None => std::thread::yield_now(),
        }
    }

    #[inline]
    fn quantum() -> u64 {
        super::quantum::if_one_was_over()
    }

    #[inline]
    fn yield_before_wait() -> bool {
        current().is_some_and(yield_in_silence)
    }

    #[inline]
    fn is_running(thread: &'static Thread<Real>) -> bool {
        if thread.is_kernel_thread() {
            return true;
        }
        // SAFETY: null or an activation, which are never freed.
        let on: Option<&'static Activation> = unsafe { Descriptor::of(thread).activation.get().as_ref() };
        on.is_some_and(|on| on.may_be_on_core(current().map(activation_of)))
    }

    #[inline]
    fn runs_soon(thread: &'static Thread<Real>) -> bool {
        // A thread of another pool waits for that pool's processors, one of a lower priority for all higher ones, and a
        // kernel thread for the kernel.
        current().is_some_and(|me| {
            !thread.is_kernel_thread()
                && Descriptor::of(thread).pool() == me.pool()
                && thread.priority_now() <= me.thread.priority_now()
        })
    }

    #[inline(always)]
    fn nodes() -> &'static NodePool<Real> {
        &crate::carry::events::table::NODES
    }

    #[inline]
    fn note_wait(kind: &'static str, object: usize, holder: Option<&'static Thread<Real>>) {
        if holder.is_some() {
            crate::carry::note::begins_to_wait();
        }
        crate::carry::note::note_wait(kind, object, holder);
    }

    #[inline]
    fn cancel_masked() -> bool {
        crate::threads::scope::cancel_masked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::sync::atomic::{AtomicPtr, Ordering};

    #[test]
    fn a_holder_that_has_lost_its_processor_does_not_run_and_nobody_spins_for_it() {
        if !Real::heavy_fence_available() {
            println!("skipped: without membarrier no processor is taken");
            return;
        }
        static HOLDER: AtomicPtr<Thread<Real>> = AtomicPtr::new(std::ptr::null_mut());
        let pool = crate::Builder::new().processors(1).build().unwrap();
        pool.run(|| {
            let (mut wait, mut wake) = std::io::pipe().unwrap();
            let mutex = std::sync::Arc::new(crate::sync::Mutex::new(0));
            let held = mutex.clone();
            let holder = crate::spawn(move || {
                let mut value = held.lock().unwrap();
                // SAFETY: looked at only, by this test.
                let me = unsafe { Host::current() };
                HOLDER.store(std::ptr::from_ref(me).cast_mut(), Ordering::Relaxed);
                // In the kernel, where nothing marks it.
                wait.read_exact(&mut [0]).unwrap();
                *value = 1;
            });
            // SAFETY: null or a thread's record, which are readable for ever.
            let record = || unsafe { HOLDER.load(Ordering::Relaxed).as_ref() };
            while record().is_none() {
                crate::yield_now();
            }
            // On the one processor there is this thread runs, so the other one has lost it, its lock in hand.
            assert!(!Host::is_running(record().unwrap()));
            assert!(mutex.try_lock().is_err());
            let woken = crate::spawn(move || wake.write_all(&[1]).unwrap());
            assert_eq!(*mutex.lock().unwrap(), 1);
            woken.join().unwrap();
            holder.join().unwrap();
        });
    }
}
