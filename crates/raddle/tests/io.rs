//! Waiting for descriptors: nobody is forgotten, also where descriptors come, go and are shared.

#[path = "support/child.rs"]
mod child;

use raddle::io::{Interest, closing, until, wait};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::thread::JoinHandleExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

fn pair() -> (UnixStream, UnixStream) {
    let (a, b) = UnixStream::pair().unwrap();
    a.set_nonblocking(true).unwrap();
    b.set_nonblocking(true).unwrap();
    (a, b)
}

fn get(stream: &UnixStream) -> u8 {
    let mut byte = [0];
    let read = || (&*stream).read(&mut byte);
    assert_eq!(until(stream.as_fd(), Interest::Read, None, read).unwrap(), 1);
    byte[0]
}

fn put(stream: &UnixStream, byte: u8) {
    assert_eq!(until(stream.as_fd(), Interest::Write, None, || (&*stream).write(&[byte])).unwrap(), 1);
}

/// Every round trip needs both wake-ups: a lost one hangs the test.
#[test]
fn round_trips_between_many_pairs() {
    for processors in [1, 3] {
        let pool = raddle::Builder::new().processors(processors).build().unwrap();
        pool.run(|| {
            let handles: Vec<_> = (0..100)
                .flat_map(|_| {
                    let (a, b) = pair();
                    let ping = raddle::spawn(move || {
                        (0..200).for_each(|i| {
                            put(&a, i);
                            assert_eq!(get(&a), i);
                        })
                    });
                    let pong = raddle::spawn(move || (0..200).for_each(|_| put(&b, get(&b))));
                    [ping, pong]
                })
                .collect();
            handles.into_iter().for_each(|h| h.join().unwrap());
        });
    }
}

/// More is written than the buffers hold, both ways at once, through one descriptor for each end.
#[test]
fn readers_and_writers_of_one_descriptor_do_not_disturb_each_other() {
    const BYTES: usize = 4 << 20;
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    pool.run(|| {
        let (a, b) = pair();
        let ends = [Arc::new(a), Arc::new(b)];
        let handles: Vec<_> = ends
            .iter()
            .flat_map(|end| {
                let (to, from) = (end.clone(), end.clone());
                let writer = raddle::spawn(move || {
                    let data = [1u8; 65536];
                    let mut sent = 0;
                    while sent < BYTES {
                        let rest = &data[..data.len().min(BYTES - sent)];
                        sent += until(to.as_fd(), Interest::Write, None, || (&*to).write(rest)).unwrap();
                    }
                });
                let reader = raddle::spawn(move || {
                    let mut data = vec![0u8; 65536];
                    let mut got = 0;
                    while got < BYTES {
                        got += until(from.as_fd(), Interest::Read, None, || (&*from).read(&mut data)).unwrap();
                    }
                });
                [writer, reader]
            })
            .collect();
        handles.into_iter().for_each(|h| h.join().unwrap());
    });
}

/// One event for many waiters: each byte wakes somebody who takes it, none is left lying while somebody waits for it.
#[test]
fn many_readers_of_one_descriptor_share_what_comes() {
    const READERS: usize = 50;
    const EACH: usize = 40;
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    pool.run(|| {
        let (a, b) = pair();
        let (a, b) = (Arc::new(a), b);
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                let a = a.clone();
                raddle::spawn(move || (0..EACH).for_each(|_| assert_eq!(get(&a), 0)))
            })
            .collect();
        for i in 0..READERS * EACH {
            put(&b, 0);
            if i % 7 == 0 {
                raddle::yield_now();
            }
        }
        readers.into_iter().for_each(|h| h.join().unwrap());
    });
}

/// A waiter that gives up does not take the event of the one behind it with it.
#[test]
fn time_outs_do_not_swallow_events() {
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    pool.run(|| {
        let (a, b) = pair();
        let a = Arc::new(a);
        let impatient: Vec<_> = (0..20)
            .map(|i| {
                let a = a.clone();
                raddle::spawn(move || {
                    for _ in 0..50 {
                        let waited = wait(a.as_fd(), Interest::Read, Some(Duration::from_micros(100 * i)));
                        assert!(waited.is_ok() || waited.unwrap_err().kind() == ErrorKind::TimedOut);
                    }
                })
            })
            .collect();
        let reader = raddle::spawn(move || (0..500).for_each(|_| assert_eq!(get(&a), 0)));
        for _ in 0..500 {
            put(&b, 0);
            raddle::yield_now();
        }
        reader.join().unwrap();
        impatient.into_iter().for_each(|h| h.join().unwrap());
    });
}

