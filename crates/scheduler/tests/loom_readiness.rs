//! All interleavings, within stated bounds, of threads that try, wait and are woken by edges, as `raddle::io` does it.
//! The kernel is a lock around what there is and what it has yet to report.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::{Arc, Mutex};
use loom::thread;
use loom_runtime::{Model, explore};
use raddle_machine::Loom;
use raddle_queues::wait_list::WaitList;
use raddle_scheduler::readiness::{Glance, Readiness};
use raddle_scheduler::runtime::{wait_until, wake};
use raddle_scheduler::{Epoch, Runtime, Thread, Wake};

#[derive(Default)]
struct Kernel {
    /// Messages that can be taken.
    there: u32,
    /// An edge that nobody has fetched yet.
    edge: bool,
}

/// A descriptor and those who wait for it.
struct Descriptor {
    kernel: Mutex<Kernel>,
    readiness: Readiness<Loom>,
    waiters: WaitList<Loom>,
}

impl Descriptor {
    fn new() -> Arc<Self> {
        Arc::new(Self { kernel: Mutex::default(), readiness: Readiness::default(), waiters: WaitList::default() })
    }

    /// A message arrives.
    fn send(&self) {
        let mut kernel = self.kernel.lock().unwrap();
        kernel.there += 1;
        kernel.edge = true;
    }

    /// Fetches and delivers.
    fn deliver(&self) {
        if !std::mem::take(&mut self.kernel.lock().unwrap().edge) {
            return;
        }
        self.readiness.deliver(|| {
            while let Some((thread, epoch)) = self.waiters.queue().pop(Model::nodes()) {
                // SAFETY: records are leaked, and only `wait` pushes.
                let thread: &'static Thread<Loom> = unsafe { &*std::ptr::with_exposed_provenance(thread) };
                if wake::<Model>(thread, Epoch::from_bits(epoch), Wake::Signalled) {
                    return;
                }
            }
        });
    }

    /// Takes at most `most` messages.
    fn attempt(&self, most: u32) -> u32 {
        let mut kernel = self.kernel.lock().unwrap();
        let taken = kernel.there.min(most);
        kernel.there -= taken;
        taken
    }

    fn wait(&self, glance: Glance) {
        let publish = |thread: &'static Thread<Loom>, epoch: Epoch| {
            let word = std::ptr::from_ref(thread).expose_provenance();
            assert!(self.waiters.push(Model::nodes(), word, epoch.to_bits()));
        };
        // SAFETY: who pops a wait claims its epoch, and nothing else.
        unsafe { wait_until::<Model>(None, false, publish, || self.readiness.has_changed(glance)) };
    }

    /// A read: waits until there is something. True if the attempt was saved at first.
    fn read(&self, most: u32) -> (u32, bool) {
        let mut saved = false;
        loop {
            let glance = self.readiness.glance();
            saved |= self.readiness.is_empty(glance);
            let taken = if self.readiness.is_empty(glance) { 0 } else { self.attempt(most) };
            if taken < most {
                self.readiness.emptied(glance);
            }
            if taken > 0 {
                return (taken, saved);
            }
            self.wait(glance);
        }
    }
}

#[test]
fn a_reader_gets_all_that_is_sent_and_may_save_an_attempt() {
    explore(2, &["false", "true"], || {
        let descriptor = Descriptor::new();
        let sender = thread::spawn({
            let descriptor = descriptor.clone();
            move || {
                for _ in 0..2 {
                    descriptor.send();
                    descriptor.deliver();
                }
            }
        });
        let (mut sum, mut any_saved) = (0, false);
        while sum < 2 {
            let (taken, saved) = descriptor.read(3);
            sum += taken;
            any_saved |= saved;
        }
        sender.join().unwrap();
        any_saved
    });
}

#[test]
fn an_edge_that_another_one_fetches_is_not_lost() {
    explore(2, &["()"], || {
        let descriptor = Descriptor::new();
        let fetcher = thread::spawn({
            let descriptor = descriptor.clone();
            move || descriptor.deliver()
        });
        let reader = thread::spawn({
            let descriptor = descriptor.clone();
            move || assert_eq!(descriptor.read(2).0, 1)
        });
        descriptor.send();
        descriptor.deliver();
        fetcher.join().unwrap();
        reader.join().unwrap();
    });
}

#[test]
fn a_reader_that_takes_part_of_it_comes_back_for_the_rest() {
    explore(2, &["()"], || {
        let descriptor = Descriptor::new();
        let sender = thread::spawn({
            let descriptor = descriptor.clone();
            move || {
                descriptor.send();
                descriptor.send();
                descriptor.deliver();
            }
        });
        // No further edge tells of the second one when both came at once.
        assert_eq!(descriptor.read(1).0 + descriptor.read(1).0, 2);
        sender.join().unwrap();
    });
}
