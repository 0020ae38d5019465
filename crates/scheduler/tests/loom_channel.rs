//! All interleavings, within stated bounds, of channels: as `loom_sync.rs`.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::thread;
use loom_runtime::{Model, TIMEOUT, Watched, explore, explore_first};
use raddle_scheduler::sync::channel;
use raddle_scheduler::sync::channel::SendTimeoutError;
use std::sync::Arc;

#[test]
fn a_full_channel_lets_its_sender_go_on() {
    explore(2, &["[1, 2]"], || {
        let (sender, receiver) = channel::bounded::<u32, Model>(1);
        let producer = thread::spawn(move || (1..=2).for_each(|i| sender.send(i).unwrap()));
        let received: Vec<_> = receiver.iter().collect();
        producer.join().unwrap();
        received
    });
}

#[test]
fn a_full_channel_of_two_lets_its_sender_go_on() {
    explore(1, &["[1, 2, 3]"], || {
        let (sender, receiver) = channel::bounded::<u32, Model>(2);
        let producer = thread::spawn(move || (1..=3).for_each(|i| sender.send(i).unwrap()));
        let received: Vec<_> = receiver.iter().collect();
        producer.join().unwrap();
        received
    });
}

#[test]
fn who_finds_a_message_or_a_place_sees_what_was_done_before() {
    explore(2, &["None", "Some(1)"], || {
        let (sender, receiver) = channel::bounded::<u32, Model>(1);
        let done = Arc::new(Watched::new());
        let seen = done.clone();
        let producer = thread::spawn(move || {
            done.add();
            sender.send(1).unwrap();
        });
        let seen = receiver.try_recv().is_ok().then(|| seen.get());
        producer.join().unwrap();
        seen
    });
    explore(2, &["None", "Some(1)"], || {
        let (sender, receiver) = channel::bounded::<u32, Model>(1);
        sender.send(1).unwrap();
        let done = Arc::new(Watched::new());
        let seen = done.clone();
        let producer = thread::spawn(move || sender.try_send(2).is_ok().then(|| seen.get()));
        done.add();
        receiver.try_recv().unwrap();
        producer.join().unwrap()
    });
}

#[test]
fn several_senders_of_a_full_channel_all_go_on() {
    explore(0, &["3"], || {
        let (sender, receiver) = channel::bounded::<u32, Model>(1);
        let producers = [1, 2].map(|value| {
            let sender = sender.clone();
            thread::spawn(move || sender.send(value).unwrap())
        });
        let sum = receiver.recv().unwrap() + receiver.recv().unwrap();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        sum
    });
}

#[test]
fn a_rendezvous_ends_with_both_sides_there() {
    explore(1, &["[1, 2]"], || {
        let (sender, receiver) = channel::bounded::<u32, Model>(0);
        let producer = thread::spawn(move || (1..=2).for_each(|i| sender.send(i).unwrap()));
        let received: Vec<_> = receiver.iter().collect();
        producer.join().unwrap();
        received
    });
}

#[test]
fn a_rendezvous_that_times_out_is_none() {
    // Who gives up has sent nothing, and who has sent was received: both sides agree.
    explore(2, &["(false, Err(Disconnected))", "(true, Ok(1))"], || {
        let (sender, receiver) = channel::bounded::<u32, Model>(0);
        let producer = thread::spawn(move || match sender.send_timeout(1, TIMEOUT) {
            Ok(()) => true,
            Err(SendTimeoutError::Timeout(1)) => false,
            Err(error) => panic!("{error}"),
        });
        let received = receiver.recv();
        (producer.join().unwrap(), received)
    });
}

#[test]
fn a_rendezvous_sees_the_receiver_go() {
    explore(2, &["Err(SendError(..))"], || {
        let (sender, receiver) = channel::bounded::<u32, Model>(0);
        let last = thread::spawn(move || drop(receiver));
        let sent = sender.send(1);
        last.join().unwrap();
        sent
    });
}

#[test]
fn who_has_sent_finds_a_message_though_nodes_live_again() {
    // Who sends with an old end of the list, or follows a link from a node's former life, would append to a node that
    // is not in the list yet.
    explore(1, &["true"], || {
        let (sender, receiver) = channel::unbounded::<u32, Model>();
        let other = thread::spawn({
            let (sender, receiver) = (sender.clone(), receiver.clone());
            move || {
                sender.send(0).unwrap();
                receiver.try_recv().is_ok()
            }
        });
        for message in 1..=2 {
            sender.send(message).unwrap();
            assert!(receiver.try_recv().is_ok(), "of all that was sent by now, less was received");
        }
        sender.send(3).unwrap();
        other.join().unwrap()
    });
}