/// Numbers are closed and given out again all the time, told and untold, while others wait for theirs.
#[test]
fn numbers_that_are_reused_at_once() {
    let pool = raddle::Builder::new().processors(3).build().unwrap();
    pool.run(|| {
        let handles: Vec<_> = (0..8)
            .map(|told| {
                raddle::spawn(move || {
                    for i in 0..300 {
                        let (a, b) = pair();
                        let reader = raddle::spawn(move || {
                            assert_eq!(get(&a), i as u8);
                            if told % 2 == 0 {
                                closing(a.as_raw_fd(), || drop(a));
                            }
                        });
                        raddle::yield_now();
                        put(&b, i as u8);
                        reader.join().unwrap();
                    }
                })
            })
            .collect();
        handles.into_iter().for_each(|h| h.join().unwrap());
    });
}

/// The same under a number so far `below` the highest that there may be: new descriptors, of the tests beside this one
/// too, get the lowest.
fn far_up(fd: std::os::fd::OwnedFd, below: i32) -> std::os::fd::OwnedFd {
    // SAFETY: the limits are written to a live place; the number that comes back is a new descriptor, nobody else's.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        let number = libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, limit.rlim_cur as i32 - below);
        assert!(number >= 0, "{}", std::io::Error::last_os_error());
        std::os::fd::FromRawFd::from_raw_fd(number)
    }
}

/// From now on nothing more can be written until the other end reads.
fn fill(stream: &UnixStream) {
    while (&*stream).write(&[0; 4096]).is_ok() {}
}

/// No wake-up takes so long, on however busy a machine.
const WOKEN_WITHIN: Duration = Duration::from_secs(60);

/// What a wait ended with; who is not woken is cancelled.
fn woken(waiter: raddle::JoinHandle<std::io::Result<()>>) -> std::io::Result<()> {
    let ended = waiter.join_timeout(WOKEN_WITHIN);
    let ended = ended.unwrap_or_else(|waiter| {
        waiter.cancel();
        waiter.join()
    });
    ended.unwrap()
}

#[test]
fn closing_wakes_those_who_wait() {
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    pool.run(|| {
        for round in 0..400 {
            let interest = [Interest::Read, Interest::Write][round % 2];
            let (a, b) = pair();
            fill(&a);
            let a = far_up(a.into(), 8);
            let number = a.as_raw_fd();
            let waiting = Arc::new(AtomicUsize::new(0));
            let theirs = waiting.clone();
            let waiter = raddle::spawn(move || {
                // SAFETY: the number is open when the wait begins, or closed and never used again in this round: nobody
                // else's is so high.
                let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
                theirs.store(1, Ordering::Release);
                wait(borrowed, interest, None)
            });
            while waiting.load(Ordering::Acquire) == 0 {
                raddle::yield_now();
            }
            closing(number, || drop(a));
            // Closed before the wait began, or meanwhile.
            let error = woken(waiter).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(9), "{error}");
            drop(b);
        }
    });
}

/// Those who wait for the first and for the last number of a range that is closed wake up.
#[test]
fn closing_a_range_wakes_those_who_wait_for_its_ends() {
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    pool.run(|| {
        let ends = [pair(), pair()];
        let all: Vec<_> = ends.iter().map(|(end, _)| far_up(end.try_clone().unwrap().into(), 32)).collect();
        let numbers = [0, 1].map(|index: usize| all[index].as_raw_fd());
        assert_eq!(numbers[0] + 1, numbers[1], "the next number was free");
        ends.iter().for_each(|(end, _)| fill(end));
        let each = [(0, Interest::Read), (0, Interest::Write), (1, Interest::Read), (1, Interest::Write)];
        let begun = Arc::new(AtomicUsize::new(0));
        let waiters = each.map(|(index, interest)| {
            let (number, begun) = (numbers[index], begun.clone());
            raddle::spawn(move || {
                begun.fetch_add(1, Ordering::Relaxed);
                // SAFETY: the number is open when the wait begins, or closed and never used again: nobody else's is so
                // high.
                wait(unsafe { std::os::fd::BorrowedFd::borrow_raw(number) }, interest, None)
            })
        });
        while begun.load(Ordering::Relaxed) < each.len()
            || !numbers.iter().all(|&number| raddle::io::was_awaited(number))
        {
            raddle::yield_now();
        }
        raddle::io::closing_range(numbers[0] as u32, numbers[1] as u32, || drop(all));
        for ended in waiters.map(woken) {
            assert_eq!(ended.unwrap_err().raw_os_error(), Some(9));
        }
    });
}

