//! A small executor of one's own on the kernel's events: tasks that block where nobody sees it keep no processor.

use raddle::events::{ActivationId, Executor, Processor};
use std::collections::{HashSet, VecDeque};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

type Task = Box<dyn FnOnce() + Send>;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Blocked(ActivationId),
    Preempted(ActivationId),
    Unblocked(ActivationId),
}

#[derive(Default)]
struct State {
    tasks: Mutex<VecDeque<Task>>,
    events: Mutex<Vec<Event>>,
}

#[derive(Clone, Default)]
struct Small(Arc<State>);

impl Small {
    fn push(&self, task: impl FnOnce() + Send + 'static) {
        self.0.tasks.lock().unwrap().push_back(Box::new(task));
    }
    fn pop(&self) -> Option<Task> {
        self.0.tasks.lock().unwrap().pop_front()
    }
    fn note(&self, event: Event) {
        self.0.events.lock().unwrap().push(event);
    }
    fn events(&self) -> Vec<Event> {
        self.0.events.lock().unwrap().clone()
    }
}

impl Executor for Small {
    fn added(&self, processor: &Processor<'_>) {
        while let Some(task) = self.pop() {
            task();
            if !processor.goes_on() {
                return;
            }
        }
    }
    fn blocked(&self, activation: ActivationId) {
        self.note(Event::Blocked(activation));
    }
    fn preempted(&self, activation: ActivationId) {
        self.note(Event::Preempted(activation));
    }
    fn unblocked(&self, activation: ActivationId) {
        self.note(Event::Unblocked(activation));
    }
}

/// As no library that might be taken over does it.
fn read_a_byte(file: &impl AsRawFd) {
    let mut byte = 0u8;
    // SAFETY: the buffer has the byte that is asked for.
    let read = unsafe { libc::syscall(libc::SYS_read, file.as_raw_fd(), &raw mut byte, 1) };
    assert_eq!(read, 1);
}

#[test]
fn a_task_that_blocks_is_told_of_and_so_is_its_return() {
    // On a busy machine the first task may lose its processor before it comes to block: that proves nothing.
    let told = (0..100).any(|_| {
        let executor = Small::default();
        let (wait, mut wake) = std::io::pipe().unwrap();
        let (done, is_done) = mpsc::channel();
        executor.push(move || {
            read_a_byte(&wait);
            done.send(()).unwrap();
        });
        executor.push(move || wake.write_all(&[1]).unwrap());
        // One processor: without the events nobody would ever write.
        let processors = raddle::events::start(executor.clone(), 1).unwrap();
        is_done.recv().unwrap();
        processors.stop();
        let events = executor.events();
        let blocked = events.iter().find_map(|event| if let Event::Blocked(who) = event { Some(*who) } else { None });
        blocked.is_some_and(|who| {
            let at = |event| events.iter().position(|seen| *seen == event);
            assert!(at(Event::Blocked(who)) < at(Event::Unblocked(who)), "{events:?}");
            true
        })
    });
    assert!(told);
}

#[test]
fn all_tasks_run_and_each_loss_has_its_end() {
    for count in [1, 2] {
        let executor = Small::default();
        let done = Arc::new(AtomicUsize::new(0));
        let processors = raddle::events::start(executor.clone(), count).unwrap();
        for i in 0..200u64 {
            let done = done.clone();
            executor.push(move || {
                if i % 3 == 0 {
                    std::thread::sleep(Duration::from_micros(100 * (i % 40)));
                }
                done.fetch_add(1, Ordering::Relaxed);
            });
            processors.add();
        }
        while done.load(Ordering::Relaxed) < 200 {
            std::thread::sleep(Duration::from_millis(1));
        }
        processors.stop();
        let events = executor.events();
        let back = events.iter().filter(|event| matches!(event, Event::Unblocked(_))).count();
        assert_eq!(events.len(), 2 * back, "on {count}: {events:?}");
        // Notices of each activation alternate, a loss first.
        let mut lost = HashSet::new();
        for event in &events {
            let as_it_should = match event {
                Event::Blocked(who) | Event::Preempted(who) => lost.insert(*who),
                Event::Unblocked(who) => lost.remove(who),
            };
            assert!(as_it_should, "on {count}, at {event:?}: {events:?}");
        }
    }
}

