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
    ("a join handle's thread: its number, its name, unpark", || {
        let named = thread::Builder::new().name("named".into()).spawn(|| {
            thread::park();
            thread::current().id()
        });
        let named = named.unwrap();
        let (handle, plain) = (named.thread().clone(), thread::spawn(thread::current));
        handle.unpark();
        let id = named.join().unwrap();
        let told = plain.thread().id();
        let plain = plain.join().unwrap();
        format!("{} {:?} {} {:?}", id == handle.id(), handle.name(), told == plain.id(), plain.name())
    }),
    ("the thread of a scoped join handle", || {
        let seen = sync::atomic::AtomicBool::new(false);
        thread::scope(|scope| {
            let waits = scope.spawn(|| {
                while !seen.load(sync::atomic::Ordering::Acquire) {
                    thread::park();
                }
                thread::current().id()
            });
            let id = waits.thread().id();
            seen.store(true, sync::atomic::Ordering::Release);
            waits.thread().unpark();
            (waits.join().unwrap() == id).to_string()
        })
    }),
    ("a thread that borrows, unchecked", || {
        let text = "borrowed".to_string();
        let borrowed = &text;
        // SAFETY: joined here.
        let thread = unsafe { thread::Builder::new().spawn_unchecked(move || borrowed.len()) };
        thread.unwrap().join().unwrap().to_string()
    }),
    ("OnceLock: wait, compare, copy", || {
        let lock = sync::Arc::new(sync::OnceLock::new());
        let theirs = lock.clone();
        let waiter = thread::spawn(move || *theirs.wait());
        lock.set(7).unwrap();
        let waited = waiter.join().unwrap();
        let copy = sync::OnceLock::clone(&lock);
        let empty: sync::OnceLock<i32> = sync::OnceLock::new();
        format!("{waited} {} {} {:?}", copy == sync::OnceLock::from(7), copy == empty, empty.clone().get())
    }),
    ("Once: wait", || {
        static ONCE: sync::Once = sync::Once::new();
        let waiter = thread::spawn(|| ONCE.wait());
        ONCE.call_once(|| ());
        waiter.join().unwrap();
        ONCE.wait();
        let broken = sync::Once::new();
        let raise = || std::panic::resume_unwind(Box::new(()));
        let raised = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| broken.call_once(raise))).is_err();
        let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| broken.wait())).is_err();
        broken.call_once_force(|_| ());
        broken.wait_force();
        format!("{raised} {waited} {}", broken.is_completed())
    }),
    ("mpsc: RecvError is a value", || {
        let (sender, receiver) = sync::mpsc::channel::<u32>();
        drop(sender);
        (receiver.recv() == Err(sync::mpsc::RecvError)).to_string()
    }),
    ("old forms", || {
        #[expect(deprecated, reason = "std has them, too")]
        {
            static ONCE: sync::Once = sync::ONCE_INIT;
            ONCE.call_once(|| thread::sleep_ms(1));
            let (lock, changed) = (sync::Mutex::new(1), sync::Condvar::new());
            let (value, in_time) = changed.wait_timeout_ms(lock.lock().unwrap(), 1).unwrap();
            format!("{} {value} {in_time}", ONCE.is_completed())
        }
    }),
];
