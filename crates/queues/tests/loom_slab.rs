//! All interleavings of the slab's caches.
#![cfg(feature = "loom")]

mod support;

use loom::cell::UnsafeCell;
use loom::thread;
use raddle_machine::Loom;
use raddle_queues::slab::{Cache, Slab};
use std::ptr::NonNull;
use support::explore;

/// Loom watches that each user's accesses come after its predecessor's.
struct Watched(UnsafeCell<u32>);

// SAFETY: loom watches each access.
unsafe impl Send for Watched {}
// SAFETY: shared, each access is watched by loom as well.
unsafe impl Sync for Watched {}

type Objects = Slab<Watched, Loom, 1, 4>;
type Objects2 = Slab<Watched, Loom, 2, 4>;

/// Allocates and uses an object as its only user.
fn allocate<const G: usize>(cache: &mut Cache<Watched, Loom, G, 4>) -> (u32, NonNull<Watched>) {
    let object = cache.allocate().unwrap();
    // SAFETY: just allocated.
    let index = unsafe {
        use_it(object);
        cache.slab().index_of(object)
    };
    (index, object)
}

/// # Safety
/// The object is in use by the caller.
unsafe fn use_it(object: NonNull<Watched>) {
    // SAFETY: the object lives; loom checks that nobody else uses it.
    unsafe { object.as_ref().0.with_mut(|uses| *uses += 1) };
}

#[test]
fn a_cache_gets_what_another_gave_back_or_a_new_object() {
    let expected =
        ["(0, (1, 2))", "(0, (2, 1))", "(1, (0, 2))", "(1, (2, 0))", "(1, (2, 3))", "(2, (0, 1))", "(2, (1, 0))"];
    explore(None, &expected, || {
        let slab = Objects::new(|_| Watched(UnsafeCell::new(0)));
        let mut mine = slab.cache();
        let (a, b) = (allocate(&mut mine), allocate(&mut mine));
        // SAFETY: allocated from this slab, freed once, not used any more.
        unsafe { mine.free(a.1) };
        // SAFETY: allocated from this slab beside `a`, freed once, not used any more.
        unsafe { mine.free(b.1) };
        let other = slab.clone();
        let other = thread::spawn(move || {
            let mut cache = other.cache();
            let (x, y) = (allocate(&mut cache), allocate(&mut cache));
            assert_ne!(x.0, y.0);
            (x.0, y.0)
        });
        mine.give_back();
        let c = allocate(&mut mine);
        let others = other.join().unwrap();
        assert!(c.0 != others.0 && c.0 != others.1);
        // SAFETY: still in use, by us.
        unsafe { use_it(c.1) };
        (c.0, others)
    });
}

#[test]
fn what_a_cluster_gives_back_serves_another_that_has_nothing() {
    // Both look into their own depot first: the main thread's had two, the other's nothing.
    let expected = ["(0, 1, 1, 2)", "(0, 2, 1, 3)", "(1, 0, 0, 2)", "(1, 0, 2, 3)", "(1, 2, 0, 3)"];
    explore(None, &expected, || {
        let slab = Objects::in_clusters(2, |_| Watched(UnsafeCell::new(0)));
        let mut mine = slab.cache();
        let two = [allocate(&mut mine).1, allocate(&mut mine).1];
        // SAFETY: allocated from this slab just above, freed once, not used any more.
        two.into_iter().for_each(|object| unsafe { mine.free(object) });
        mine.give_back();
        let other = slab.clone();
        let other = thread::spawn(move || {
            let mut cache = other.cache_in(1);
            let (index, object) = allocate(&mut cache);
            // SAFETY: allocated from this slab just above, freed once, not used any more. It goes to the other depot.
            unsafe { cache.free(object) };
            index
        });
        let (a, b) = (allocate(&mut mine), allocate(&mut mine));
        assert_ne!(a.0, b.0);
        // SAFETY: still in use, by us.
        unsafe { use_it(a.1) };
        (a.0, b.0, other.join().unwrap(), slab.created())
    });
}

