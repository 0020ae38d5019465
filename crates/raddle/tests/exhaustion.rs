//! When something cannot be had: an error that names it, no abort, and what has started goes on.
//!
//! Each case in a child process (this same program, told by an environment variable), which limits itself first.

#[path = "support/child.rs"]
mod child;

use child::in_child;
use raddle::sync::{Mutex, channel};
use raddle::thread::Builder;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const NOBODY: u32 = 65_534;

fn limit(resource: libc::__rlimit_resource_t, value: u64) {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: libc::RLIM_INFINITY };
    let mut present = limit;
    // SAFETY: valid structures to read and write.
    unsafe {
        assert_eq!(libc::getrlimit(resource, &mut present), 0);
        present.rlim_cur = value.min(present.rlim_max);
        assert_eq!(libc::setrlimit(resource, &present), 0);
    }
}

/// Bytes of address space in use.
fn address_space() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096
}

/// Threads of every kind whose counts must come out.
fn works(pool: &raddle::Pool) {
    let sum = pool.run(|| {
        let total = Mutex::new(0u64);
        let (sender, receiver) = channel::bounded(1);
        raddle::scope(|s| {
            for i in 0..50u64 {
                let (total, sender) = (&total, sender.clone());
                s.spawn(move || {
                    raddle::yield_now();
                    *total.lock().unwrap() += raddle::spawn(move || i).join().unwrap();
                    raddle::sleep(std::time::Duration::from_micros(50));
                    sender.send(1).unwrap();
                });
            }
            drop(sender);
            let received: u64 = receiver.iter().sum();
            *total.lock().unwrap() += received;
        });
        total.into_inner().unwrap()
    });
    assert_eq!(sum, 50 * 49 / 2 + 50);
}

/// Spawns threads that wait for `go` until an error comes, at most `most`; then lets all of them end and counts them.
fn spawn_until_refused(pool: &raddle::Pool, builder: &Builder, most: usize) -> (u64, Option<raddle::SpawnError>) {
    spawn_until_refused_then(pool, builder, most, || ())
}

