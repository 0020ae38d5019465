//! What `raddle sim predict` measures of the program `packet` by itself: its own code, without a scheduler.

use raddle_bench::bodies::shared::Traffic;
use raddle_bench::{catalogue, child::tied, quiet};
use raddle_sim::calibrate::{disturbed, middle_half, quick, quickest_by, quietly, round};
use rustix::process::Signal;
use std::collections::VecDeque;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// As many packets are under way as the spawner's queue holds, and as many are copied in a row as run before it comes
/// to its turn again: so their buffers come from where they do in the program.
const UNDER_WAY: usize = 128;
const PART: usize = 16;
/// Parts in a round: as many packets as the program has. Allocators have good and bad parts, so the time is that of a
/// round.
const PARTS: usize = 125;
/// The other processor takes half a queue at once.
const STOLEN: usize = UNDER_WAY / 2;
/// Rounds of a process on one core, and those before them, which warm up.
const ROUNDS: usize = 20;
const WARM_UP: usize = 5;

/// What a spawner hands to a thread, boxed as the spawn boxes it.
type Packet = Box<dyn FnOnce() -> bool + Send>;

/// The program's own code for a part: what a spawner does for each packet.
fn copy(traffic: &'static Traffic, numbers: impl Iterator<Item = u64>) -> (Vec<Packet>, Duration) {
    let packet = |number| -> Packet {
        let (buffer, since) = (traffic.take(number), Instant::now());
        let _ = traffic.started(0, number);
        Box::new(move || traffic.handle(number, since, buffer))
    };
    let begin = Instant::now();
    let packets = numbers.map(packet).collect();
    (packets, begin.elapsed())
}

/// And what the threads do.
fn handle(packets: impl Iterator<Item = Packet>) -> Duration {
    let begin = Instant::now();
    packets.for_each(|packet| _ = packet());
    begin.elapsed()
}

/// What a packet costs its spawner and its thread, beside being spawned and scheduled, in nanoseconds: where both are
/// on one processor, and where they are on two (its bytes move, and its memory is freed where it was not allocated).
#[derive(Clone, Copy, Debug)]
pub(super) struct Packets {
    near: (f64, f64),
    far: (f64, f64),
    /// On two it was disturbed to the end.
    pub disturbed: bool,
}

impl Packets {
    /// Of several measurements the middle half of each time.
    pub fn middle_of(all: &[Self]) -> Self {
        let of = |time: fn(&Self) -> f64| middle_half(all.iter().map(time).collect());
        Self { near: (of(|p| p.near.0), of(|p| p.near.1)), far: (of(|p| p.far.0), of(|p| p.far.1)), disturbed: false }
    }

    /// As [`measured`] reads it.
    pub fn line(&self) -> String {
        let Self { near, far, disturbed } = self;
        format!("{} {} {} {} {}\n", near.0, near.1, far.0, far.1, u8::from(*disturbed))
    }

    /// As arguments of the simulated workload.
    pub fn arguments(&self) -> String {
        let Self { near, far, .. } = self;
        let more = |near: f64, far: f64| (far - near).max(0.0).round();
        let far = (more(near.0, far.0), more(near.1, far.1));
        format!("copy={}:body={}:bytes=0:copy_far={}:body_far={}", near.0.round(), near.1.round(), far.0, far.1)
    }
}