#[test]
fn a_chain_that_was_taken_and_given_back_is_not_mistaken() {
    // The classical accident: one reads head A and its next B; others take A and B and give A back.
    let expected = [
        "(0, 1, 2, 3)",
        "(0, 2, 3, 4)",
        "(0, 3, 2, 4)",
        "(1, 0, 2, 3)",
        "(1, 0, 3, 4)",
        "(1, 2, 0, 3)",
        "(1, 2, 3, 4)",
        "(1, 3, 2, 4)",
        "(2, 1, 0, 3)",
        "(2, 3, 0, 4)",
    ];
    explore(Some(3), &expected, || {
        let slab = Objects::new(|_| Watched(UnsafeCell::new(0)));
        let mut mine = slab.cache();
        let (a, b) = (allocate(&mut mine), allocate(&mut mine));
        // SAFETY: allocated from this slab, freed once, not used any more.
        unsafe { mine.free(a.1) };
        // SAFETY: allocated from this slab beside `a`, freed once, not used any more.
        unsafe { mine.free(b.1) };
        mine.give_back();
        let other = slab.clone();
        let other = thread::spawn(move || {
            let mut cache = other.cache();
            let (x, y) = (allocate(&mut cache), allocate(&mut cache));
            // SAFETY: allocated from this slab just above, freed once, not used any more.
            unsafe { cache.free(x.1) };
            cache.give_back();
            // SAFETY: still in use, by us.
            unsafe { use_it(y.1) };
            y.0
        });
        let (c, d) = (allocate(&mut mine), allocate(&mut mine));
        let y = other.join().unwrap();
        assert!(c.0 != d.0 && c.0 != y && d.0 != y);
        // SAFETY: still in use, by us.
        unsafe {
            use_it(c.1);
            use_it(d.1)
        };
        (c.0, d.0, y, slab.created())
    });
}

#[test]
fn a_looker_sees_nothing_or_an_initialised_object() {
    let expected = ["(None, None)", "(None, Some(9))", "(Some(7), None)", "(Some(7), Some(9))"];
    explore(None, &expected, || {
        let slab = Objects2::new(|index| Watched(UnsafeCell::new(index + 7)));
        let theirs = slab.clone();
        let looker = thread::spawn(move || {
            let look = |index| {
                // SAFETY: nobody writes after the initialisation; loom checks that it happened before.
                theirs.get(index).map(|object| object.0.with(|value| unsafe { *value }))
            };
            (look(0), look(2))
        });
        // The one that loads and then stores goes first: loom overlooks schedules when it comes second.
        let mut cache = slab.cache();
        for _ in 0..3 {
            cache.allocate().unwrap();
        }
        let seen = looker.join().unwrap();
        assert_eq!(slab.iterate().count(), 4);
        seen
    });
}

#[test]
fn two_create_at_once() {
    let expected = ["(0, 1, 2)", "(0, 2, 4)", "(2, 0, 4)"];
    explore(None, &expected, || {
        let slab = Objects2::new(|_| Watched(UnsafeCell::new(0)));
        let other = slab.clone();
        let other = thread::spawn(move || allocate(&mut other.cache()).0);
        let mine = allocate(&mut slab.cache()).0;
        (mine, other.join().unwrap(), slab.created())
    });
}

#[test]
fn single_objects_are_nobody_elses() {
    // Both take and give back at the depot, where a chain of two lies at first: who finds it taken makes new ones.
    let expected = ["(0, 1)", "(1, 0)", "(1, 1)", "(1, 2)", "(2, 1)"];
    explore(None, &expected, || {
        let slab = Objects2::new(|_| Watched(UnsafeCell::new(0)));
        let mut cache = slab.cache();
        let two = [allocate(&mut cache).1, allocate(&mut cache).1];
        // SAFETY: allocated from this slab just above, freed once, not used any more.
        two.into_iter().for_each(|object| unsafe { cache.free(object) });
        drop(cache);
        let single = |slab: &Objects2| {
            let object = slab.allocate().unwrap();
            // SAFETY: just allocated, used by nobody else until it is freed, once.
            unsafe {
                use_it(object);
                let index = slab.index_of(object);
                slab.free(object);
                index
            }
        };
        let other = slab.clone();
        let other = thread::spawn(move || single(&other));
        let mine = single(&slab);
        (mine, other.join().unwrap())
    });
}