/// As [`spawn_until_refused`], and runs `then` in the pool while all of them wait.
fn spawn_until_refused_then(
    pool: &raddle::Pool,
    builder: &Builder,
    most: usize,
    then: impl FnOnce() + Send,
) -> (u64, Option<raddle::SpawnError>) {
    let ran = Arc::new(AtomicU64::new(0));
    let go = Arc::new(AtomicBool::new(false));
    let mut started = 0;
    let mut refused = None;
    pool.run(|| {
        while started < most as u64 {
            let (ran, go) = (ran.clone(), go.clone());
            // Detached: the test itself must not need memory for handles.
            match builder.clone().spawn(move || {
                while !go.load(Ordering::Relaxed) {
                    raddle::sleep(std::time::Duration::from_millis(1));
                }
                ran.fetch_add(1, Ordering::Relaxed);
            }) {
                Ok(_) => started += 1,
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        then();
        go.store(true, Ordering::Relaxed);
        while ran.load(Ordering::Relaxed) < started {
            raddle::sleep(std::time::Duration::from_millis(1));
        }
    });
    println!("{started} threads at once, then {refused:?}");
    (started, refused)
}

#[test]
fn without_address_space_for_a_stack_a_spawn_is_an_error() {
    if in_child("without_address_space_for_a_stack_a_spawn_is_an_error") {
        limit(libc::RLIMIT_AS, address_space() + (24 << 20));
        let pool = raddle::Builder::new().processors(1).build().unwrap();
        let error = Builder::new().stack_size(64 << 20).spawn_into(&pool, || ()).unwrap_err();
        assert!(matches!(error, raddle::SpawnError::Stack(_)), "{error:?}");
        assert!(error.to_string().contains("ulimit -v"), "{error}");
        let (started, refused) = spawn_until_refused(&pool, &Builder::new(), 1000);
        assert!(started < 100 && refused.is_some(), "{started}");
        limit(libc::RLIMIT_AS, libc::RLIM_INFINITY);
        // A size for which nothing was asked yet.
        let (started, refused) = spawn_until_refused(&pool, &Builder::new().stack_size(128 << 10), 1000);
        assert!(started == 1000 && refused.is_none(), "{started} {refused:?}");
        works(&raddle::Builder::new().processors(2).build().unwrap());
    }
}

#[test]
fn what_was_to_become_a_thread_when_none_could_be_had_is_as_it_was() {
    thread_local!(static HERE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
    if !in_child("what_was_to_become_a_thread_when_none_could_be_had_is_as_it_was") {
        return;
    }
    limit(libc::RLIMIT_AS, address_space() + (64 << 20));
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    let stages = raddle::stage::Stages::builder().stage("only", 3).processors(1).build().unwrap();
    let stage = stages.stage("only").unwrap();
    let (_, refused) = spawn_until_refused_then(&pool, &Builder::new(), 10_000, || {
        HERE.set(true);
        // Who is about to wait makes threads of what it has forked: halves and tasks stay calls of its own.
        let pause = || raddle::sleep(std::time::Duration::from_millis(1));
        assert_eq!(raddle::join(pause, || HERE.get()), ((), true));
        let ran = AtomicU64::new(0);
        raddle::scope(|s| {
            for _ in 0..3 {
                s.fork(|| _ = ran.fetch_add(u64::from(HERE.get()), Ordering::Relaxed));
            }
            pause();
        });
        assert_eq!(ran.load(Ordering::Relaxed), 3);
        // A stage takes no place for a thread that it has not, and does not count it as one that has yet to begin.
        let refused = stage.spawn(|| ()).unwrap_err();
        assert!(matches!(refused, raddle::stage::Refused::Spawn(_)), "{refused:?}");
        assert_eq!((stage.load().taken, stage.load().waiting), (0, 0));
    });
    assert!(refused.is_some(), "ten thousand stacks fit into 64 MiB");
    limit(libc::RLIMIT_AS, libc::RLIM_INFINITY);
    assert_eq!(stage.run(|| 7), Ok(7));
    assert_eq!(stage.load().waiting, 0);
    works(&pool);
}

#[test]
fn with_little_address_space_spawns_are_refused_and_what_started_ends() {
    if in_child("with_little_address_space_spawns_are_refused_and_what_started_ends") {
        limit(libc::RLIMIT_AS, address_space() + (3 << 30));
        let pool = raddle::Builder::new().processors(2).build().unwrap();
        works(&pool);
        let (started, refused) = spawn_until_refused(&pool, &Builder::new(), 1_000_000);
        assert!(started >= 1000, "{started} {refused:?}");
        let refused = refused.expect("a million stacks do not fit");
        assert!(matches!(refused, raddle::SpawnError::Stack(_) | raddle::SpawnError::Memory), "{refused:?}");
        // What was given back can be had again.
        works(&pool);
        let (again, _) = spawn_until_refused(&pool, &Builder::new(), started as usize / 2);
        assert_eq!(again, started / 2);
    }
}

#[test]
fn a_class_of_huge_stacks_runs_out_with_an_error() {
    if in_child("a_class_of_huge_stacks_runs_out_with_an_error") {
        let pool = raddle::Builder::new().processors(2).build().unwrap();
        let (started, refused) = spawn_until_refused(&pool, &Builder::new().stack_size(1 << 30), 10_000);
        let refused = refused.expect("ten thousand stacks of 1 GiB exceed what a class holds");
        assert!(matches!(refused, raddle::SpawnError::Stack(_)), "{refused:?}");
        assert!(started >= 64, "{started}");
        works(&pool);
    }
}

/// Becomes somebody without privileges, whose kernel threads are counted.
fn drop_privileges() -> bool {
    // SAFETY: the calls take integers; the process has but the harness's own kernel threads.
    unsafe {
        if libc::getuid() == 0 {
            assert_eq!((libc::setgid(NOBODY), libc::setuid(NOBODY)), (0, 0));
        }
        libc::getuid() != 0
    }
}

#[test]
fn an_unprivileged_user_runs_everything() {
    if in_child("an_unprivileged_user_runs_everything") {
        assert!(drop_privileges());
        let pool = raddle::Builder::new().processors(2).build().unwrap();
        works(&pool);
        blocked_reader_and_its_writer(&pool);
    }
}

/// A thread that blocks in the kernel until another one, which needs a processor, writes.
fn blocked_reader_and_its_writer(pool: &raddle::Pool) {
    use std::io::{Read, Write};
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    let byte = pool.run(|| {
        let blocked = raddle::spawn(move || {
            let mut byte = [0];
            reader.read_exact(&mut byte).unwrap();
            byte[0]
        });
        raddle::yield_now();
        writer.write_all(&[42]).unwrap();
        blocked.join().unwrap()
    });
    assert_eq!(byte, 42);
}

#[test]
fn without_kernel_threads_a_pool_is_an_error_and_one_that_runs_goes_on() {
    if in_child("without_kernel_threads_a_pool_is_an_error_and_one_that_runs_goes_on") {
        assert!(drop_privileges());
        let pool = raddle::Builder::new().processors(2).build().unwrap();
        works(&pool);
        limit(libc::RLIMIT_NPROC, 1);
        let error = raddle::Builder::new().processors(3).build().unwrap_err();
        assert!(matches!(error, raddle::BuildError::KernelThread(_)), "{error:?}");
        assert!(error.to_string().contains("ulimit -u"), "{error}");
        // No spare activation can be had either: a thread that blocks holds its processor, the other one goes on.
        works(&pool);
        blocked_reader_and_its_writer(&pool);
        limit(libc::RLIMIT_NPROC, libc::RLIM_INFINITY);
        works(&raddle::Builder::new().processors(3).build().unwrap());
    }
}

/// From now on the kernel answers one system call (with that first argument, if any) with that error.
fn forbid(call: libc::c_long, argument: Option<(u32, u32)>, error: libc::c_int) {
    let statement = |code: u32, value: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k: value };
    let unless = |value: u32, skip: u8| libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: 0,
        jf: skip,
        k: value,
    };
    const WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let refuse = statement(libc::BPF_RET, libc::SECCOMP_RET_ERRNO | error as u32);
    let allow = statement(libc::BPF_RET, libc::SECCOMP_RET_ALLOW);
    let number = statement(WORD, 0);
    let mut program = match argument {
        None => vec![number, unless(call as u32, 1), refuse, allow],
        // Arguments begin at byte 16, eight bytes each, the low half first.
        Some((index, value)) => {
            vec![number, unless(call as u32, 3), statement(WORD, 16 + 8 * index), unless(value, 1), refuse, allow]
        }
    };
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program is well-formed and lives through the call; TSYNC installs it for all kernel threads of the
    // process.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let flags = libc::SECCOMP_FILTER_FLAG_TSYNC;
        assert_eq!(libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &filter), 0);
    }
}

