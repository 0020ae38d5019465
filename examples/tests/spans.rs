//! What crates keep for each thread (the span that it is in, the fields of its log lines) is a lightweight thread's
//! own, also when it waits, and wherever it goes on. `tracing` and `log` as they are.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

const THREADS: u64 = 16;
const ROUNDS: u64 = 50;

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

#[test]
fn each_thread_has_its_own_span() {
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Recorder)).unwrap();
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    let (sender, receiver) = raddle::sync::channel::bounded::<u64>(1);
    pool.run(move || {
        raddle::scope(|scope| {
            scope.spawn(move || assert_eq!(receiver.iter().count() as u64, THREADS * ROUNDS));
            for number in 0..THREADS {
                let sender = sender.clone();
                scope.spawn(move || {
                    let _outer = tracing::info_span!("outer", number).entered();
                    for round in 0..ROUNDS {
                        let _inner = tracing::info_span!("inner", number).entered();
                        // Waits for the others, now and then elsewhere.
                        sender.send(round).unwrap();
                        tracing::info!(number);
                        raddle::yield_now();
                        tracing::info!(number);
                    }
                });
            }
            drop(sender);
        });
    });
    let events = EVENTS.lock().unwrap();
    assert_eq!(events.len() as u64, 2 * THREADS * ROUNDS);
    assert!(events.iter().all(|(span, event)| span == event));
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
    log::set_logger(&Logger).unwrap();
    log::set_max_level(log::LevelFilter::Info);
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    pool.run(|| {
        raddle::scope(|scope| {
            for number in 0..THREADS {
                scope.spawn(move || {
                    REQUEST.set(number.to_string());
                    for _ in 0..ROUNDS {
                        raddle::yield_now();
                        log::info!(target: "requests", "{number}");
                    }
                });
            }
        });
    });
    let lines = LINES.lock().unwrap();
    assert_eq!(lines.len() as u64, THREADS * ROUNDS);
    assert!(lines.iter().all(|(context, line)| context == line));
}
