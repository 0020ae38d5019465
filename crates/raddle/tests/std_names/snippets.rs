// Included once after `use std::{sync, thread}`, and once after `use raddle::{sync, thread}`.

use std::time::Duration;

pub type Snippet = (&'static str, fn() -> String);

pub const SNIPPETS: &[Snippet] = &[
    ("spawn and join", || thread::spawn(|| 6 * 7).join().unwrap().to_string()),
    ("a panic is the error of join", || {
        let text = thread::spawn(|| std::panic::resume_unwind(Box::new("out"))).join();
        text.map_err(|payload: Box<dyn std::any::Any + Send>| payload.downcast_ref::<&str>().unwrap().to_string())
            .unwrap_err()
    }),
    ("scope", || {
        let mut numbers = [1, 2, 3];
        thread::scope(|scope| {
            for number in &mut numbers {
                scope.spawn(move || *number *= 2);
            }
        });
        format!("{numbers:?}")
    }),
    ("a named thread of a scope", || {
        let text = "borrowed".to_string();
        thread::scope(|scope| {
            let handle = thread::Builder::new()
                .name("worker".to_string())
                .spawn_scoped(scope, || format!("{:?} {text}", thread::current().name()));
            handle.unwrap().join().unwrap()
        })
    }),
    ("park and unpark", || {
        let (main, flag) = (thread::current(), sync::Arc::new(sync::atomic::AtomicBool::new(false)));
        let theirs = flag.clone();
        let other = thread::spawn(move || {
            theirs.store(true, sync::atomic::Ordering::Release);
            main.unpark();
        });
        while !flag.load(sync::atomic::Ordering::Acquire) {
            thread::park();
        }
        other.join().unwrap();
        "woken".to_string()
    }),
    ("each thread has a number", || {
        let other = thread::spawn(|| thread::current().id()).join().unwrap();
        (other != thread::current().id()).to_string()
    }),
    ("sleep, yield, available_parallelism", || {
        thread::sleep(Duration::from_millis(1));
        thread::yield_now();
        thread::park_timeout(Duration::from_millis(1));
        (thread::available_parallelism().unwrap().get() > 0 && !thread::panicking()).to_string()
    }),
    ("Mutex and Arc", || {
        let sum = sync::Arc::new(sync::Mutex::new(0));
        let threads: Vec<_> = (0..10)
            .map(|i| {
                let sum = sync::Arc::clone(&sum);
                thread::spawn(move || *sum.lock().unwrap() += i)
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        sum.lock().unwrap().to_string()
    }),
    ("Condvar", || {
        static READY: (sync::Mutex<bool>, sync::Condvar) = (sync::Mutex::new(false), sync::Condvar::new());
        let other = thread::spawn(|| {
            *READY.0.lock().unwrap() = true;
            READY.1.notify_one();
        });
        let ready = READY.1.wait_while(READY.0.lock().unwrap(), |ready| !*ready).unwrap();
        let answer = ready.to_string();
        drop(ready);
        other.join().unwrap();
        answer
    }),
    ("RwLock", || {
        let lock = sync::RwLock::new(5);
        *lock.write().unwrap() += 1;
        format!("{} {}", lock.read().unwrap(), lock.try_write().is_ok())
    }),
    ("Barrier", || {
        let barrier = sync::Barrier::new(3);
        let leaders = thread::scope(|scope| {
            let threads = [(); 3].map(|()| scope.spawn(|| barrier.wait().is_leader()));
            threads.into_iter().filter_map(|thread| thread.join().ok()).filter(|leads| *leads).count()
        });
        leaders.to_string()
    }),
    ("Once, OnceLock and LazyLock", || {
        static ONCE: sync::Once = sync::Once::new();
        static CELL: sync::OnceLock<u32> = sync::OnceLock::new();
        static LAZY: sync::LazyLock<Vec<u32>> = sync::LazyLock::new(|| vec![1, 2]);
        ONCE.call_once(|| ());
        format!("{} {} {}", ONCE.is_completed(), CELL.get_or_init(|| 7), LAZY.len())
    }),
    ("mpsc: many senders, a loop over the receiver", || {
        let (sender, receiver) = sync::mpsc::channel();
        for i in 0..3 {
            let sender = sender.clone();
            thread::spawn(move || sender.send(i).unwrap());
        }
        drop(sender);
        let mut sum = 0;
        for i in &receiver {
            sum += i;
        }
        format!("{sum} {:?}", receiver.try_recv())
    }),
    ("mpsc: bounded, and a time-out", || {
        let (sender, receiver) = sync::mpsc::sync_channel(1);
        sender.send("first").unwrap();
        let full = sender.try_send("second").is_err();
        let first = receiver.recv().unwrap();
        format!("{full} {first} {:?}", receiver.recv_timeout(Duration::from_millis(1)))
    }),
];