#[test]
fn without_membarrier_no_wake_up_is_lost() {
    if in_child("without_membarrier_no_wake_up_is_lost") {
        forbid(libc::SYS_membarrier, None, libc::ENOSYS);
        for policy in ["steal(lifo)", "lifo", "priority(2, steal)", "rotator"] {
            let pool = raddle::Builder::new().processors(2).policy(policy).build().unwrap();
            (0..50).for_each(|_| works(&pool));
            // Round trips in which a processor is about to sleep whenever the other one pushes.
            pool.run(|| {
                let (there, request) = channel::bounded::<u64>(1);
                let (back, answer) = channel::bounded::<u64>(1);
                let echo = raddle::spawn(move || request.iter().try_for_each(|n| back.send(n + 1)).is_ok());
                for n in 0..20_000 {
                    there.send(n).unwrap();
                    assert_eq!(answer.recv().unwrap(), n + 1);
                }
                drop(there);
                assert!(echo.join().unwrap());
            });
        }
    }
}

#[test]
fn without_guards_by_madvise_stacks_are_guarded_otherwise() {
    if in_child("without_guards_by_madvise_stacks_are_guarded_otherwise") {
        const MADV_GUARD_INSTALL: u32 = 102;
        forbid(libc::SYS_madvise, Some((2, MADV_GUARD_INSTALL)), libc::EINVAL);
        let pool = raddle::Builder::new().processors(2).build().unwrap();
        works(&pool);
        // Each guard now splits a mapping, of which the kernel allows so many: spawns are refused before that.
        let (started, _) = spawn_until_refused(&pool, &Builder::new(), 40_000);
        assert!(started >= 1000, "{started}");
        works(&pool);
    }
}

#[test]
fn a_tree_of_threads_with_stacks_of_their_own_size_needs_as_many_as_it_is_deep() {
    if !in_child("a_tree_of_threads_with_stacks_of_their_own_size_needs_as_many_as_it_is_deep") {
        return;
    }
    fn tree(depth: u32) -> u64 {
        if depth == 0 {
            return 1;
        }
        let child = Builder::new().stack_size(1 << 20).spawn(move || tree(depth - 1)).unwrap();
        tree(depth - 1) + child.join().unwrap()
    }
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    assert_eq!(pool.run(|| tree(12)), 1 << 12);
    // 4,095 threads; breadth first some thousand would have been alive at once.
    assert!(raddle::drop_in::stacks_used() < 200, "{} stacks", raddle::drop_in::stacks_used());
}

#[test]
fn processors_keep_nothing_of_a_class_with_few_stacks() {
    if !in_child("processors_keep_nothing_of_a_class_with_few_stacks") {
        return;
    }
    let pool = raddle::Builder::new().processors(3).build().unwrap();
    let huge = Builder::new().stack_size(1 << 30);
    let (all, _) = spawn_until_refused(&pool, &huge, 10_000);
    pool.run(|| {
        for _ in 0..20 {
            let threads: Vec<_> = (0..100).map(|_| huge.clone().spawn(raddle::yield_now).unwrap()).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
    });
    // Each gives its right back a little after it was counted.
    while pool.live_threads() != 0 {
        std::thread::yield_now();
    }
    let (again, _) = spawn_until_refused(&pool, &huge, 10_000);
    assert_eq!(again, all);
}
