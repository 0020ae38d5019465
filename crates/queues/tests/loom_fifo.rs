//! All interleavings of the FIFO ring's owner with its thieves.
#![cfg(feature = "loom")]

mod support;

use loom::thread;
use raddle_machine::Loom;
use raddle_queues::fifo_ring::{FifoRing, Owner, Steal};
use std::sync::Arc;
use support::{Items, explore};

type Taken = Vec<usize>;

fn pop_all(owner: &mut Owner<Loom>, items: &Items) -> Taken {
    std::iter::from_fn(|| owner.pop()).map(|item| items.empty(item)).collect()
}

/// A thief that tries `attempts` times to take up to `max`.
fn thief(ring: &Arc<FifoRing<Loom>>, items: &Items, attempts: usize, max: usize) -> thread::JoinHandle<Taken> {
    let (ring, items) = (ring.clone(), items.clone());
    thread::spawn(move || {
        let mut all = Vec::new();
        for _ in 0..attempts {
            let mut out = [0; 8];
            if let Steal::Taken { first, more } = ring.steal(&mut out[..max]) {
                assert_eq!(first, out[0]);
                all.extend(out[..=more].iter().map(|&item| items.empty(item)));
            }
        }
        all
    })
}

fn run(
    prepare: impl Fn(&mut Owner<Loom>, &Items),
    count: usize,
    thieves: &[(usize, usize)],
    act: impl Fn(&mut Owner<Loom>, &Items) -> Taken,
) -> Vec<Taken> {
    let items = Items::new(count);
    let (ring, mut owner) = FifoRing::<Loom>::new(2).unwrap();
    prepare(&mut owner, &items);
    let thieves: Vec<_> = thieves.iter().map(|&(attempts, max)| thief(&ring, &items, attempts, max)).collect();
    let mut outcome = vec![act(&mut owner, &items)];
    outcome.extend(thieves.into_iter().map(|thief| thief.join().unwrap()));
    outcome[0].extend(pop_all(&mut owner, &items));
    items.all_taken();
    outcome
}

fn push(owner: &mut Owner<Loom>, items: &Items, these: impl IntoIterator<Item = usize>) {
    for item in these {
        owner.push(items.fill(item)).unwrap();
    }
}

#[test]
fn each_item_goes_to_the_owner_or_to_the_thief() {
    let expected = ["[[1, 2], []]", "[[1], [2]]", "[[2], [1]]", "[[], [1, 2]]"];
    explore(None, &expected, || {
        run(
            |_, _| (),
            2,
            &[(2, 2)],
            |owner, items| {
                push(owner, items, [1, 2]);
                pop_all(owner, items)
            },
        )
    });
}

#[test]
fn two_thieves_and_the_owner_share() {
    let expected = [
        "[[1, 2, 3], [], []]",
        "[[1, 2], [3], []]",
        "[[1, 2], [], [3]]",
        "[[3], [1, 2], []]",
        "[[3], [], [1, 2]]",
        "[[], [1, 2], [3]]",
        "[[], [3], [1, 2]]",
    ];
    explore(Some(3), &expected, || run(|owner, items| push(owner, items, 1..=3), 3, &[(1, 2), (1, 2)], pop_all));
}

#[test]
fn slots_are_reused_only_when_their_thieves_have_lost() {
    let expected = [
        "[[1, 2, 3, 4], []]",
        "[[1, 2, 3], [4]]",
        "[[1, 3, 4], [2]]",
        "[[1, 3], [2, 4]]",
        "[[1, 4], [2, 3]]",
        "[[2, 3, 4], [1]]",
        "[[2, 3], [1, 4]]",
        "[[2, 4], [1, 3]]",
        "[[3, 4], [1, 2]]",
    ];
    explore(Some(3), &expected, || {
        run(
            |owner, items| push(owner, items, 1..=2),
            4,
            &[(2, 1)],
            |owner, items| {
                let mut mine: Taken = owner.pop().map(|item| items.empty(item)).into_iter().collect();
                push(owner, items, [3, 4]);
                mine.extend(pop_all(owner, items));
                mine
            },
        )
    });
}

#[test]
fn growing_under_theft_keeps_all() {
    let expected = [
        "[[1, 2, 3, 4], []]",
        "[[1, 2, 3], [4]]",
        "[[1, 2, 4], [3]]",
        "[[1, 2], [3, 4]]",
        "[[2, 3, 4], [1]]",
        "[[2, 3], [1, 4]]",
        "[[3, 4], [1, 2]]",
        "[[3], [1, 2, 4]]",
        "[[4], [1, 2, 3]]",
    ];
    explore(Some(3), &expected, || {
        run(
            |owner, items| push(owner, items, 1..=2),
            4,
            &[(2, 2)],
            |owner, items| {
                push(owner, items, [3, 4]);
                pop_all(owner, items)
            },
        )
    });
}

#[test]
fn shrinking_under_theft_keeps_all() {
    let expected = ["[[15, 16, 17], []]", "[[15, 16], [17]]", "[[17], [15, 16]]"];
    explore(None, &expected, || {
        let prepare = |owner: &mut Owner<Loom>, items: &Items| {
            push(owner, items, 1..=17);
            for _ in 0..14 {
                items.empty(owner.pop().unwrap());
            }
            assert!(owner.unclaim());
        };
        run(prepare, 17, &[(1, 2)], pop_all)
    });
}

#[test]
fn a_batch_given_back_can_be_stolen_and_what_was_consumed_cannot() {
    let expected = [
        "[[1, 2, 3, 4], []]",
        "[[1, 2, 3], [4]]",
        "[[1, 2, 4], [3]]",
        "[[1, 2], [3, 4]]",
        "[[1, 2], [4, 3]]",
        "[[1, 4, 2], [3]]",
        "[[1, 4], [2, 3]]",
        "[[1, 4], [3, 2]]",
        "[[1], [2, 3, 4]]",
        "[[3, 4], [1, 2]]",
        "[[3], [1, 2, 4]]",
        "[[4], [1, 2, 3]]",
    ];
    explore(None, &expected, || {
        run(
            |owner, items| push(owner, items, 1..=4),
            4,
            &[(2, 2)],
            |owner, items| {
                let mut mine: Taken = owner.pop().map(|item| items.empty(item)).into_iter().collect();
                owner.publish_all().unwrap();
                mine.extend(owner.pop().map(|item| items.empty(item)));
                owner.publish_all().unwrap();
                mine
            },
        )
    });
}

#[test]
fn a_thief_keeps_what_it_stole_in_its_own_ring() {
    let expected = ["[[1, 2, 3, 4], []]", "[[1, 2, 3], [4]]", "[[1, 2, 4], [3]]", "[[3, 4], [1, 2]]"];
    explore(None, &expected, || {
        let items = Items::new(4);
        let (ring, mut owner) = FifoRing::<Loom>::new(4).unwrap();
        push(&mut owner, &items, 1..=4);
        let theirs = items.clone();
        let thief = thread::spawn(move || {
            let (own, mut thief) = FifoRing::<Loom>::new(2).unwrap();
            let mut all = Vec::new();
            if let Steal::Taken { first, more } = thief.steal_from(&ring, 64) {
                assert_eq!(own.len(), more as u64);
                all.push(theirs.empty(first));
                all.extend(pop_all(&mut thief, &theirs));
            }
            all
        });
        let mut outcome = vec![pop_all(&mut owner, &items), thief.join().unwrap()];
        outcome[0].extend(pop_all(&mut owner, &items));
        items.all_taken();
        outcome
    });
}
