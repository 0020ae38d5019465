//! Channels on kernel threads.

mod joined;

use raddle_scheduler::Runtime;
use raddle_scheduler::runtime::cancel;
use raddle_scheduler::sync::channel::{
    Receiver, RecvError, RecvTimeoutError, SendError, SendTimeoutError, Sender, TryRecvError, TrySendError, bounded,
    unbounded,
};
use raddle_scheduler::sync::kernel_threads::KernelThreads;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const SHORT: Duration = Duration::from_micros(50);

fn channels<T>() -> Vec<(Sender<T, KernelThreads>, Receiver<T, KernelThreads>)> {
    vec![bounded(0), bounded(1), bounded(3), bounded(64), unbounded()]
}

#[test]
fn every_message_arrives_once_and_in_its_senders_order() {
    const EACH: u64 = if cfg!(miri) { 30 } else { 3_000 };
    for (sender, receiver) in channels::<(usize, Box<u64>)>() {
        let total = AtomicU64::new(0);
        joined::scope(|scope| {
            for who in 0..3 {
                let sender = sender.clone();
                scope.spawn(move || {
                    for i in 0..EACH {
                        let mut message = (who, Box::new(i));
                        // One sender gives up now and then, and sends again.
                        while let Err(error) = if who == 0 && i % 7 == 0 {
                            sender.send_timeout(message, Duration::from_nanos(i))
                        } else {
                            sender.send(message).map_err(|SendError(m)| SendTimeoutError::Disconnected(m))
                        } {
                            assert!(matches!(error, SendTimeoutError::Timeout(_)), "{error}");
                            message = error.into_inner();
                        }
                    }
                });
            }
            drop(sender);
            for who in 0..2 {
                let (receiver, total) = (receiver.clone(), &total);
                scope.spawn(move || {
                    let mut last = [None; 3];
                    loop {
                        let received = if who == 0 {
                            receiver.recv_timeout(Duration::from_nanos(500))
                        } else {
                            receiver.recv().map_err(|_| RecvTimeoutError::Disconnected)
                        };
                        match received {
                            Ok((from, i)) => {
                                assert!(last[from] < Some(*i), "{from} sent {i} after {:?}", last[from]);
                                last[from] = Some(*i);
                                total.fetch_add(*i + 1, SeqCst);
                            }
                            Err(RecvTimeoutError::Timeout) => {}
                            Err(_) => return,
                        }
                    }
                });
            }
        });
        assert_eq!(total.load(SeqCst), 3 * EACH * (EACH + 1) / 2);
    }
}

#[test]
fn both_ends_see_the_other_go() {
    for (sender, receiver) in channels::<u32>() {
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(receiver.recv_timeout(SHORT), Err(RecvTimeoutError::Timeout));
        drop(sender);
        assert_eq!(receiver.recv(), Err(RecvError::Disconnected));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
    }
    for (sender, receiver) in channels::<u32>() {
        drop(receiver);
        assert_eq!(sender.send(1), Err(SendError(1)));
        assert_eq!(sender.try_send(1), Err(TrySendError::Disconnected(1)));
        assert_eq!(sender.send_timeout(1, SHORT), Err(SendTimeoutError::Disconnected(1)));
    }
}

#[test]
fn waiting_ends_when_the_other_side_goes() {
    for (sender, receiver) in channels::<u32>() {
        joined::scope(|scope| {
            scope.spawn(move || assert_eq!(receiver.iter().count(), 0));
            std::thread::yield_now();
            drop(sender);
        });
    }
    for (sender, receiver) in channels::<u32>() {
        if receiver.capacity().is_none() {
            continue;
        }
        joined::scope(|scope| {
            scope.spawn(move || while sender.send(1).is_ok() {});
            std::thread::yield_now();
            drop(receiver);
        });
    }
}

#[test]
fn capacity_is_exact() {
    for capacity in [1, 2, 3, 5, 8] {
        let (sender, receiver) = bounded::<usize, KernelThreads>(capacity);
        for round in 0..20 {
            for i in 0..capacity {
                sender.try_send(round + i).unwrap();
            }
            assert_eq!(sender.try_send(9), Err(TrySendError::Full(9)));
            assert_eq!(sender.send_timeout(9, SHORT), Err(SendTimeoutError::Timeout(9)));
            assert_eq!(receiver.len(), Some(capacity));
            assert_eq!(receiver.try_iter().collect::<Vec<_>>(), (round..round + capacity).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_rendezvous_returns_when_it_was_received() {
    let (sender, receiver) = bounded::<u32, KernelThreads>(0);
    assert_eq!(sender.try_send(1), Err(TrySendError::Full(1)));
    assert_eq!(sender.send_timeout(2, SHORT), Err(SendTimeoutError::Timeout(2)));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    let received = AtomicU64::new(0);
    joined::scope(|scope| {
        scope.spawn(|| {
            for i in 1..=1000 {
                // Counted before it is taken, so that the sender may rely on it.
                received.fetch_add(1, SeqCst);
                assert_eq!(receiver.recv(), Ok(i));
            }
        });
        for i in 1..=1000 {
            sender.send(i).unwrap();
            assert!(received.load(SeqCst) >= i as u64);
        }
    });
}

#[test]
fn unread_messages_are_dropped() {
    for (sender, receiver) in channels::<Arc<()>>() {
        let witness = Arc::new(());
        while Arc::strong_count(&witness) < 10 && sender.try_send(witness.clone()).is_ok() {}
        drop(receiver);
        assert_eq!(Arc::strong_count(&witness), 1);
        assert!(sender.send(witness).is_err());
    }
    let (sender, receiver) = unbounded::<Arc<()>, KernelThreads>();
    let witness = Arc::new(());
    sender.send(witness.clone()).unwrap();
    drop((sender, receiver));
    assert_eq!(Arc::strong_count(&witness), 1);
}

#[test]
fn cancellation_ends_a_receive_with_an_error_and_keeps_messages() {
    let (sender, receiver) = bounded::<u32, KernelThreads>(1);
    joined::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let waiting = scope.handle({
            let receiver = receiver.clone();
            move || {
                // SAFETY: used to cancel the thread only.
                tell.send(unsafe { KernelThreads::current() }).unwrap();
                assert_eq!(receiver.recv(), Err(RecvError::Cancelled));
                assert_eq!(receiver.recv_timeout(SHORT), Err(RecvTimeoutError::Cancelled));
                // What is there is still received.
                receiver
            }
        });
        cancel::<KernelThreads>(told.recv().unwrap());
        waiting.join().unwrap();
    });
    sender.send(5).unwrap();
    assert_eq!(receiver.recv(), Ok(5));
}

#[test]
fn messages_may_borrow() {
    let words = [String::from("a"), String::from("b")];
    for (sender, receiver) in channels::<&String>() {
        joined::scope(|scope| {
            scope.spawn(|| words.iter().for_each(|word| sender.send(word).unwrap()));
            assert_eq!(receiver.iter().take(2).map(String::as_str).collect::<String>(), "ab");
        });
    }
}
