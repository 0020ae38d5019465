//! The dump names what each thread waits for, who holds it, and where it waits; and it disturbs nobody.

use raddle::sync::{Mutex, channel};
use std::sync::Arc;

fn dumped() -> String {
    let mut text = Vec::new();
    raddle::info::dump(&mut text, Default::default()).unwrap();
    String::from_utf8(text).unwrap()
}

/// Dumps until all of `wanted` are in one dump: threads take their time to get where they wait.
fn dump_with(wanted: &[&str]) -> String {
    loop {
        let text = dumped();
        if wanted.iter().all(|w| text.contains(w)) {
            return text;
        }
        std::thread::yield_now();
    }
}

#[inline(never)]
fn waits_in_this_function(receiver: &channel::Receiver<u32>) -> u32 {
    receiver.recv().unwrap()
}

#[test]
fn every_waiting_thread_says_for_what_and_goes_on_unharmed() {
    for processors in [1, 3] {
        let pool = raddle::Builder::new().processors(processors).build().unwrap();
        let named = |name: &str| raddle::thread::Builder::new().name(name.into());
        let mutex = Arc::new(Mutex::new(0));
        let (sender, receiver) = channel::bounded::<u32>(1);
        let held = mutex.clone();
        let (release, released) = channel::bounded::<()>(1);
        let holder = named("holder")
            .spawn_into(&pool, move || {
                let mut guard = held.lock().unwrap();
                released.recv().unwrap();
                *guard += 1;
            })
            .unwrap();
        dump_with(&["\"holder\" waits for a message from a channel"]);
        let wanted = mutex.clone();
        let locker = named("locker").spawn_into(&pool, move || *wanted.lock().unwrap() += 1).unwrap();
        let taker = named("taker").spawn_into(&pool, move || waits_in_this_function(&receiver)).unwrap();
        let joiner = named("joiner").spawn_into(&pool, move || locker.join().unwrap()).unwrap();
        let text = dump_with(&[
            "\"holder\" waits for a message from a channel",
            "\"locker\" waits for a mutex",
            "\"taker\" waits for a message from a channel",
            "\"joiner\" waits for the end of a thread",
            "waits_in_this_function",
        ]);
        let line = |name: &str| text.lines().find(|l| l.contains(&format!("\"{name}\" waits"))).unwrap().to_owned();
        // `thread 0 "holder"`, as its own line begins.
        let numbered = |name: &str| line(name).split(" waits").next().unwrap().to_owned();
        assert!(line("locker").contains(&format!(", held by {};", numbered("holder"))), "{text}");
        assert!(line("joiner").contains(&format!(", which is up to {};", numbered("locker"))), "{text}");
        // A hundred more dumps from inside and outside the pool change nothing.
        for _ in 0..50 {
            dumped();
            pool.spawn(|| drop(dumped())).join().unwrap();
        }
        sender.send(7).unwrap();
        release.send(()).unwrap();
        assert_eq!(taker.join().unwrap(), 7);
        holder.join().unwrap();
        joiner.join().unwrap();
        assert_eq!(*mutex.lock().unwrap(), 2);
    }
}
