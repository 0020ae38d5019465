//! Stages: bounded places, back-pressure, processors that move with the load, shutting down. Nothing here depends on
//! time: what does not happen makes a test wait for ever.

use raddle::stage::{BuildError, MAX_CAPACITY, Refused, Stage, Stages};
use raddle::sync::Semaphore;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

fn two(first: usize, second: usize, processors: usize) -> (Stages, Stage, Stage) {
    let stages = Stages::builder().stage("front", first).stage("back", second).processors(processors).build().unwrap();
    let (front, back) = (stages.stage("front").unwrap(), stages.stage("back").unwrap());
    (stages, front, back)
}

fn fails(builder: raddle::stage::Builder) -> (BuildError, String) {
    let error = builder.build().map(drop).unwrap_err();
    (error.clone(), error.to_string())
}

#[test]
fn what_cannot_be_built_says_why() {
    assert_eq!(fails(Stages::builder()).0, BuildError::NoStage);
    for places in [0, MAX_CAPACITY + 1] {
        let (error, text) = fails(Stages::builder().stage("a", 3).stage("b", places));
        assert_eq!(error, BuildError::Capacity { stage: "b".into(), capacity: places });
        assert!(text.contains("`b`") && text.contains("at least 1"), "{text}");
    }
    for processors in [0, 1] {
        let (error, text) = fails(Stages::builder().stage("a", 3).stage("b", 3).processors(processors));
        assert_eq!(error, BuildError::Processors { processors, stages: 2 });
        assert!(text.contains("at least 2"), "{text}");
    }
    let (error, text) = fails(Stages::builder().stage("a", 3).processors(100_000));
    assert!(matches!(error, BuildError::Pool { .. }) && text.contains("`a`") && text.contains("100000"), "{text}");
    let (error, text) = fails(Stages::builder().stage("a", 3).stage_with("b", 3, "steal(life)"));
    assert!(matches!(error, BuildError::Pool { .. }) && format!("{error:?}") == text, "{error:?}");
    assert!(text.contains("`b`") && text.ends_with("  steal(life)\n        ^^^^ did you mean `lifo`?"), "{text}");
    let ring = || "rotator";
    let (error, text) = fails(Stages::builder().stage_with("a", 3, ring()).stage("b", 3).processors(3));
    assert!(error == BuildError::Ring("a".into()) && text.contains("`a`"), "{text}");
    // Where no processor can move, it may.
    drop(Stages::builder().stage_with("a", 3, ring()).stage("b", 3).processors(2).build().unwrap());
    assert_eq!(fails(Stages::builder().stage("a", 3).stage("a", 3)).0, BuildError::Name("a".into()));
}

#[test]
fn work_passes_through_all_stages_and_never_more_than_there_are_places() {
    let (_stages, front, back) = two(4, 2, 3);
    let inside: &'static [AtomicU64; 2] = Box::leak(Box::default());
    let enter = move |stage: usize, places: u64| {
        assert!(inside[stage].fetch_add(1, Ordering::SeqCst) < places, "stage {stage} holds more than its places");
        raddle::yield_now();
        inside[stage].fetch_sub(1, Ordering::SeqCst);
    };
    let feed = move |from: u64| {
        let work = (from..from + 500).map(|number| {
            let place = front.place().unwrap();
            let thread = place.spawn(move || {
                enter(0, 4);
                let double = back.run(move || {
                    enter(1, 2);
                    2 * number
                });
                double.unwrap()
            });
            thread.unwrap()
        });
        work.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
    };
    let feeders: Vec<_> = (0..3).map(|feeder| std::thread::spawn(move || feed(1000 * feeder))).collect();
    let sum: u64 = feeders.into_iter().map(|feeder| feeder.join().unwrap()).sum();
    assert_eq!(sum, (0..3).flat_map(|feeder| 1000 * feeder..1000 * feeder + 500).map(|number| 2 * number).sum());
}

#[test]
fn pressure_goes_on_to_the_front() {
    let (_stages, front, back) = two(3, 1, 2);
    let gate: &'static Semaphore = Box::leak(Box::new(Semaphore::new(0)));
    let held = back.spawn(|| gate.acquire(1)).unwrap();
    assert_eq!(back.try_place().unwrap_err(), Refused::Full);
    let all: Vec<_> =
        (0..3).map(|n| front.try_place().unwrap().spawn(move || back.run(move || n).unwrap()).unwrap()).collect();
    // The front's own threads do nothing but wait for the back.
    assert_eq!(front.try_place().unwrap_err(), Refused::Full);
    assert_eq!(front.place_timeout(Duration::from_millis(1)).unwrap_err(), Refused::TimedOut);
    assert_eq!((front.load().taken, back.load().taken), (3, 1));
    gate.release(1);
    held.join().unwrap();
    assert_eq!(all.into_iter().map(|thread| thread.join().unwrap()).sum::<i32>(), 3);
    // A place that is not used goes back, and so does one whose thread panics.
    drop(back.place().unwrap());
    assert!(back.spawn(|| panic!("as it should")).unwrap().join().is_err());
    assert_eq!(back.run(|| 7), Ok(7));
}

