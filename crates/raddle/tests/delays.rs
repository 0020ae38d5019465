//! Samples of run-queue delays: they come from each kind of push, and only when somebody asks for them.
//!
//! One test, since sampling is the process's.

fn samples() -> u64 {
    raddle::info::run_queue_delay().map_or(0, |delay| delay.samples)
}

#[test]
fn waits_are_sampled_by_kind_and_only_when_asked_for() {
    for processors in [1, 2] {
        for policy in ["steal(lifo)", "fifo", "rotator", "priority(2, lifo)"] {
            let builder = raddle::Builder::new().processors(processors).policy(policy);
            let pool = builder.build().unwrap();
            // All are there before the first yields: one that is alone on its processor would not push at all.
            let yields = || {
                let gate = raddle::sync::Barrier::new(8);
                raddle::scope(|s| {
                    for _ in 0..8 {
                        s.spawn(|| {
                            gate.wait();
                            (0..400).for_each(|_| raddle::yield_now());
                        });
                    }
                })
            };
            let spawns = || (0..2000).for_each(|_| raddle::spawn(|| ()).join().unwrap());
            let wakes = || {
                let (to, from) = raddle::sync::channel::bounded(1);
                let (back, returned) = raddle::sync::channel::bounded(1);
                let echo = raddle::spawn(move || from.iter().for_each(|n: u32| back.send(n).unwrap()));
                for n in 0..2000 {
                    to.send(n).unwrap();
                    assert_eq!(returned.recv().unwrap(), n);
                }
                drop(to);
                echo.join().unwrap();
            };
            pool.run(|| (yields(), spawns(), wakes()));
            assert_eq!(samples(), 0, "{policy}: nobody asked");
            raddle::info::sample_delays(true);
            for (kind, f) in [("yields", &yields as &(dyn Fn() + Sync)), ("spawns", &spawns), ("wakes", &wakes)] {
                let before = samples();
                pool.run(f);
                assert!(samples() > before, "{policy} on {processors}: {kind}");
            }
            raddle::info::sample_delays(false);
            pool.run(|| (yields(), spawns(), wakes()));
            // The one that each processor still followed may have arrived since.
            let delay = raddle::info::run_queue_delay().unwrap();
            assert!(delay.p50 <= delay.p99 && delay.p99 <= delay.p999 && delay.p999 <= delay.max, "{delay:?}");
            pool.run(|| (yields(), spawns(), wakes()));
            assert_eq!(samples(), delay.samples);
            println!("{policy} on {processors}: {delay:?}");
            let mut text = Vec::new();
            raddle::info::dump(&mut text, raddle::info::DumpOptions::default()).unwrap();
            assert!(String::from_utf8(text).unwrap().contains("waited in run queues"));
        }
    }
}
