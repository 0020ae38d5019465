//! What a trace calls threads: by the last name that each was given, whenever it was first heard of.

use raddle::sync::Semaphore;
use raddle::trace::Trace;

/// The text of a trace of what `f` does.
fn traced(name: &str, f: impl FnOnce(&(dyn Fn() + Sync))) -> String {
    let path = std::env::temp_dir().join(format!("raddle-traces-{}-{name}", std::process::id()));
    let trace = std::sync::OnceLock::new();
    f(&|| assert!(trace.set(Trace::begin(&path, 1 << 13).unwrap()).is_ok()));
    let text = std::fs::read_to_string(trace.into_inner().unwrap().finish().unwrap()).unwrap();
    std::fs::remove_file(&path).unwrap();
    text
}

/// How many tracks of threads are called so.
fn tracks(text: &str, name: &str) -> usize {
    let begin = format!("\"args\":{{\"name\":\"{name} (");
    text.lines().filter(|line| line.contains("\"thread_name\"") && line.contains(&begin)).count()
}

fn named(name: &str) -> raddle::thread::Builder {
    raddle::thread::Builder::new().name(name.into())
}

// One test: there is one trace at a time.
#[test]
fn each_thread_is_called_by_its_last_name_and_by_no_other_ones() {
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    let text = traced("early", |begin| {
        pool.run(|| {
            // The trace begins while this one runs, and has heard of it when it yields.
            begin();
            raddle::drop_in::set_own_name("early");
            raddle::spawn(|| ());
            raddle::yield_now();
        });
    });
    assert_eq!(tracks(&text, "early"), 1, "{text}");

    let text = traced("late", |begin| {
        begin();
        pool.run(|| {
            let (go, waits) = (Semaphore::new(0), Semaphore::new(0));
            raddle::scope(|s| {
                let body = || {
                    waits.release(1);
                    go.acquire(1);
                    raddle::drop_in::set_own_name("second");
                    raddle::yield_now();
                };
                s.spawn_with(named("first"), body).unwrap();
                waits.acquire(1);
                go.release(1);
            });
            // Each has the record of the one before, and not its name.
            for name in ["one", "two"] {
                named(name).spawn(raddle::yield_now).unwrap().join().unwrap();
                raddle::spawn(raddle::yield_now).join().unwrap();
            }
        });
    });
    for (name, count) in [("first", 0), ("second", 1), ("one", 1), ("two", 1)] {
        assert_eq!(tracks(&text, name), count, "{name} in {text}");
    }
}