#[test]
fn who_receives_with_an_old_view_of_the_ends_moves_neither() {
    // A node that is the last one again in its next life, and an old view in which it is the first: moving the end on
    // by its former link would lead to a node that is not in the list.
    explore(1, &["4"], || {
        let (sender, receiver) = channel::unbounded::<u32, Model>();
        let other = thread::spawn({
            let (sender, receiver) = (sender.clone(), receiver.clone());
            move || {
                let received = receiver.try_recv().is_ok();
                sender.send(0).unwrap();
                received
            }
        });
        let mut received = 0;
        for message in 1..=2 {
            sender.send(message).unwrap();
            received += u32::from(receiver.try_recv().is_ok());
        }
        sender.send(3).unwrap();
        received += u32::from(other.join().unwrap());
        while receiver.try_recv().is_ok() {
            received += 1;
        }
        received
    });
}

#[test]
fn two_receivers_share_what_was_sent() {
    explore(2, &["3"], || {
        let (sender, receiver) = channel::bounded::<u32, Model>(2);
        (1..=2).for_each(|i| sender.send(i).unwrap());
        let other = thread::spawn({
            let receiver = receiver.clone();
            move || receiver.iter().sum::<u32>()
        });
        drop(sender);
        receiver.iter().sum::<u32>() + other.join().unwrap()
    });
}

// The gate of a channel counts only where two threads of a side wait. Three threads have too many interleavings: the
// first so many are explored, with a yield, which is no preemption, where the others are to be asleep first.
const GATED: Option<usize> = Some(20_000);

#[test]
fn a_woken_receiver_wakes_the_next() {
    // Both wait; the second message is sent while the first receiver is coming, which has to wake the second one.
    explore_first(GATED, 1, &["3"], || {
        let (sender, receiver) = channel::bounded::<u32, Model>(2);
        let others = [(); 2].map(|()| {
            let receiver = receiver.clone();
            thread::spawn(move || receiver.recv().unwrap())
        });
        thread::yield_now();
        sender.send(1).unwrap();
        sender.send(2).unwrap();
        others.into_iter().map(|other| other.join().unwrap()).sum::<u32>()
    });
}

#[test]
fn a_woken_sender_wakes_the_next() {
    explore_first(GATED, 1, &["6"], || {
        let (sender, receiver) = channel::bounded::<u32, Model>(2);
        sender.send(1).unwrap();
        sender.send(2).unwrap();
        let others = [1, 2].map(|value| {
            let sender = sender.clone();
            thread::spawn(move || sender.send(value).unwrap())
        });
        thread::yield_now();
        let sum = receiver.recv().unwrap() + receiver.recv().unwrap();
        others.into_iter().for_each(|other| other.join().unwrap());
        sum + receiver.try_iter().sum::<u32>()
    });
}

#[test]
fn a_receiver_that_times_out_is_not_relied_upon() {
    // The list holds two, of which one is gone when its turn comes (once it sleeps, the model's time is up at once):
    // the other still gets what it waits for. Or the messages come before.
    let all = ["(None, Some(1))", "(Some(1), Some(2))", "(Some(2), Some(1))"];
    for asleep in [true, false] {
        explore_first(GATED, 1, &all, move || {
            let (sender, receiver) = channel::bounded::<u32, Model>(2);
            let timed = thread::spawn({
                let receiver = receiver.clone();
                move || receiver.recv_timeout(TIMEOUT).ok()
            });
            let patient = thread::spawn({
                let receiver = receiver.clone();
                move || receiver.recv().ok()
            });
            if asleep {
                thread::yield_now();
            }
            sender.send(1).unwrap();
            sender.send(2).unwrap();
            (timed.join().unwrap(), patient.join().unwrap())
        });
    }
}

#[test]
fn two_that_wait_for_one_message_see_the_sender_go() {
    explore_first(GATED, 1, &["1"], || {
        let (sender, receiver) = channel::bounded::<u32, Model>(1);
        let others = [(); 2].map(|()| {
            let receiver = receiver.clone();
            thread::spawn(move || receiver.recv().unwrap_or(0))
        });
        thread::yield_now();
        sender.send(1).unwrap();
        drop(sender);
        others.into_iter().map(|other| other.join().unwrap()).sum::<u32>()
    });
}

#[test]
fn an_unbounded_channel_delivers_and_ends() {
    explore(2, &["[1, 2]"], || {
        let (sender, receiver) = channel::unbounded::<u32, Model>();
        let producer = thread::spawn(move || (1..=2).for_each(|i| sender.send(i).unwrap()));
        let received: Vec<_> = receiver.iter().collect();
        producer.join().unwrap();
        received
    });
}

#[test]
fn a_sender_that_waits_sees_the_receiver_go() {
    explore(2, &["Err(SendError(..))", "Ok(())"], || {
        let (sender, receiver) = channel::bounded::<u32, Model>(1);
        sender.send(1).unwrap();
        let last = thread::spawn(move || drop(receiver));
        let sent = sender.send(2);
        last.join().unwrap();
        sent
    });
}
