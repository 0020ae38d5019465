//! All interleavings of the inbox and of the single-producer queue.
#![cfg(feature = "loom")]

mod support;

use loom::thread;
use raddle_machine::Loom;
use raddle_queues::inbox::{Inbox, Link};
use raddle_queues::spsc::Spsc;
use std::ptr::NonNull;
use std::sync::Arc;
use support::{Items, explore};

struct Post {
    inbox: Inbox<Loom>,
    links: Vec<Link<Loom>>,
    contents: Items,
}

impl Post {
    fn new(count: usize) -> Arc<Self> {
        Arc::new(Self {
            inbox: Inbox::new(),
            links: (0..=count).map(|_| Link::new()).collect(),
            contents: Items::new(count),
        })
    }

    fn push(&self, item: usize) -> bool {
        self.contents.fill(item);
        // SAFETY: the post keeps its links; each test pushes an item only when it has it.
        unsafe { self.inbox.push(NonNull::from(&self.links[item])) }
    }

    fn take(&self) -> Vec<usize> {
        let which = |link| self.links.iter().position(|one| NonNull::from(one) == link).unwrap();
        self.inbox.take_all().map(which).map(|item| self.contents.empty(item)).collect()
    }
}

#[test]
fn senders_items_come_in_order_and_one_of_them_found_it_empty() {
    let expected = [
        "(false, (true, false), [2, 1, 3], [])",
        "(false, (true, false), [2, 3, 1], [])",
        "(false, (true, true), [2, 1], [3])",
        "(true, (false, false), [1, 2, 3], [])",
        "(true, (false, true), [1, 2], [3])",
        "(true, (true, false), [1], [2, 3])",
    ];
    explore(None, &expected, || {
        let post = Post::new(3);
        let theirs = post.clone();
        let sender = thread::spawn(move || (theirs.push(2), theirs.push(3)));
        let mine = post.push(1);
        let first = post.take();
        let told = sender.join().unwrap();
        let rest = post.take();
        post.contents.all_taken();
        (mine, told, first, rest)
    });
}

#[test]
fn an_item_can_come_again() {
    let expected = ["([1, 2], [1, 2])", "([1], [1, 2])", "([1], [2, 1])", "([2, 1], [2, 1])"];
    explore(None, &expected, || {
        let post = Post::new(2);
        let theirs = post.clone();
        let sender = thread::spawn(move || theirs.push(2));
        post.push(1);
        let first = post.take();
        for &item in &first {
            post.push(item);
        }
        sender.join().unwrap();
        let rest = post.take();
        post.contents.all_taken();
        (first, rest)
    });
}

#[test]
fn a_producer_and_a_consumer_pass_blocks_to_and_fro() {
    // Blocks hold two items here: four are needed, up to two of them come back.
    let expected = [
        "(false, false, false)",
        "(false, false, true)",
        "(false, true, false)",
        "(false, true, true)",
        "(true, false, true)",
        "(true, true, false)",
        "(true, true, true)",
    ];
    explore(None, &expected, || {
        let items = Items::new(7);
        let (mut producer, mut consumer) = Spsc::<Loom>::new().unwrap();
        let theirs = items.clone();
        let consumer = thread::spawn(move || {
            let mut got = Vec::new();
            consumer.take_all(|item| got.push(theirs.empty(item)));
            let now = got.len();
            got.extend(consumer.pop().map(|item| theirs.empty(item)));
            consumer.take_all(|item| got.push(theirs.empty(item)));
            (now, got, consumer)
        });
        for item in 1..=7 {
            producer.push(items.fill(item)).unwrap();
        }
        let (now, mut got, mut consumer) = consumer.join().unwrap();
        let then = got.len();
        consumer.take_all(|item| got.push(items.empty(item)));
        assert_eq!(got, [1, 2, 3, 4, 5, 6, 7]);
        items.all_taken();
        // All of 0 <= now <= then <= 7 occur; these are their kinds.
        (now == 0, now < then, then < 7)
    });
}
