//! What the runtime does, as a text in Prometheus's format: for its collectors, and for `raddle top`.

use crate::carry::descriptor::Descriptor;
use std::fmt::Write as _;

/// Threads beyond this are not looked at one by one.
pub(super) const MOST_LOOKED_AT: u64 = 100_000;

/// Threads that run, that could run, and that wait (racy).
#[derive(Default)]
struct States {
    running: u64,
    ready: u64,
    waiting: u64,
}

fn states() -> States {
    let mut states = States::default();
    for (_, descriptor) in crate::carry::pool::descriptors().iterate() {
        let descriptor: &Descriptor = descriptor;
        if !descriptor.is_in_use() || descriptor.thread.is_kernel_thread() {
            continue;
        }
        let state = match (descriptor.activation.get().is_null(), descriptor.thread.current_wait()) {
            (false, _) => &mut states.running,
            (true, Some(_)) => &mut states.waiting,
            (true, None) => &mut states.ready,
        };
        *state += 1;
    }
    states
}

/// Whether a thread is ready, or on its way to be (racy).
pub(crate) fn is_any_ready() -> bool {
    states().ready > 0
}

/// The text, now.
///
/// ```
/// let pool = raddle::Builder::new().processors(2).build().unwrap();
/// pool.run(|| raddle::spawn(|| ()).join().unwrap());
/// let text = raddle::info::metrics();
/// assert!(text.contains("\nraddle_threads_created_total "));
/// assert!(text.contains("raddle_processors{pool=\"0\""));
/// ```
pub fn metrics() -> String {
    let stats = crate::govern::info::stats();
    let mut text = String::new();
    let mut put = |name: &str, kind: &str, help: &str, values: &[(String, f64)]| {
        let _ = write!(text, "# HELP raddle_{name} {help}\n# TYPE raddle_{name} {kind}\n");
        for (labels, value) in values {
            let _ = writeln!(text, "raddle_{name}{labels} {value}");
        }
    };
    for (name, help, value) in [
        ("threads_created_total", "Lightweight threads created.", stats.spawned),
        ("threads_ended_total", "Lightweight threads that ended.", stats.exited),
        ("switches_total", "Times a processor went on with another thread.", stats.switches),
        ("steals_total", "Steals that brought something.", stats.steals_won),
        ("steals_tried_total", "Attempts to steal.", stats.steals_tried),
        ("sleeps_total", "Times a processor went to sleep.", stats.sleeps),
        ("takeovers_total", "Processors taken from threads that blocked in the kernel.", stats.takeovers),
        ("slices_total", "Processors gone on with beside threads that computed.", stats.slices),
    ] {
        put(name, "counter", help, &[(String::new(), value as f64)]);
    }
    let live = stats.spawned.saturating_sub(stats.exited);
    if live <= MOST_LOOKED_AT {
        let States { running, ready, waiting } = states();
        let values = [("running", running), ("ready", ready), ("waiting", waiting)];
        let values = values.map(|(state, count)| (format!("{{state=\"{state}\"}}"), count as f64));
        put("threads", "gauge", "Lightweight threads by state.", &values);
    } else {
        put("threads", "gauge", "Lightweight threads; too many to look at each.", &[(String::new(), live as f64)]);
    }
    let mut processors = Vec::new();
    for pool in crate::carry::pool::pools() {
        let (active, asleep) = (pool.active(), pool.idle.sleeping());
        for (state, count) in [("awake", active.saturating_sub(asleep)), ("asleep", asleep)] {
            processors.push((format!("{{pool=\"{}\",state=\"{state}\"}}", pool.index), count as f64));
        }
    }
    put("processors", "gauge", "Processors of each pool by state.", &processors);
    let spares = stats.spare_activations as f64;
    put("spare_kernel_threads", "gauge", "Kernel threads beyond one a processor.", &[(String::new(), spares)]);
    if let Some(delay) = crate::govern::info::run_queue_delay() {
        let quantiles = [("0.5", delay.p50), ("0.99", delay.p99), ("0.999", delay.p999), ("1", delay.max)];
        let values = quantiles.map(|(q, ns)| (format!("{{quantile=\"{q}\"}}"), ns as f64 / 1e9));
        put("run_queue_delay_seconds", "summary", "How long ready threads waited, of a thread in 64.", &values);
        let samples = [(String::new(), delay.samples as f64)];
        put("run_queue_delay_samples_total", "counter", "Waits that were sampled.", &samples);
    }
    text
}
