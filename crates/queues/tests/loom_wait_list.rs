//! All interleavings of the wait list: appending, popping, sweeping, nodes used again.
//!
//! With the `loom` feature one abandoned node is enough for a sweep. Waits are live if their epoch is odd.
#![cfg(feature = "loom")]

mod support;

use loom::thread;
use raddle_machine::{Atomic, Loom, Machine, Ordering};
use raddle_queues::wait_list::{NodePool, WaitList};
use std::sync::Arc;
use support::explore;

type Shared = Arc<(NodePool<Loom>, WaitList<Loom>)>;

fn shared(epochs: &[u64]) -> Shared {
    let shared = Shared::default();
    epochs.iter().for_each(|&epoch| push(&shared, epoch));
    shared
}

fn push(shared: &Shared, epoch: u64) {
    assert!(shared.1.push(&shared.0, 8, epoch));
}

fn is_live(_: usize, epoch: u64) -> bool {
    epoch % 2 == 1
}

fn sweep(shared: &Shared) {
    shared.1.abandon(&shared.0, is_live);
}

fn pop(shared: &Shared) -> Option<u64> {
    shared.1.queue().pop(&shared.0).map(|(_, epoch)| epoch)
}

/// Pops until a live wait, as a waker does.
fn pop_live(shared: &Shared) -> Option<u64> {
    std::iter::from_fn(|| pop(shared)).find(|&epoch| is_live(8, epoch))
}

/// Everything that is left, live.
fn rest(shared: &Shared) -> Vec<u64> {
    std::iter::from_fn(|| pop_live(shared)).collect()
}

fn spawn<T: 'static>(shared: &Shared, body: impl FnOnce(&Shared) -> T + 'static) -> thread::JoinHandle<T> {
    let shared = shared.clone();
    thread::spawn(move || body(&shared))
}

#[test]
fn two_first_waiters_share_one_list() {
    explore(Some(3), &["[1, 3]", "[3, 1]"], || {
        let list = shared(&[]);
        let other = spawn(&list, |list| push(list, 1));
        push(&list, 3);
        other.join().unwrap();
        rest(&list)
    });
}

#[test]
fn a_pop_meets_a_push() {
    explore(Some(3), &["(None, [1])", "(Some(1), [])"], || {
        let list = shared(&[3]);
        assert_eq!(pop(&list), Some(3));
        // Loom remembers only the last access of a word, so it does not see that the pop's load could come after the
        // push's exchange, which follows a load of its own. Two touches of one more word show it.
        let order = Arc::new(<Loom as Machine>::Atomic::<u32>::new(0));
        let other = spawn(&list, {
            let order = order.clone();
            move |list| {
                push(list, 1);
                order.fetch_add(1, Ordering::Relaxed);
            }
        });
        order.fetch_add(1, Ordering::Relaxed);
        let popped = pop(&list);
        other.join().unwrap();
        (popped, rest(&list))
    });
}

#[test]
fn two_pops_take_different_waits() {
    explore(Some(3), &["(Some(1), Some(3), [5])", "(Some(3), Some(1), [5])"], || {
        let list = shared(&[1, 3, 5]);
        let other = spawn(&list, pop);
        let mine = pop(&list);
        (mine, other.join().unwrap(), rest(&list))
    });
}

#[test]
fn a_popped_node_is_used_again_under_a_slow_pop() {
    // The other thread pops and pushes, so the node that this thread looks at leaves and comes back.
    let expected = ["(Some(1), Some(3), [5])", "(Some(3), Some(1), [5])"];
    explore(Some(3), &expected, || {
        let list = shared(&[1, 3]);
        let other = spawn(&list, |list| {
            let popped = pop(list);
            push(list, 5);
            popped
        });
        let mine = pop(&list);
        (mine, other.join().unwrap(), rest(&list))
    });
}

