//! All interleavings of the LIFO ring's owner with its thieves.
#![cfg(feature = "loom")]

mod support;

use loom::thread;
use raddle_machine::Loom;
use raddle_queues::fifo_ring::Steal;
use raddle_queues::lifo_ring::{LifoRing, Owner};
use std::sync::Arc;
use support::{Items, explore};

type Taken = Vec<usize>;

fn pop_all(owner: &mut Owner<Loom>, items: &Items) -> Taken {
    std::iter::from_fn(|| owner.pop()).map(|item| items.empty(item)).collect()
}

/// A thief that tries `attempts` times to take up to `max`.
fn thief(ring: &Arc<LifoRing<Loom>>, items: &Items, attempts: usize, max: usize) -> thread::JoinHandle<Taken> {
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
    let (ring, mut owner) = LifoRing::<Loom>::new(2).unwrap();
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

/// All pushed and published before the thieves start: what remains is reclaim against theft.
fn published(owner: &mut Owner<Loom>, items: &Items, these: impl IntoIterator<Item = usize>) {
    push(owner, items, these);
    owner.publish(0);
}

#[test]
fn publishing_reclaiming_and_theft_share_the_items() {
    let expected = ["[[3, 2, 1], []]", "[[3, 2], [1]]", "[[3], [1, 2]]"];
    explore(Some(4), &expected, || {
        run(
            |_, _| (),
            3,
            &[(2, 2)],
            |owner, items| {
                push(owner, items, [1, 2, 3]);
                owner.publish(1);
                pop_all(owner, items)
            },
        )
    });
}

#[test]
fn two_thieves_and_the_owner_share() {
    let expected = [
        "[[3, 2, 1], [], []]",
        "[[3, 2], [1], []]",
        "[[3, 2], [], [1]]",
        "[[3], [1, 2], []]",
        "[[3], [1], [2]]",
        "[[3], [2], [1]]",
        "[[3], [], [1, 2]]",
        "[[], [1, 2], [3]]",
        "[[], [3], [1, 2]]",
    ];
    explore(Some(2), &expected, || run(|owner, items| published(owner, items, 1..=3), 3, &[(1, 2), (1, 2)], pop_all));
}

#[test]
fn a_thief_that_saw_the_old_split_fails_after_a_reclaim() {
    let expected = [
        "[[4, 3, 6, 5, 2, 1], []]",
        "[[4, 3, 6, 5, 2], [1]]",
        "[[4, 3, 6, 5], [1, 2]]",
        "[[4, 3, 6], [1, 2, 5]]",
        "[[4, 6, 5], [1, 2, 3]]",
    ];
    explore(Some(3), &expected, || {
        run(
            |owner, items| published(owner, items, 1..=4),
            6,
            &[(2, 4)],
            |owner, items| {
                // Reclaims 3 and 4, overwrites their slots, publishes again.
                let mut mine: Taken = (0..2).filter_map(|_| owner.pop()).map(|item| items.empty(item)).collect();
                push(owner, items, [5, 6]);
                owner.publish(1);
                mine.extend(pop_all(owner, items));
                mine
            },
        )
    });
}

#[test]
fn growing_under_theft_keeps_all() {
    let expected = ["[[4, 3, 2, 1], []]", "[[4, 3, 2], [1]]", "[[4, 3], [1, 2]]", "[[4], [1, 2, 3]]"];
    explore(Some(3), &expected, || {
        run(
            |owner, items| published(owner, items, 1..=2),
            4,
            &[(2, 2)],
            |owner, items| {
                push(owner, items, [3, 4]);
                owner.publish(0);
                pop_all(owner, items)
            },
        )
    });
}

#[test]
fn shrinking_under_theft_keeps_all() {
    let expected = ["[[3, 2, 1], []]", "[[3, 2], [1]]", "[[3], [1, 2]]"];
    explore(Some(3), &expected, || {
        let prepare = |owner: &mut Owner<Loom>, items: &Items| {
            push(owner, items, 1..=17);
            for _ in 0..14 {
                items.empty(owner.pop().unwrap());
            }
            owner.publish(0);
        };
        run(prepare, 17, &[(1, 2)], pop_all)
    });
}

#[test]
fn the_owner_takes_its_oldest_as_a_thief_would() {
    let expected = ["[[1, 2, 3], []]", "[[1, 2], [3]]", "[[1, 3], [2]]", "[[2, 3], [1]]"];
    explore(None, &expected, || {
        run(
            |owner, items| published(owner, items, 1..=2),
            3,
            &[(1, 2)],
            |owner, items| {
                push(owner, items, [3]);
                std::iter::from_fn(|| owner.pop_oldest()).map(|item| items.empty(item)).collect()
            },
        )
    });
}

#[test]
fn a_split_that_a_reclaim_lowers_still_shows_its_items() {
    // No growth here, whose fence would hide a missing release.
    let expected = ["[[2, 1], []]", "[[2], [1]]"];
    explore(None, &expected, || {
        let items = Items::new(2);
        let (ring, mut owner) = LifoRing::<Loom>::new(4).unwrap();
        let thief = thief(&ring, &items, 1, 2);
        push(&mut owner, &items, [1, 2]);
        owner.publish(0);
        let mut outcome = vec![pop_all(&mut owner, &items)];
        outcome.push(thief.join().unwrap());
        items.all_taken();
        outcome
    });
}