/// However often something comes for which the attempt has no use, its time limit is for all attempts together: on a
/// lightweight thread and on a kernel thread.
#[test]
fn a_time_limit_is_for_all_attempts_together() {
    const LIMIT: Duration = Duration::from_millis(20);
    fn ends() {
        let (ours, theirs) = pair();
        let (mut begun, mut late) = (None, 0);
        let in_vain = || {
            // There is always something to read, and a new event. (Once it is full, the one without the other.)
            let _ = (&theirs).write(&[7]);
            // No earlier than the limit's beginning: the attempt that meets the limit's end is the last one.
            late += u32::from(begun.get_or_insert_with(Instant::now).elapsed() >= LIMIT);
            if late > 1 { Ok(()) } else { Err(ErrorKind::WouldBlock.into()) }
        };
        let ended = until(ours.as_fd(), Interest::Read, Some(LIMIT), in_vain);
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::TimedOut);
    }
    raddle::Builder::new().processors(1).build().unwrap().run(ends);
    ends();
}

/// A number of which nothing is known when its close begins: who comes to wait meanwhile is woken by its end.
#[test]
fn closing_wakes_those_who_come_while_it_closes() {
    // On one processor who has begun to wait is asleep when the next one runs.
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    pool.run(|| {
        let (a, _b) = pair();
        let a = far_up(a.into(), 16);
        let number = a.as_raw_fd();
        assert!(!raddle::io::was_awaited(number), "somebody has waited for it before");
        let reader = closing(number, || {
            let reader = raddle::spawn(move || {
                // SAFETY: open until this thread waits, and nobody else's number is so high.
                wait(unsafe { std::os::fd::BorrowedFd::borrow_raw(number) }, Interest::Read, None)
            });
            while !raddle::io::was_awaited(number) {
                raddle::yield_now();
            }
            drop(a);
            reader
        });
        assert_eq!(reader.join().unwrap().unwrap_err().raw_os_error(), Some(9));
    });
}

/// Two wait for one descriptor whose life ends, which nobody tells them. One byte comes, and each learns of the end:
/// the first, who leaves with an error, hands on what came.
#[test]
fn who_leaves_with_an_error_hands_on_what_came() {
    use raddle::io::{Failure, Glance, doubt, wait_for, wait_since};
    let since = |number: i32| wait_since(number, Interest::Read, Glance::at(number, Interest::Read), None, true);
    let each = |number: i32| wait_for(&|visit| visit(number, Interest::Read), None, true);
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    for how in [since as fn(i32) -> Result<(), Failure>, each] {
        // Whoever begins to wait is asleep when the next one runs, unless the kernel has kept it from its core.
        for _ in 0..50 {
            pool.run(|| {
                let (a, b) = pair();
                let number = a.as_raw_fd();
                let begun = Arc::new(AtomicUsize::new(0));
                let waiters = [(); 2].map(|()| {
                    let begun = begun.clone();
                    raddle::spawn(move || {
                        begun.fetch_add(1, Ordering::Relaxed);
                        how(number)
                    })
                });
                while begun.load(Ordering::Relaxed) < 2 {
                    raddle::yield_now();
                }
                doubt(number);
                put(&b, 0);
                for waiter in waiters {
                    // It may have begun after the end.
                    assert!(matches!(waiter.join().unwrap(), Ok(()) | Err(Failure::Closed)));
                }
            });
        }
    }
}

#[test]
fn regular_files_are_always_ready_and_kernel_threads_wait_too() {
    let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    pool.run(move || wait(file.as_fd(), Interest::Read, None)).unwrap();
    let (a, b) = pair();
    let waited = wait(a.as_fd(), Interest::Read, Some(Duration::from_millis(1)));
    assert_eq!(waited.unwrap_err().kind(), ErrorKind::TimedOut);
    let light = pool.spawn(move || put(&b, 3));
    assert_eq!(get(&a), 3);
    light.join().unwrap();
}

/// A thread for each of many connections, all waiting at once, each answered.
#[test]
fn thousands_of_connections() {
    const CONNECTIONS: usize = 2000;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    let server = pool.spawn(move || {
        let handles: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                let (stream, _) = until(listener.as_fd(), Interest::Read, None, || listener.accept()).unwrap();
                stream.set_nonblocking(true).unwrap();
                raddle::spawn(move || {
                    let mut data = [0; 16];
                    loop {
                        let n = until(stream.as_fd(), Interest::Read, None, || (&stream).read(&mut data)).unwrap();
                        if n == 0 {
                            return;
                        }
                        until(stream.as_fd(), Interest::Write, None, || (&stream).write(&data[..n])).unwrap();
                    }
                })
            })
            .collect();
        handles.into_iter().for_each(|h| h.join().unwrap());
    });
    let mut clients: Vec<TcpStream> = Vec::new();
    for i in 1..=CONNECTIONS {
        let mut client = TcpStream::connect(address).unwrap();
        // The listener's queue is not to overflow: a connection that finds it full tries again a second later.
        if i % 64 == 0 {
            client.write_all(&[1]).unwrap();
            client.read_exact(&mut [0]).unwrap();
        }
        clients.push(client);
    }
    for round in 0..3u8 {
        clients.iter_mut().for_each(|client| client.write_all(&[round]).unwrap());
        for client in &mut clients {
            let mut byte = [0];
            client.read_exact(&mut byte).unwrap();
            assert_eq!(byte[0], round);
        }
    }
    drop(clients);
    server.join().unwrap();
}