#[test]
fn processors_that_have_rested_are_added_again() {
    let executor = Small::default();
    let processors = raddle::events::start(executor.clone(), 2).unwrap();
    for round in 0..50 {
        let (done, is_done) = mpsc::channel();
        for _ in 0..3 {
            let done = done.clone();
            executor.push(move || done.send(round).unwrap());
            processors.add();
        }
        assert_eq!([is_done.recv(), is_done.recv(), is_done.recv()], [Ok(round); 3]);
    }
    drop(processors);
}

/// One who gives its processor way to one that has come back has one asked for again: it, or another, is added when
/// that one rests.
#[test]
fn who_gives_way_is_added_again() {
    enum Told {
        GaveWay,
        DidNot,
        Again,
    }
    /// The first blocks, the second has its processor until that comes back, and the third tells that it was added.
    struct GivesWay {
        calls: AtomicUsize,
        back: AtomicBool,
        wait: std::io::PipeReader,
        wake: std::io::PipeWriter,
        told: mpsc::Sender<Told>,
    }
    impl Executor for GivesWay {
        fn added(&self, processor: &Processor<'_>) {
            match self.calls.fetch_add(1, Ordering::Relaxed) {
                0 => {
                    read_a_byte(&self.wait);
                    // Here it waits for its turn.
                    processor.goes_on();
                    self.back.store(true, Ordering::Relaxed);
                }
                1 => {
                    (&self.wake).write_all(&[1]).unwrap();
                    // On a busy machine it may lose the processor instead: that proves nothing.
                    let told = loop {
                        if !processor.goes_on() {
                            break Told::GaveWay;
                        }
                        if self.back.load(Ordering::Relaxed) {
                            break Told::DidNot;
                        }
                    };
                    let _ = self.told.send(told);
                }
                _ => _ = self.told.send(Told::Again),
            }
        }
    }
    let gave_way = (0..100).any(|_| {
        let ((wait, wake), (told, is_told)) = (std::io::pipe().unwrap(), mpsc::channel());
        let (calls, back) = (AtomicUsize::new(0), AtomicBool::new(false));
        let processors = raddle::events::start(GivesWay { calls, back, wait, wake, told }, 1).unwrap();
        let gave_way = matches!(is_told.recv().unwrap(), Told::GaveWay);
        if gave_way {
            assert!(matches!(is_told.recv().unwrap(), Told::Again));
        }
        processors.stop();
        gave_way
    });
    assert!(gave_way);
}

/// The task blocks, is told of, comes back and panics: that it is back is told all the same.
#[test]
fn a_loss_has_its_end_when_the_task_panics() {
    let told = (0..100).any(|_| {
        let executor = Small::default();
        let (wait, mut wake) = std::io::pipe().unwrap();
        let (done, is_done) = mpsc::channel::<()>();
        executor.push(move || {
            let _done = done;
            read_a_byte(&wait);
            panic!("as a test wants it");
        });
        executor.push(move || wake.write_all(&[1]).unwrap());
        let processors = raddle::events::start(executor.clone(), 1).unwrap();
        assert_eq!(is_done.recv(), Err(mpsc::RecvError), "it has panicked");
        let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| processors.stop()));
        assert!(stopped.is_err());
        let events = executor.events();
        let back = events.iter().filter(|event| matches!(event, Event::Unblocked(_))).count();
        assert_eq!(events.len(), 2 * back, "{events:?}");
        back > 0
    });
    assert!(told);
}

#[test]
#[should_panic(expected = "an executor's method has panicked")]
fn a_panic_of_the_executor_is_told_at_the_end() {
    struct Panics(mpsc::Sender<()>);
    impl Executor for Panics {
        fn added(&self, _: &Processor<'_>) {
            self.0.send(()).unwrap();
            panic!("as a test wants it");
        }
    }
    let (called, is_called) = mpsc::channel();
    let processors = raddle::events::start(Panics(called), 1).unwrap();
    is_called.recv().unwrap();
    processors.stop();
}
