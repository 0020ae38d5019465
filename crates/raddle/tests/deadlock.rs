//! A dead-lock is reported with who waits for what; whatever somebody could still end is not called one.

#[path = "freeze/icebox.rs"]
#[allow(dead_code)] // It is the freeze test's.
mod icebox;

use raddle::sync::{Mutex, channel};
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

const CASE: &str = "RADDLE_TEST_DEADLOCK";
/// What has not come so long after the last line does not come.
const TOLD_WITHIN: Duration = Duration::from_secs(120);

/// In a child, since nothing ends it but its parent.
fn child(case: &str) {
    let two = || raddle::Builder::new().processors(2).build().unwrap();
    let named = |name: &str| raddle::thread::Builder::new().name(name.into());
    match case {
        "crossed" | "crossed without names" => {
            // A thread with a quantum has what names are kept in, and no name.
            let unnamed = || raddle::thread::Builder::new().quantum(Duration::from_millis(1));
            let named = |name: &str| if case == "crossed" { named(name) } else { unnamed() };
            let pool = two();
            let (left, right) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
            let (l, r) = (left.clone(), right.clone());
            let (has_left, left_taken) = channel::bounded(1);
            let (has_right, right_taken) = channel::bounded(1);
            let one = named("philosopher one")
                .spawn_into(&pool, move || {
                    let _left = l.lock().unwrap();
                    has_left.send(()).unwrap();
                    right_taken.recv().unwrap();
                    drop(r.lock().unwrap());
                })
                .unwrap();
            let two = named("philosopher two")
                .spawn_into(&pool, move || {
                    let _right = right.lock().unwrap();
                    has_right.send(()).unwrap();
                    left_taken.recv().unwrap();
                    drop(left.lock().unwrap());
                })
                .unwrap();
            one.join().unwrap();
            two.join().unwrap();
        }
        "joined late" => {
            let pool = two();
            let (to_one, for_one) = channel::bounded::<()>(1);
            let (to_two, for_two) = channel::bounded::<()>(1);
            let one = pool.spawn(move || for_one.recv().is_ok() && to_two.send(()).is_ok());
            let two = pool.spawn(move || for_two.recv().is_ok() && to_one.send(()).is_ok());
            // Long enough for the monitor to fall asleep; whether it does is not judged.
            std::thread::sleep(Duration::from_millis(300));
            one.join().unwrap();
            two.join().unwrap();
        }
        "sleeper" => {
            let pool = two();
            let (sender, receiver) = channel::bounded::<()>(1);
            pool.spawn(move || receiver.recv().unwrap());
            pool.run(|| raddle::sleep(Duration::from_millis(300)));
            eprintln!("woke up");
            drop(sender);
        }
        "retired with a deadline" => {
            let pool = raddle::Builder::new().build().unwrap();
            let processors = pool.processors();
            // At once on all processors, so that each of them sleeps with a deadline.
            let there: &AtomicUsize = Box::leak(Box::default());
            let sleeps = move || {
                there.fetch_add(1, Ordering::SeqCst);
                while there.load(Ordering::SeqCst) < processors {
                    std::hint::spin_loop();
                }
                raddle::sleep(Duration::from_millis(300));
            };
            let sleepers: Vec<_> = (0..processors).map(|_| pool.spawn(sleeps)).collect();
            while there.load(Ordering::SeqCst) < processors {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(50));
            run_on_one_core();
            // It looks while something runs.
            while pool.processors() > 1 {
                pool.run(raddle::yield_now);
            }
            sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
            eprintln!("all woke up");
            let (_sender, receiver) = channel::bounded::<()>(1);
            let receiver = Arc::new(receiver);
            let one = receiver.clone();
            let one = pool.spawn(move || one.recv().unwrap());
            pool.spawn(move || receiver.recv().unwrap()).join().unwrap();
            one.join().unwrap();
        }
        "a kernel thread ends later" => {
            // It outlasts the monitor's looks, and nothing tells when it ends.
            std::thread::spawn(|| std::thread::sleep(Duration::from_millis(500)));
            let (_sender, receiver) = channel::bounded::<()>(1);
            let receiver = Arc::new(receiver);
            let one = receiver.clone();
            let one = raddle::spawn(move || one.recv().unwrap());
            raddle::spawn(move || receiver.recv().unwrap()).join().unwrap();
            one.join().unwrap();
        }
        "a wait for a signal is over" => {
            raddle::spawn(|| raddle::drop_in::wait_for_signal(|| ())).join().unwrap();
            let (_sender, receiver) = channel::bounded::<()>(1);
            raddle::spawn(move || receiver.recv().unwrap()).join().unwrap();
        }
        "in the child of a fork" => {
            // Of its parent's, a kernel thread waits for another thread, and a thread for a signal.
            let (_sender, receiver) = channel::bounded::<()>(1);
            std::thread::spawn(move || receiver.recv());
            raddle::spawn(|| raddle::drop_in::wait_for_signal(raddle::park));
            // Long enough for both to wait; whether they do is not judged.
            std::thread::sleep(Duration::from_millis(100));
            // SAFETY: the child, in which nothing else runs, first makes the runtime usable; it ends with its parent.
            // The kernel writes no status.
            unsafe {
                let forked = libc::fork();
                if forked != 0 {
                    libc::waitpid(forked, std::ptr::null_mut(), 0);
                    return;
                }
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                raddle::drop_in::forked();
            }
            let (_sender, receiver) = channel::bounded::<()>(1);
            raddle::spawn(move || receiver.recv().unwrap()).join().unwrap();
        }
        "a kernel thread woken" => {
            let pool = quiet_pool();
            let (sender, receiver) = channel::bounded::<()>(1);
            let waiter = pool.spawn(move || receiver.recv().unwrap());
            let main = icebox::Task { tid: std::process::id() as i32, name: String::from("main") };
            pool.run(move || {
                std::mem::forget(icebox::freeze(&main).expect("it does not end"));
                thaw_after_a_while();
            });
            sender.send(()).unwrap();
            waiter.join().unwrap();
            eprintln!("went on");
        }
        _ => unreachable!("an unknown case"),
    }
}

