//! Places in all interleavings.
#![cfg(feature = "loom")]

mod support;

use loom::thread;
use raddle_machine::{Atomic, Loom, Machine, Ordering};
use raddle_queues::places::Places;
use std::sync::Arc;
use support::explore;

type Of<const PLACES: usize> = Places<Loom, PLACES, 1>;

/// Takes the owner's first item, if there is one that nobody else takes: its key, and what is in it.
fn take<const PLACES: usize>(places: &Of<PLACES>, owner: usize) -> Option<(u32, u64)> {
    let first = places.seen(owner).min_by_key(|seen| seen.ticket)?;
    places.take(&first).map(|[word]| (first.key, word))
}

#[test]
fn an_item_is_taken_once_by_two_who_look() {
    let expected = ["(None, Some((7, 70)), None)", "(Some((7, 70)), None, None)"];
    explore(None, &expected, || {
        let places = Arc::new(Of::<1>::default());
        assert!(places.put(1, 7, [70]));
        let theirs = places.clone();
        let other = thread::spawn(move || take(&theirs, 1));
        let mine = take(&places, 1);
        (mine, other.join().unwrap(), take(&places, 1))
    });
}

#[test]
fn a_place_that_is_used_again_shows_no_mixture() {
    // The reader sees one item, the other, both, or none: never a key with the other's owner.
    let expected = ["[]", "[(1, 10)]", "[(1, 10), (2, 20)]", "[(2, 20)]"];
    explore(None, &expected, || {
        let places = Arc::new(Of::<1>::default());
        assert!(places.put(1, 10, [100]));
        let theirs = places.clone();
        let reader = thread::spawn(move || {
            let of = |owner| theirs.seen(owner).map(move |seen| (owner, seen.key)).collect::<Vec<_>>();
            [of(1), of(2)].concat()
        });
        assert_eq!(take(&places, 1), Some((10, 100)));
        assert!(places.put(2, 20, [200]));
        let seen = reader.join().unwrap();
        assert_eq!(take(&places, 2), Some((20, 200)));
        seen
    });
}

#[test]
fn who_saw_an_item_does_not_take_the_next_one_for_it() {
    let expected = ["(None, [(20, 200)])", "(Some([100]), [(20, 200)])"];
    explore(Some(3), &expected, || {
        let places = Arc::new(Of::<2>::default());
        assert!(places.put(1, 10, [100]));
        let theirs = places.clone();
        let slow = thread::spawn(move || {
            let first = theirs.seen(1).min_by_key(|seen| seen.ticket)?;
            let took = theirs.take(&first);
            // The item that it saw, or none.
            assert!(first.key != 10 || took.is_none_or(|words| words == [100]));
            assert!(first.key == 10 || took.is_none());
            took
        });
        let mine = take(&places, 1);
        if mine.is_some() {
            assert!(places.put(3, 20, [200]));
        }
        let theirs = slow.join().unwrap();
        assert!(mine.is_some() != theirs.is_some());
        if theirs.is_some() {
            assert!(places.put(3, 20, [200]));
        }
        (theirs, take(&places, 3).into_iter().collect::<Vec<_>>())
    });
}

#[test]
fn two_put_at_once_and_nothing_is_lost() {
    let expected = ["[(1, 10), (2, 20)]", "[(2, 20), (1, 10)]"];
    explore(Some(3), &expected, || {
        let places = Arc::new(Of::<2>::default());
        let theirs = places.clone();
        let other = thread::spawn(move || theirs.put(9, 2, [20]));
        assert!(places.put(9, 1, [10]) && other.join().unwrap());
        [take(&places, 9).unwrap(), take(&places, 9).unwrap()]
    });
}

#[test]
fn who_puts_for_an_owner_that_ends_or_the_owner_sees_it() {
    // (the putter saw the end, the owner saw the item): not neither.
    let expected = ["(false, true)", "(true, false)", "(true, true)"];
    explore(None, &expected, || {
        let places = Arc::new(Of::<1>::default());
        let ends = Arc::new(<Loom as Machine>::Atomic::<u32>::new(0));
        let (theirs, end) = (places.clone(), ends.clone());
        let putter = thread::spawn(move || {
            assert!(theirs.put(1, 10, [100]));
            end.load(Ordering::Relaxed) != 0
        });
        ends.store(1, Ordering::Relaxed);
        let seen = places.seen(1).count() != 0;
        (putter.join().unwrap(), seen)
    });
}