#[test]
fn a_sweep_meets_a_waker() {
    // The waker comes before, while or after the sweeper unlinks 2 and 4: the live waits are found in order.
    explore(Some(3), &["(Some(1), [3, 5])"], || {
        let list = shared(&[1, 2, 4, 3, 5]);
        let other = spawn(&list, sweep);
        let mine = pop_live(&list);
        other.join().unwrap();
        (mine, rest(&list))
    });
    explore(Some(3), &["(Some(1), [3])"], || {
        let list = shared(&[2, 4, 1, 3]);
        let other = spawn(&list, sweep);
        let mine = pop_live(&list);
        other.join().unwrap();
        (mine, rest(&list))
    });
}

#[test]
fn a_sweep_meets_a_waiter() {
    // The last node is never unlinked, so the waiter appends to a node that stays.
    explore(Some(3), &["[1, 3]"], || {
        let list = shared(&[1, 2]);
        let other = spawn(&list, sweep);
        push(&list, 3);
        other.join().unwrap();
        rest(&list)
    });
}

#[test]
fn a_sweep_meets_a_waker_and_a_waiter_that_use_its_nodes() {
    explore(Some(2), &["(Some(1), [3, 5])", "(Some(1), [5, 3])"], || {
        let list = shared(&[2, 1, 4]);
        let sweeper = spawn(&list, |list| {
            sweep(list);
            push(list, 3);
        });
        let mine = pop_live(&list);
        push(&list, 5);
        sweeper.join().unwrap();
        (mine, rest(&list))
    });
}

fn drop_ended(shared: &Shared) -> bool {
    let queue = shared.1.queue();
    queue.drop_ended(&shared.0, is_live);
    queue.is_empty(&shared.0)
}

#[test]
fn what_has_ended_is_dropped_beside_a_waker_and_nobody_who_waits() {
    // The waker gets the one that goes on, whoever takes out those before it.
    explore(Some(3), &["(Some(1), [3])"], || {
        let list = shared(&[2, 4, 1, 3]);
        let other = spawn(&list, drop_ended);
        let mine = pop_live(&list);
        other.join().unwrap();
        (mine, rest(&list))
    });
}

#[test]
fn a_node_that_lives_again_under_a_slow_drop_is_kept() {
    // The other one takes the node that this one judges, and waits with it: that is another wait.
    explore(Some(3), &["(false, [1])", "(true, [1])"], || {
        let list = shared(&[2]);
        let other = spawn(&list, |list| {
            pop(list);
            push(list, 1);
        });
        let was_empty = drop_ended(&list);
        other.join().unwrap();
        (was_empty, rest(&list))
    });
}

#[test]
fn what_has_ended_is_dropped_beside_a_sweeper() {
    explore(Some(3), &["[1, 3]"], || {
        let list = shared(&[2, 4, 1]);
        let sweeper = spawn(&list, |list| {
            sweep(list);
            push(list, 3);
        });
        drop_ended(&list);
        sweeper.join().unwrap();
        rest(&list)
    });
}

#[test]
fn one_of_two_sweepers_works_and_nobody_waits() {
    explore(Some(3), &["[1, 3]"], || {
        let list = shared(&[1, 2, 4, 3]);
        let other = spawn(&list, sweep);
        sweep(&list);
        other.join().unwrap();
        rest(&list)
    });
}

#[test]
fn a_stale_waker_finds_nothing_or_the_next_life() {
    // The waker has noted the queue of an object that is gone; its head record may serve another list by now.
    let expected = ["(None, [3])", "(Some(1), [3])", "(Some(3), [])"];
    explore(Some(3), &expected, || {
        let pool = Arc::new(NodePool::<Loom>::default());
        let mut list = WaitList::<Loom>::default();
        assert!(list.push(&pool, 8, 1));
        let queue = list.queue();
        let waker = thread::spawn({
            let pool = pool.clone();
            move || queue.pop(&pool).map(|(_, epoch)| epoch)
        });
        list.release(&pool);
        assert!(list.push(&pool, 8, 3));
        let popped = waker.join().unwrap();
        let left: Vec<_> = std::iter::from_fn(|| list.queue().pop(&pool).map(|(_, epoch)| epoch)).collect();
        (popped, left)
    });
}

