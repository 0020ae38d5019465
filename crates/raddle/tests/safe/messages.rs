//! Channels and promises: ends that are forgotten, dropped while others wait, sent through themselves.

use crate::harness::{On, panics, pool, quiet};
use raddle::sync::{channel, oneshot};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Counts its drops.
struct Counted(Arc<AtomicU32>);
impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

case!(every_message_is_dropped_once {
    let drops = Arc::new(AtomicU32::new(0));
    for capacity in [Some(0), Some(1), Some(7), None] {
        drops.store(0, Ordering::Relaxed);
        let (sender, receiver) = capacity.map_or_else(channel::unbounded, channel::bounded);
        pool(2).run(|| {
            raddle::scope(|s| {
                for number in 0..8 {
                    let (sender, drops) = (sender.clone(), drops.clone());
                    s.spawn(move || {
                        for _ in 0..10 {
                            let message = Counted(drops.clone());
                            if number % 2 == 0 {
                                let _ = sender.send(message);
                            } else {
                                let _ = sender.send_timeout(message, Duration::from_micros(50));
                            }
                        }
                    });
                }
                // Some are taken, some stay, and some senders find nobody.
                for _ in 0..20 {
                    let _ = receiver.recv_timeout(Duration::from_millis(1));
                }
                drop(receiver);
            });
        });
        drop(sender);
        assert_eq!(drops.load(Ordering::Relaxed), 80);
    }
});

case!(messages_whose_drop_panics_or_sends {
    quiet();
    struct Loud(channel::Sender<u32>);
    impl Drop for Loud {
        fn drop(&mut self) {
            let _ = self.0.send(1);
            if !std::thread::panicking() {
                panic!("on purpose");
            }
        }
    }
    pool(1).run(|| {
        let (notes, noted) = channel::unbounded();
        let (sender, receiver) = channel::unbounded();
        for _ in 0..5 {
            sender.send(Loud(notes.clone())).unwrap_or_else(|_| unreachable!());
        }
        drop(sender);
        assert!(panics(|| drop(receiver)));
        drop(notes);
        assert!(noted.iter().count() >= 1);
    });
});

case!(a_channel_sent_through_itself {
    pool(1).run(|| {
        enum Message {
            Ends(channel::Sender<Message>, channel::Receiver<Message>),
        }
        let (sender, receiver) = channel::bounded(2);
        sender.send(Message::Ends(sender.clone(), receiver.clone())).unwrap_or_else(|_| unreachable!());
        drop(sender);
        // The channel keeps itself alive: it is lost, and that is all.
        let Message::Ends(sender, again) = receiver.recv().unwrap();
        assert!(receiver.try_recv().is_err() && again.try_recv().is_err());
        drop(sender);
        assert!(receiver.recv().is_err());
    });
});

case!(ends_that_are_forgotten {
    pool(1).run(|| {
        let (sender, receiver) = channel::bounded::<u32>(1);
        std::mem::forget(sender.clone());
        drop(sender);
        assert!(receiver.recv_timeout(Duration::from_micros(10)).is_err());
        std::mem::forget(receiver);
        let (sender, receiver) = channel::bounded(1);
        std::mem::forget(receiver);
        sender.send(1).unwrap();
        assert!(sender.send_timeout(2, Duration::from_micros(10)).is_err());
    });
});

case!(capacities_that_cannot_be {
    quiet();
    assert!(panics(|| channel::bounded::<u8>(usize::MAX)));
    assert!(panics(|| channel::bounded::<u8>(channel::MAX_CAPACITY + 1)));
    let (sender, receiver) = channel::bounded::<[u8; 0]>(3);
    sender.send([]).unwrap();
    assert_eq!(receiver.recv(), Ok([]));
});

case!(messages_larger_than_a_stack_would_like {
    let (sender, receiver) = channel::bounded::<Box<[u64; 10_000]>>(0);
    let sum = pool(2).run(|| {
        raddle::scope(|s| {
            s.spawn(|| (0..10).for_each(|n| sender.send(Box::new([n; 10_000])).unwrap()));
            (0..10).map(|_| receiver.recv().unwrap()[9_999]).sum::<u64>()
        })
    });
    assert_eq!(sum, 45);
});

case!(promises_broken_kept_late_and_given_up {
    let drops = Arc::new(AtomicU32::new(0));
    pool(2).run(|| {
        raddle::scope(|s| {
            for number in 0..60u64 {
                let (promise, future) = oneshot::channel::<Counted>();
                let kept = drops.clone();
                s.spawn(move || match number % 3 {
                    0 => drop(promise),
                    1 => drop(promise.set(Counted(kept))),
                    _ => {
                        raddle::sleep(Duration::from_micros(number));
                        drop(promise.set(Counted(kept)));
                    }
                });
                s.spawn(move || match number % 4 {
                    0 => drop(future),
                    1 => drop(future.get()),
                    2 => drop(future.get_timeout(Duration::from_micros(number))),
                    _ => drop(future.try_get()),
                });
            }
        });
    });
    assert_eq!(drops.load(Ordering::Relaxed), 40);
});

case!(a_promise_sent_with_its_own_future {
    pool(1).run(|| {
        struct Loop(#[allow(dead_code, reason = "only kept")] Option<oneshot::Future<Loop>>);
        let (promise, future) = oneshot::channel::<Loop>();
        // The value holds the right to itself: it leaks.
        assert!(promise.set(Loop(Some(future))).is_ok());
    });
});

case!(receivers_are_cancelled_with_messages_in_flight, On::Lightweight, {
    for capacity in [0, 1, 3] {
        let drops = Arc::new(AtomicU32::new(0));
        let (sender, receiver) = channel::bounded(capacity);
        pool(2).run(|| {
            raddle::scope(|s| {
                let takers: Vec<_> = (0..10).map(|_| s.spawn(|| while receiver.recv().is_ok() {})).collect();
                let givers: Vec<_> = (0..10)
                    .map(|_| {
                        s.spawn(|| {
                            for _ in 0..20 {
                                let _ = sender.send(Counted(drops.clone()));
                            }
                        })
                    })
                    .collect();
                raddle::yield_now();
                takers.iter().step_by(2).for_each(|taker| taker.cancel());
                givers.iter().step_by(3).for_each(|giver| giver.cancel());
                givers.into_iter().for_each(|giver| giver.join().unwrap());
                takers.iter().for_each(|taker| taker.cancel());
            });
        });
        drop((sender, receiver));
        assert_eq!(drops.load(Ordering::Relaxed), 200);
    }
});