/// As [`here`], in a fresh process: what an allocator gives differs from one to the next.
pub(super) fn measured(executable: &Path) -> Result<Packets, String> {
    let mut command = Command::new(executable);
    command.args(["sim", "predict", "--own-code"]).env(quiet::VARIABLE, quiet::Best::here().to_string());
    let output = tied(&mut command, Signal::KILL).output();
    let output = output.map_err(|why| format!("cannot start {}: {why}", executable.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let times: Vec<f64> = text.split_whitespace().filter_map(|time| time.parse().ok()).collect();
    match times[..] {
        [near_copy, near_body, far_copy, far_body, disturbed] if output.status.success() => {
            Ok(Packets { near: (near_copy, near_body), far: (far_copy, far_body), disturbed: disturbed > 0.0 })
        }
        _ => Err(format!("the packets' own code: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Runs the program's own code for packets in this process.
pub(super) fn here() -> Result<Packets, String> {
    let count = (PARTS * PART) as u64;
    let case = catalogue::cases(catalogue::find("packet")?, &[format!("N={count}")], 1)?;
    let traffic = Traffic::of("packet", &case.first().ok_or("the workload `packet` has no case")?.args)?;
    // Kernel threads of their own, as the library's are: an allocator may keep other memory for the first one.
    fn on_its_own<R: Send + 'static>(rounds: impl FnOnce() -> R + Send + 'static) -> Result<R, String> {
        let thread = std::thread::Builder::new().spawn(rounds);
        let thread = thread.map_err(|why| format!("no kernel thread for the calibration: {why}"))?;
        thread.join().map_err(|_| "the packets' own code has failed".to_string())
    }
    let (near, far) = (on_its_own(|| near(traffic))?, on_its_own(|| far(traffic))??);
    // On one core all else that takes time is somebody else's; between two it differs where lines lie.
    let (copied, handled): (Vec<f64>, Vec<f64>) = far.into_iter().unzip();
    Ok(Packets {
        near: quickest_by(near, |both| both.0 + both.1),
        far: (quick(copied), quick(handled)),
        disturbed: disturbed() > 0,
    })
}

/// Whether it was undisturbed, and what each packet's copying and handling took.
type Round = (bool, (f64, f64));

/// Nanoseconds for each packet of a round.
fn each(took: Duration) -> f64 {
    took.as_nanos() as f64 / (PARTS * PART) as f64
}

/// Copied and looked through by one kernel thread.
fn near(traffic: &'static Traffic) -> Vec<Round> {
    let mut under_way = VecDeque::new();
    let mut all = || {
        let mut numbers = 0..(PARTS * PART) as u64;
        let (mut copied, mut handled) = (Duration::ZERO, Duration::ZERO);
        while !numbers.is_empty() {
            let (part, took) = copy(traffic, numbers.by_ref().take(PART));
            under_way.extend(part);
            copied += took;
            if under_way.len() > UNDER_WAY {
                handled += handle(under_way.drain(..PART));
            }
        }
        (each(copied), each(handled))
    };
    let watched = |_| round(quiet::watched_here, &mut all);
    (0..WARM_UP + ROUNDS).map(watched).skip(WARM_UP).collect()
}

/// Copied by one kernel thread and looked through by another, both at the same time, since both allocate or free: who
/// has nothing to do waits for the other one without sleeping, and does not count it.
fn far(traffic: &'static Traffic) -> Result<Vec<(f64, f64)>, String> {
    let (send, parts) = mpsc::channel::<Vec<Packet>>();
    let (answer, answers) = mpsc::channel();
    std::thread::scope(|scope| {
        // The two are on two processors while neither sleeps, as the other one does only between rounds.
        scope.spawn(move || {
            quiet::elsewhere();
            while let Ok(mut part) = parts.recv() {
                while !part.is_empty() {
                    let _ = answer.send(handle(part.into_iter()));
                    part = awake(&parts).unwrap_or_default();
                }
            }
        });
        let all = || {
            let mut numbers = 0..(PARTS * PART) as u64;
            let (mut copied, mut handled) = (Duration::ZERO, Duration::ZERO);
            let mut under_way = 0;
            while !numbers.is_empty() || under_way > 0 {
                if under_way == UNDER_WAY / STOLEN || numbers.is_empty() {
                    handled += awake(&answers).unwrap_or_default();
                    under_way -= 1;
                    continue;
                }
                let (part, took) = copy(traffic, numbers.by_ref().take(STOLEN));
                copied += took;
                let _ = send.send(part);
                under_way += 1;
            }
            // No more of this round.
            let _ = send.send(Vec::new());
            (each(copied), each(handled))
        };
        (0..WARM_UP).for_each(|_| _ = all());
        let rounds = quietly(quiet::watched_both, || Ok(Some(all())));
        drop(send);
        rounds
    })
}

/// What comes, waited for without sleeping; none when nobody can send any more.
fn awake<T>(source: &mpsc::Receiver<T>) -> Option<T> {
    for look in 1u32.. {
        match source.try_recv() {
            Ok(value) => return Some(value),
            Err(mpsc::TryRecvError::Disconnected) => return None,
            Err(mpsc::TryRecvError::Empty) if look.is_multiple_of(4096) => std::thread::yield_now(),
            Err(mpsc::TryRecvError::Empty) => std::hint::spin_loop(),
        }
    }
    None
}
