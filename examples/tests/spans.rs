//! What crates keep for each thread (the span that it is in, the fields of its log lines) is a lightweight thread's
//! own, also when it waits, and wherever it goes on. `tracing` and `log` as they are.

#[path = "../../crates/raddle/tests/support/child.rs"]
mod child;

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

const THREADS: u64 = 16;
const ROUNDS: u64 = 50;
/// Waits in which a thread that nothing sends elsewhere is on another kernel thread all the same.
const LIMIT: u64 = 10_000;

/// Of each event: the number of the span that it came in, and its own.
static EVENTS: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());
static LINES: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// The field `number`.
struct Number(Option<u64>);

impl Visit for Number {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "number" {
            self.0 = Some(value);
        }
    }
    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

/// Keeps what a span was opened with, and writes events down.
struct Recorder;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut number = Number(None);
        attributes.record(&mut number);
        context.span(id).unwrap().extensions_mut().insert(number.0.unwrap());
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut number = Number(None);
        event.record(&mut number);
        let Some(number) = number.0 else { return };
        let span = *context.lookup_current().expect("each is in a span").extensions().get::<u64>().unwrap();
        EVENTS.lock().unwrap_or_else(PoisonError::into_inner).push((span, number));
    }
}

/// In a process of its own, with two processors, in which a thread that was suspended goes on on the other one.
fn apart(test: &str, body: impl FnOnce()) {
    match child::again(test) {
        Some(mut command) => {
            command.env("RADDLE_MIGRATE", "always").env("RADDLE_PROCESSORS", "2");
            child::must_pass(command);
        }
        None => body(),
    }
}

/// Which kernel thread runs the caller, by the kernel itself: `gettid` answers a lightweight thread's own number.
fn kernel_thread() -> usize {
    let number;
    // SAFETY: `gettid`, which takes nothing and writes nothing; both clobbers are the instruction's.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") 186_usize => number, out("rcx") _, out("r11") _, options(nostack));
    }
    // SAFETY: the same.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("svc 0", in("x8") 178, lateout("x0") number, options(nostack));
    }
    number
}

/// Opens spans, waits in them, and tells events, until it has been on two kernel threads at least. How many events.
fn tell(number: u64, wait: impl Fn(), yields: impl Fn(), sleep: impl Fn(Duration)) -> u64 {
    let _outer = tracing::info_span!("outer", number).entered();
    let mut carriers = HashSet::from([kernel_thread()]);
    for round in 1.. {
        let _inner = tracing::info_span!("inner", number).entered();
        wait();
        tracing::info!(number);
        carriers.insert(kernel_thread());
        yields();
        tracing::info!(number);
        carriers.insert(kernel_thread());
        if round >= ROUNDS && carriers.len() > 1 {
            return 2 * round;
        }
        // It stays while the kernel keeps the other processor from its core: that one is left alone for a while.
        if round >= ROUNDS {
            sleep(Duration::from_millis(1));
        }
        assert!(round < LIMIT, "it has never gone on elsewhere");
    }
    unreachable!()
}

/// Each event came in a span of the thread that told it, and none is missing.
fn each_is_in_its_own(told: u64) {
    let events = EVENTS.lock().unwrap();
    assert_eq!(events.len() as u64, told);
    assert!(events.iter().all(|(span, event)| span == event));
    assert_eq!(events.iter().map(|(span, _)| span).collect::<HashSet<_>>().len() as u64, THREADS);
}

#[test]
fn each_thread_has_its_own_span() {
    apart("each_thread_has_its_own_span", || {
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Recorder)).unwrap();
        let pool = raddle::Builder::new().processors(2).build().unwrap();
        let (sender, receiver) = raddle::sync::channel::bounded::<raddle::thread::Thread>(1);
        let told = pool.run(move || {
            let waker = raddle::spawn(move || receiver.iter().for_each(|parked| parked.unpark()));
            let threads: Vec<_> = (0..THREADS)
                .map(|number| {
                    let sender = sender.clone();
                    raddle::spawn(move || {
                        let wait = || {
                            sender.send(raddle::current()).unwrap();
                            raddle::park();
                        };
                        tell(number, wait, raddle::yield_now, raddle::sleep)
                    })
                })
                .collect();
            drop(sender);
            let told = threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>();
            waker.join().unwrap();
            told
        });
        each_is_in_its_own(told);
    });
}

/// As this package links the entry points, std's own threads are lightweight, too.
#[test]
fn each_thread_of_std_has_its_own_span() {
    apart("each_thread_of_std_has_its_own_span", || {
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Recorder)).unwrap();
        let (sender, receiver) = std::sync::mpsc::sync_channel::<std::thread::Thread>(1);
        let waker = std::thread::spawn(move || receiver.iter().for_each(|parked| parked.unpark()));
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    let wait = || {
                        sender.send(std::thread::current()).unwrap();
                        std::thread::park();
                    };
                    tell(number, wait, std::thread::yield_now, std::thread::sleep)
                })
            })
            .collect();
        drop(sender);
        let told = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        waker.join().unwrap();
        each_is_in_its_own(told);
    });
}

thread_local! {
    /// What a logger adds to each line, as those with a "diagnostic context" do.
    static REQUEST: RefCell<String> = const { RefCell::new(String::new()) };
}

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target() == "requests"
    }
    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = (REQUEST.with_borrow(Clone::clone), record.args().to_string());
            LINES.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    }
    fn flush(&self) {}
}

#[test]
fn each_thread_has_its_own_context_of_log_lines() {
    apart("each_thread_has_its_own_context_of_log_lines", || {
        log::set_logger(&Logger).unwrap();
        log::set_max_level(log::LevelFilter::Info);
        let pool = raddle::Builder::new().processors(2).build().unwrap();
        let told: u64 = pool.run(|| {
            raddle::scope(|scope| {
                let log = |number: u64| {
                    scope.spawn(move || {
                        REQUEST.set(number.to_string());
                        let log = || log::info!(target: "requests", "{number}");
                        tell(number, log, raddle::yield_now, raddle::sleep) / 2
                    })
                };
                let threads: Vec<_> = (0..THREADS).map(log).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum()
            })
        });
        let lines = LINES.lock().unwrap();
        assert_eq!(lines.len() as u64, told);
        assert!(lines.iter().all(|(context, line)| context == line));
    });
}