#[test]
fn who_waits_for_a_place_can_be_cancelled() {
    let (_stages, front, back) = two(1, 1, 2);
    let place = back.place().unwrap();
    let waits = front.spawn(move || back.place().map(drop)).unwrap();
    waits.cancel();
    assert_eq!(waits.join().unwrap(), Err(Refused::Cancelled));
    drop(place);
    assert_eq!(back.load().taken, 0);
}

/// Feeds a stage with threads that compute until it has so many processors.
fn feed_until(stage: Stage, processors: usize) {
    let stop: &'static AtomicBool = Box::leak(Box::default());
    while stage.load().processors != processors {
        let work = || {
            for _ in 0..20_000 {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                std::hint::spin_loop();
            }
        };
        drop(stage.spawn(work).unwrap());
    }
    stop.store(true, Ordering::Relaxed);
}

#[test]
fn processors_move_to_where_the_load_is_and_none_is_left_without() {
    for policy in ["steal", "lifo", "local(overflow=retry)"] {
        let builder = Stages::builder().stage_with("front", 200, policy).stage_with("back", 200, policy);
        let stages = builder.processors(5).build().unwrap();
        let (front, back) = (stages.stage("front").unwrap(), stages.stage("back").unwrap());
        assert_eq!((front.load().processors, back.load().processors), (3, 2));
        for _ in 0..2 {
            feed_until(back, 4);
            assert!(front.load().processors >= 1);
            assert_eq!(front.run(|| 1), Ok(1));
            feed_until(front, 4);
            assert_eq!(back.run(|| 1), Ok(1));
        }
        assert!(stages.moves() >= 2 + 3 * 3, "{}", stages.moves());
    }
}

#[test]
fn shutting_down_ends_what_has_begun_and_refuses_the_rest() {
    let (stages, front, back) = two(2, 1, 2);
    let ended = Arc::new(AtomicU64::new(0));
    let gate: &'static Semaphore = Box::leak(Box::new(Semaphore::new(0)));
    for _ in 0..2 {
        let ended = ended.clone();
        let work = move || {
            gate.acquire(1);
            let after = ended.clone();
            back.run(move || after.fetch_add(1, Ordering::Relaxed)).unwrap();
        };
        drop(front.spawn(work).unwrap());
    }
    // Some wait for a place already, others come later: all are told.
    let waiting: Vec<_> = (0..5).map(|_| std::thread::spawn(move || front.place().map(drop))).collect();
    let dropping = std::thread::spawn(move || drop(stages));
    while front.try_place().unwrap_err() != Refused::Closed {
        std::thread::yield_now();
    }
    for waiter in waiting {
        assert_eq!(waiter.join().unwrap(), Err(Refused::Closed));
    }
    // The back works on for the front.
    assert_eq!(ended.load(Ordering::Relaxed), 0);
    gate.release(2);
    dropping.join().unwrap();
    assert_eq!(ended.load(Ordering::Relaxed), 2);
    for stage in [front, back] {
        assert_eq!(stage.place().unwrap_err(), Refused::Closed);
        assert_eq!(stage.spawn(|| ()).map(drop).unwrap_err(), Refused::Closed);
        assert_eq!(stage.load().taken, 0);
    }
    assert!(Refused::Closed.to_string().contains("shutting down"));
}

/// The monitor looks after as many as there can be pools at once, 256: those that are gone leave their places.
#[test]
fn stages_are_built_and_dropped_again_and_again() {
    for _ in 0..300 {
        let (_stages, front, back) = two(1, 1, 2);
        assert_eq!((front.load().processors, back.load().processors), (1, 1));
    }
}

#[test]
fn stages_that_one_of_their_threads_drops_stay() {
    let (stages, front, back) = two(1, 1, 2);
    back.run(move || drop(stages)).unwrap();
    assert_eq!((front.run(|| 1), back.run(|| 2)), (Ok(1), Ok(2)));
}