/// A handler that runs meanwhile neither ends the wait of a kernel thread nor has its time begin anew.
#[test]
fn a_kernel_thread_waits_on_when_a_handler_has_run() {
    static HANDLED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn count(_: libc::c_int) {
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the handler touches one static. Nobody else in this program uses the signal.
    unsafe { libc::signal(libc::SIGUSR1, count as *const () as usize) };
    // Most of so many find it in its wait.
    let disturb = |waiter: &std::thread::JoinHandle<std::io::Result<()>>| {
        let before = HANDLED.load(Ordering::Relaxed);
        // SAFETY: a thread that has not been joined.
        unsafe { libc::pthread_kill(waiter.as_pthread_t(), libc::SIGUSR1) };
        while HANDLED.load(Ordering::Relaxed) == before && !waiter.is_finished() {
            std::thread::yield_now();
        }
    };
    for interest in [Interest::Read, Interest::Write] {
        let (a, b) = pair();
        fill(&a);
        let waits = a.try_clone().unwrap();
        let waiter = std::thread::spawn(move || wait(waits.as_fd(), interest, None));
        (0..200).for_each(|_| disturb(&waiter));
        put(&b, 1);
        let mut all = vec![0; 1 << 20];
        while (&b).read(&mut all).is_ok() {}
        waiter.join().unwrap().unwrap();
        let (quiet, _b) = pair();
        fill(&quiet);
        let limit = Duration::from_millis(20);
        let waiter = std::thread::spawn(move || {
            let begun = Instant::now();
            let waited = wait(quiet.as_fd(), interest, Some(limit));
            assert!(begun.elapsed() >= limit);
            waited
        });
        while !waiter.is_finished() {
            disturb(&waiter);
        }
        assert_eq!(waiter.join().unwrap().unwrap_err().kind(), ErrorKind::TimedOut);
    }
}

/// The runtime's sets of epoll's, and what the kernel tells of what is in them.
fn our_sets() -> Vec<(i32, String)> {
    let all = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap());
    let sets =
        all.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|of| of.ends_with("anon_inode:[eventpoll]")));
    let numbers = sets.map(|entry| entry.file_name().to_str().unwrap().parse().unwrap());
    let ours = numbers.filter(|number| raddle::io::is_ours(*number));
    ours.map(|number| (number, std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap())).collect()
}

/// A program closes all descriptors that it does not know, ours among them: whoever waited before is found by the sets
/// that the next one to wait makes. Here the two that a wait makes first are closed.
#[test]
fn who_waits_while_the_program_closes_our_descriptors_is_woken_all_the_same() {
    if !child::in_child("who_waits_while_the_program_closes_our_descriptors_is_woken_all_the_same") {
        return;
    }
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    pool.run(|| {
        let wait_for = |stream: UnixStream| {
            let number = stream.as_raw_fd() as u32;
            let waiter = raddle::spawn(move || {
                let read = || (&stream).read(&mut [0]);
                until(stream.as_fd(), Interest::Read, Some(WOKEN_WITHIN), read)
            });
            while raddle::io::first_awaited(number, number).is_none() {
                raddle::yield_now();
            }
            waiter
        };
        let [(first, first_end), (next, next_end)] = [pair(), pair()];
        let armed = format!("tfd: {:8}", first.as_raw_fd());
        let first = wait_for(first);
        // It has published its wait, and arms it then.
        let sets = loop {
            let sets = our_sets();
            if sets.iter().any(|(_, told)| told.contains(&armed)) {
                break sets;
            }
            raddle::yield_now();
        };
        for (number, _) in sets {
            // SAFETY: a number of the runtime's, which says that a program may do so.
            assert_eq!(unsafe { libc::close(number) }, 0);
        }
        let next = wait_for(next);
        put(&next_end, 2);
        assert_eq!(next.join().unwrap().expect("one that came after"), 1);
        // Who still waits for the closed set, which tells of the first one, begins anew within a second.
        raddle::sleep(Duration::from_millis(1500));
        put(&first_end, 1);
        assert_eq!(first.join().unwrap().expect("one that waited before"), 1);
    });
}