/// From now on the process has the first of its cores.
fn run_on_one_core() {
    // SAFETY: a set of zeroes is valid; the kernel fills it. A kernel thread that has ended is an error, which nobody
    // minds.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
        let mut cores = 0..libc::CPU_SETSIZE as usize;
        let first = cores.find(|&core| libc::CPU_ISSET(core, &set)).unwrap();
        cores.for_each(|core| libc::CPU_CLR(core, &mut set));
        assert!(libc::CPU_ISSET(first, &set));
        // Those that start meanwhile inherit from those that were told already, or are found in the second round.
        for _ in 0..2 {
            for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
                let task = task.file_name().to_str().unwrap().parse().unwrap();
                libc::sched_setaffinity(task, size_of_val(&set), &set);
            }
        }
    }
}

/// A pool of one processor, which sleeps.
fn quiet_pool() -> raddle::Pool {
    let pool = raddle::Builder::new().processors(1).kernel_thread_prefix("ice-").build().unwrap();
    pool.run(|| ());
    // Whether it sleeps by now is not judged.
    std::thread::sleep(Duration::from_millis(100));
    pool
}

/// Lets the frozen one go on later, without a kernel thread that could wake somebody for all the library knows.
fn thaw_after_a_while() {
    extern "C" fn thaw(_: i32) {
        icebox::open();
    }
    // SAFETY: the handler makes one raw system call and touches no memory but an atomic; a timer's setting of zeroes is
    // one.
    unsafe {
        libc::signal(libc::SIGALRM, thaw as *const () as usize);
        let mut time: libc::itimerval = std::mem::zeroed();
        time.it_value.tv_usec = 200_000;
        assert_eq!(libc::setitimer(libc::ITIMER_REAL, &time, std::ptr::null_mut()), 0);
    }
}

fn run(case: &str, until: &[&str]) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env(CASE, case)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let (pieces, told) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(n @ 1..) = stderr.read(&mut piece) {
            let _ = pieces.send(piece[..n].to_vec());
        }
    });
    let mut text = Vec::new();
    while !until.iter().all(|u| String::from_utf8_lossy(&text).contains(u)) {
        match told.recv_timeout(TOLD_WITHIN) {
            Ok(piece) => text.extend(piece),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let _ = child.kill();
                panic!("{case}: {until:?} did not come: {}", String::from_utf8_lossy(&text));
            }
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

// No test harness: its kernel threads, of which the library knows nothing, could wake a thread for all it can tell.
fn main() {
    if let Ok(case) = std::env::var(CASE) {
        return child(&case);
    }
    let names = [
        "raddle: dead-lock: 2 threads wait",
        "\"philosopher one\" waits for a mutex",
        "\"philosopher two\" waits for a mutex",
    ];
    let text = run("crossed", &names);
    for name in names {
        assert!(text.contains(name), "{text}");
    }
    let end = "└─ and so on in a circle";
    let text = run("crossed without names", &[end]);
    let circle = text.lines().filter(|line| line.contains("waits for the mutex at"));
    assert!(
        circle.clone().count() > 1 && circle.clone().all(|line| line.matches(" <unnamed> ").count() == 1),
        "{text}"
    );
    // Also where the monitor slept already when the kernel thread that joins them began to wait.
    let wait = "waits for a message from a channel";
    let text = run("joined late", &[names[0], wait]);
    assert!(text.contains(names[0]) && text.contains(wait), "{text}");
    // Also where a processor has retired that slept with a deadline. (On one core none retires.)
    let text = run("retired with a deadline", &["all woke up", names[0], wait]);
    assert!(text.contains(names[0]) && text.contains(wait), "{text}");
    // And where a kernel thread that could have woken them has ended meanwhile.
    let text = run("a kernel thread ends later", &[names[0], wait]);
    assert!(text.contains(names[0]) && text.contains(wait), "{text}");
    // And where a signal could have woken one that waits for none any more.
    let alone = "raddle: dead-lock: 1 threads wait";
    let text = run("a wait for a signal is over", &[alone, wait]);
    assert!(text.contains(alone) && text.contains(wait), "{text}");
    // And in a process whose parent had threads that could have woken somebody.
    let text = run("in the child of a fork", &[alone, wait]);
    assert!(text.contains(alone) && text.contains(wait), "{text}");
    // While somebody sleeps, it is none.
    let text = run("sleeper", &["woke up"]);
    assert!(text.contains("woke up") && !text.contains("dead-lock"), "{text}");
    // Nor while a kernel thread that was woken is kept from coming up: here for a while, in which the monitor falls
    // asleep.
    let text = run("a kernel thread woken", &["went on"]);
    assert!(text.contains("went on") && !text.contains("dead-lock"), "{text}");
    println!("test a_dead_lock_is_diagnosed ... ok");
}