#[test]
fn a_stale_waker_does_not_move_the_tail_of_the_next_life() {
    // The next life's sentinel is the node that the waker has seen at the head of the former one, where another
    // followed it; that one is in another list by now.
    let expected = ["(None, [5], [9])", "(Some(1), [5], [9])", "(Some(3), [5], [9])", "(Some(5), [], [9])"];
    explore(Some(2), &expected, || {
        let pool = Arc::new(NodePool::<Loom>::default());
        let (mut list, other) = (WaitList::<Loom>::default(), WaitList::<Loom>::default());
        assert!(other.push(&pool, 8, 7) && other.queue().pop(&pool).is_some());
        assert!(list.push(&pool, 8, 1) && list.push(&pool, 8, 3));
        let queue = list.queue();
        let waker = thread::spawn({
            let pool = pool.clone();
            move || queue.pop(&pool).map(|(_, epoch)| epoch)
        });
        list.release(&pool);
        assert!(other.push(&pool, 8, 9));
        assert!(list.push(&pool, 8, 5));
        let popped = waker.join().unwrap();
        let all = |list: &WaitList<Loom>| -> Vec<u64> {
            std::iter::from_fn(|| list.queue().pop(&pool).map(|(_, epoch)| epoch)).collect()
        };
        (popped, all(&list), all(&other))
    });
}

#[test]
fn a_waker_does_not_leave_behind_a_tail_that_it_has_not_seen() {
    // The second waker passes the node that the first one's move of `head` and `tail` led to, while the waiter behind
    // it has not moved `tail` on. If it took an older `tail` for the present one, that would go on naming a node which
    // is in another list by now.
    let expected = [
        "(None, Some(1), [3, 5], [9])",
        "(None, Some(1), [5, 3], [9])",
        "(Some(1), None, [3, 5], [9])",
        "(Some(1), None, [5, 3], [9])",
        "(Some(1), Some(3), [5], [9])",
        "(Some(5), None, [1, 3], [9])",
        "(Some(5), Some(1), [3], [9])",
    ];
    explore(Some(2), &expected, || {
        let list = shared(&[7]);
        assert_eq!(pop(&list), Some(7));
        let other = WaitList::<Loom>::default();
        assert!(other.push(&list.0, 8, 7) && other.queue().pop(&list.0).is_some());
        let waker = spawn(&list, move |list| {
            let popped = pop(list);
            assert!(other.push(&list.0, 8, 9));
            push(list, 5);
            (popped, std::iter::from_fn(|| other.queue().pop(&list.0).map(|(_, epoch)| epoch)).collect::<Vec<_>>())
        });
        push(&list, 1);
        let mine = pop(&list);
        push(&list, 3);
        let (popped, others) = waker.join().unwrap();
        (mine, popped, rest(&list), others)
    });
}

#[test]
fn a_slow_sweeper_does_not_move_the_tail_of_what_the_list_has_become() {
    // While the sweeper looks at the first node, that one and the next leave; the first comes back as the last, the
    // next is in another list by now. A sweeper that took this `tail` for the one of its walk would move it there.
    explore(Some(2), &["(Some(1), Some(3), [5, 7], [9])"], || {
        let list = shared(&[2, 1, 3]);
        let other = WaitList::<Loom>::default();
        assert!(other.push(&list.0, 8, 7) && other.queue().pop(&list.0).is_some());
        let sweeper = spawn(&list, sweep);
        let popped = (pop_live(&list), pop_live(&list));
        assert!(other.push(&list.0, 8, 9));
        push(&list, 5);
        sweeper.join().unwrap();
        push(&list, 7);
        let others: Vec<_> = std::iter::from_fn(|| other.queue().pop(&list.0).map(|(_, epoch)| epoch)).collect();
        (popped.0, popped.1, rest(&list), others)
    });
}

#[test]
fn what_stands_behind_an_unlinked_node_is_seen_by_a_waker() {
    // The sweeper's link is the only way on which the waker learns of the last wait.
    explore(Some(3), &["(None, [3])", "(Some(3), [])"], || {
        let list = shared(&[2]);
        let sweeper = spawn(&list, |list| {
            push(list, 3);
            sweep(list);
        });
        let popped = pop_live(&list);
        sweeper.join().unwrap();
        (popped, rest(&list))
    });
}

