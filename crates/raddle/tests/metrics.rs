//! The text of all counters, for collectors: each row tells what `stats` does, in the units that its name says.

mod undisturbed;

use raddle::info::{Stats, metrics, run_queue_delay, sample_delays, stats};
use raddle::sync::Semaphore;
use std::collections::HashMap;
use undisturbed::undisturbed;

/// The values by their names, labels included.
fn rows(text: &str) -> HashMap<&str, f64> {
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| line.rsplit_once(' ').unwrap()).map(|(name, value)| (name, value.parse().unwrap())).collect()
}

/// Each row has its kind and its help.
fn is_described(text: &str, name: &str) -> bool {
    let name = name.split('{').next().unwrap();
    text.contains(&format!("# TYPE {name} ")) && text.contains(&format!("# HELP {name} "))
}

// One test, since the counters are the process's.
#[test]
fn each_row_tells_what_it_is_called() {
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    pool.run(|| (0..100).for_each(|_| raddle::spawn(|| ()).join().unwrap()));
    // One that runs, two that are ready, three that wait.
    let (text, told) = undisturbed(|| {
        pool.run(|| {
            let go = Semaphore::new(0);
            raddle::scope(|s| {
                (0..3).for_each(|_| drop(s.spawn(|| go.acquire(1))));
                // All wait when none is left to run.
                while raddle::thread::yield_softly() {}
                (0..2).for_each(|_| drop(s.spawn(|| ())));
                let (before, text) = (stats(), metrics());
                go.release(3);
                (text, (before == stats()).then_some(before))
            })
        })
    });
    let rows = rows(&text);
    for (name, value) in [("running", 1.0), ("ready", 2.0), ("waiting", 3.0)] {
        assert_eq!(rows[format!("raddle_threads{{state=\"{name}\"}}").as_str()], value, "{text}");
    }
    let processors = |state: &str| rows[format!("raddle_processors{{pool=\"0\",state=\"{state}\"}}").as_str()];
    assert_eq!((processors("awake"), processors("asleep")), (1.0, 0.0), "{text}");
    let Stats { spawned, exited, switches, steals_won, .. } = told.unwrap_or_else(stats);
    assert!(spawned > exited && switches > 0 && steals_won <= rows["raddle_steals_tried_total"] as u64);
    assert!(rows.keys().all(|name| is_described(&text, name)), "{text}");
    assert!(!text.contains("delay"), "nobody asked: {text}");

    // At rest nothing changes, but for what the monitor does: until it does nothing.
    let (text, told) = loop {
        let (before, text) = (stats(), metrics());
        if before == stats() {
            break (text, before);
        }
    };
    let rows = self::rows(&text);
    for (name, value) in [
        ("threads_created_total", told.spawned),
        ("threads_ended_total", told.exited),
        ("switches_total", told.switches),
        ("steals_total", told.steals_won),
        ("steals_tried_total", told.steals_tried),
        ("sleeps_total", told.sleeps),
        ("takeovers_total", told.takeovers),
        ("slices_total", told.slices),
        ("spare_kernel_threads", told.spare_activations),
    ] {
        assert_eq!(rows[format!("raddle_{name}").as_str()], value as f64, "{name} of {text}");
    }

    sample_delays(true);
    pool.run(|| (0..2000).for_each(|_| raddle::spawn(|| ()).join().unwrap()));
    sample_delays(false);
    // Whoever was followed has arrived.
    pool.run(|| (0..2000).for_each(|_| raddle::spawn(|| ()).join().unwrap()));
    let (text, delay) = (metrics(), run_queue_delay().unwrap());
    let rows = self::rows(&text);
    let quantile = |q: &str| rows[format!("raddle_run_queue_delay_seconds{{quantile=\"{q}\"}}").as_str()];
    for (q, ns) in [("0.5", delay.p50), ("0.99", delay.p99), ("0.999", delay.p999), ("1", delay.max)] {
        assert_eq!((quantile(q) * 1e9).round(), ns as f64, "{q} of {text}");
    }
    assert_eq!(rows["raddle_run_queue_delay_samples_total"], delay.samples as f64);
    assert!(rows.keys().all(|name| is_described(&text, name)), "{text}");
}