#[test]
fn who_waits_alone_is_found_with_what_it_wrote_before() {
    explore(Some(3), &["None", "Some(7)"], || {
        let list = shared(&[]);
        let written = Arc::new(<Loom as Machine>::Atomic::<u32>::new(0));
        // As in `a_pop_meets_a_push`: two touches of one more word, so that the taker comes after the exchange, too.
        let order = Arc::new(<Loom as Machine>::Atomic::<u32>::new(0));
        let other = spawn(&list, {
            let (written, order) = (written.clone(), order.clone());
            move |list| {
                written.store(7, Ordering::Relaxed);
                assert!(list.1.sit(&list.0, 8));
                order.fetch_add(1, Ordering::Relaxed);
            }
        });
        order.fetch_add(1, Ordering::Relaxed);
        let found = list.1.queue().unseat(&list.0).map(|word| {
            assert_eq!(word, 8);
            written.load(Ordering::Relaxed)
        });
        other.join().unwrap();
        found
    });
}

#[test]
fn who_sits_down_and_looks_misses_no_waker() {
    // Forbidden: (false, None), the waiter sees no condition and the waker nobody.
    let expected = ["(false, Some(8))", "(true, None)", "(true, Some(8))"];
    explore(Some(3), &expected, || {
        let list = shared(&[]);
        // The record is there: its making is `two_first_waiters_share_one_list`'s matter.
        assert!(list.1.sit(&list.0, 16) && list.1.queue().unseat(&list.0) == Some(16));
        let condition = Arc::new(<Loom as Machine>::Atomic::<u32>::new(0));
        let waiter = spawn(&list, {
            let condition = condition.clone();
            move |list| {
                assert!(list.1.sit(&list.0, 8));
                Loom::fence(Ordering::SeqCst);
                condition.load(Ordering::Relaxed) == 1
            }
        });
        condition.fetch_add(1, Ordering::SeqCst);
        Loom::light_fence();
        let woken = list.1.queue().unseat(&list.0);
        (waiter.join().unwrap(), woken)
    });
}

#[test]
fn who_gets_up_and_a_waker_do_not_both_have_the_word() {
    let expected = ["(None, Some(16), None)", "(Some(8), Some(16), None)", "(Some(16), None, None)"];
    explore(Some(3), &expected, || {
        let list = shared(&[]);
        assert!(list.1.sit(&list.0, 8));
        let waker = spawn(&list, |list| list.1.queue().unseat(&list.0));
        list.1.rise(&list.0, 8);
        // The next wait: there is room in any case, since the former one is out.
        assert!(list.1.sit(&list.0, 16));
        let mine = list.1.queue().unseat(&list.0);
        (waker.join().unwrap(), mine, list.1.queue().unseat(&list.0))
    });
}

#[test]
fn two_that_come_at_once_are_both_there() {
    explore(Some(3), &["(Some(8), [3])", "(Some(16), [1])"], || {
        let list = shared(&[]);
        let come = |list: &Shared, word, epoch| {
            if !list.1.sit(&list.0, word) {
                push(list, epoch);
            }
        };
        let other = spawn(&list, move |list| come(list, 8, 1));
        come(&list, 16, 3);
        other.join().unwrap();
        assert!(!list.1.queue().is_empty(&list.0) && list.1.queue().holds_several(&list.0));
        (list.1.queue().unseat(&list.0), rest(&list))
    });
}

#[test]
fn a_stale_waker_takes_one_who_sits_in_the_next_life_or_nobody() {
    explore(Some(3), &["(None, Some(16))", "(Some(8), Some(16))", "(Some(16), None)"], || {
        let pool = Arc::new(NodePool::<Loom>::default());
        let mut list = WaitList::<Loom>::default();
        assert!(list.sit(&pool, 8));
        let queue = list.queue();
        let waker = thread::spawn({
            let pool = pool.clone();
            move || queue.unseat(&pool)
        });
        list.release(&pool);
        assert!(list.sit(&pool, 16));
        let popped = waker.join().unwrap();
        (popped, list.queue().unseat(&pool))
    });
}
