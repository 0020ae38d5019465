//! `mixer`: conferences whose legs speak G.711. [`Hall`] holds what all runtimes in Rust share; how threads wait is the
//! runtime's own.

use super::Api;
use super::packet::with_percentiles;
use crate::args::Args;
use crate::load::latency::{Latencies, code_of};
use crate::load::protocol::mix;
use crate::program::Outcome;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Samples of a frame of 20 ms.
const SAMPLES: usize = 160;
/// Different frames; legs play them in turn.
const FRAMES: usize = 16;
/// A frame that takes longer is late.
const LATE: Duration = Duration::from_millis(20);

/// Frames' times before the first frame, where frames come at a pace.
const LEAD: u32 = 10;

/// A frame as a leg receives and sends it.
pub type Coded = [u8; SAMPLES];
/// A frame decoded.
pub type Plain = [i16; SAMPLES];
/// The same as it is handed on: a leg has one, which the conference fills with what the leg is to hear.
pub type Frame = Box<Plain>;

/// G.711 has two laws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// µ-law.
    Mu,
    /// A-law.
    A,
}

impl Law {
    #[inline]
    fn decode_one(self, byte: u8) -> i16 {
        match self {
            Law::Mu => {
                let code = !byte;
                let size = ((i16::from(code & 15) << 3) + 0x84) << (code >> 4 & 7);
                if code & 0x80 == 0 { size - 0x84 } else { 0x84 - size }
            }
            Law::A => {
                let code = byte ^ 0x55;
                let segment = code >> 4 & 7;
                let size = i16::from(code & 15) << 4;
                let size = if segment == 0 { size + 8 } else { (size + 0x108) << (segment - 1) };
                if code & 0x80 == 0 { -size } else { size }
            }
        }
    }

    #[inline]
    fn encode_one(self, sample: i16) -> u8 {
        let size = i32::from(sample);
        match self {
            Law::Mu => {
                let sign = if size < 0 { 0x80 } else { 0 };
                let size = size.abs().min(32_635) + 0x84;
                let exponent = 24 - size.leading_zeros();
                let mantissa = (size >> (exponent + 3)) as u8 & 15;
                !(sign | (exponent as u8) << 4 | mantissa)
            }
            Law::A => {
                let (sign, size) = if size < 0 { (0, !size) } else { (0x80, size) };
                let code = match size {
                    0..256 => size >> 4,
                    _ => {
                        let exponent = 24 - size.leading_zeros();
                        (exponent << 4) as i32 | (size >> (exponent + 3)) & 15
                    }
                };
                (sign | code as u8) ^ 0x55
            }
        }
    }
}

/// What all conferences share.
#[derive(Debug)]
pub struct Hall {
    /// How many conferences.
    pub conferences: usize,
    /// Legs of each.
    pub legs: usize,
    /// Frames of each leg.
    pub ticks: usize,
    pace: Duration,
    frames: Vec<Coded>,
}

/// What a leg gives in the end: the sum over what it wrote and the bucket of each frame's latency.
pub type Heard = (u64, Vec<u16>);

impl Hall {
    /// The hall of a request.
    pub fn new(args: &Args) -> Result<Hall, String> {
        let size = |key: &str| args.number(key).map(|n| n as usize);
        let frames = (0..FRAMES as u64).map(|frame| {
            let mut coded = [0; SAMPLES];
            (0..).zip(&mut coded).for_each(|(at, byte)| *byte = mix(frame << 32 | at) as u8);
            coded
        });
        let frames = frames.collect();
        let (conferences, legs, ticks) = (size("C")?, size("P")?, size("F")?);
        if conferences == 0 || legs == 0 || ticks == 0 {
            return Err(format!("C={conferences} P={legs} F={ticks}: each must be at least 1"));
        }
        Ok(Hall { conferences, legs, ticks, pace: Duration::from_micros(args.number("pace_us")?), frames })
    }

    /// The same with so many conferences.
    #[must_use]
    pub fn with(&self, conferences: usize) -> Hall {
        Hall { conferences, frames: self.frames.clone(), ..*self }
    }

    /// The law of a leg.
    pub fn law(&self, leg: usize) -> Law {
        if leg.is_multiple_of(2) { Law::Mu } else { Law::A }
    }

    /// When a frame comes: nothing where each comes when the one before has been written. Conferences begin spread over
    /// a frame's time, ten frames after the start, so that the making of their threads is no latency.
    pub fn due(&self, start: Instant, conference: usize, tick: usize) -> Option<Instant> {
        let phase = self.pace * conference as u32 / self.conferences as u32;
        (!self.pace.is_zero()).then(|| start + self.pace * (tick as u32 + LEAD) + phase)
    }

    /// Decodes the frame that a leg gets at a tick.
    pub fn decode(&self, conference: usize, leg: usize, tick: usize, frame: &mut Plain) {
        let coded = &self.frames[(conference + 3 * leg + tick) % FRAMES];
        let law = self.law(leg);
        frame.iter_mut().zip(coded).for_each(|(sample, &byte)| *sample = law.decode_one(byte));
    }

    /// Makes of each frame the sum of the others.
    pub fn mix(&self, frames: &mut [Frame]) {
        let mut total = [0i32; SAMPLES];
        for frame in frames.iter() {
            total.iter_mut().zip(frame.iter()).for_each(|(sum, &sample)| *sum += i32::from(sample));
        }
        for frame in frames {
            for (sample, sum) in frame.iter_mut().zip(&total) {
                *sample = (sum - i32::from(*sample)).clamp(i16::MIN.into(), i16::MAX.into()) as i16;
            }
        }
    }

    /// Encodes a frame and writes it to `line`; gives the sum of what was written.
    pub fn write(&self, leg: usize, frame: &Plain, line: &mut Coded) -> u64 {
        let law = self.law(leg);
        line.iter_mut().zip(frame).for_each(|(byte, &sample)| *byte = law.encode_one(sample));
        line.iter().map(|&byte| u64::from(byte)).sum()
    }

    /// The frames of all legs at a tick.
    fn decoded(&self, conference: usize, tick: usize) -> Vec<Frame> {
        let decode = |leg| {
            let mut frame: Frame = [0; SAMPLES].into();
            self.decode(conference, leg, tick, &mut frame);
            frame
        };
        (0..self.legs).map(decode).collect()
    }

    /// The sum over all legs and ticks.
    pub fn expected(&self) -> u64 {
        let sum_at = |place: usize| {
            let mut frames = self.decoded(place, 0);
            self.mix(&mut frames);
            frames.iter().enumerate().map(|(leg, frame)| self.write(leg, frame, &mut [0; SAMPLES])).sum::<u64>()
        };
        let sums: Vec<u64> = (0..FRAMES).map(sum_at).collect();
        (0..FRAMES)
            .map(|first| {
                let conferences = (self.conferences + FRAMES - 1 - first) / FRAMES;
                conferences as u64 * (0..self.ticks).map(|tick| sums[(first + tick) % FRAMES]).sum::<u64>()
            })
            .sum()
    }

    /// After all legs have ended.
    pub fn outcome(&self, time: Duration, heard: impl Iterator<Item = Heard>) -> Outcome {
        let mut latencies = Latencies::new();
        let (mut sum, mut late, mut count) = (0, 0, 0);
        let limit = code_of(LATE.as_nanos() as u64);
        for (written, buckets) in heard {
            sum += written;
            count += buckets.len();
            for bucket in buckets {
                late += usize::from(bucket > limit);
                latencies.note_code(bucket);
            }
        }
        let share = late as f64 / count.max(1) as f64;
        with_percentiles(Outcome::new(count as u64, time, sum), &latencies).with("late_share", share)
    }
}

/// Runs that a number of conferences has to keep its frames in time. Near the limit a run has nearly all in time or a
/// third of them late, and one pause of the machine decides which: with one run for each number, seven searches of one
/// program ended between 250 and 4,000.
const RUNS: u32 = 3;

/// Looks for the largest number of conferences that keeps p99 under 20 ms: halves or doubles until it has one that does
/// and one that does not, then halves the interval between them. A number is too large when so many runs in a row were
/// late: `RUNS`.
#[derive(Debug)]
pub struct Search {
    first: usize,
    good: Option<(usize, Outcome)>,
    bad: Option<usize>,
    /// Late runs of the number that is being tried.
    late: u32,
    late_in_all: u64,
}

impl Search {
    /// Begins with so many.
    pub fn new(first: usize) -> Search {
        Search { first, good: None, bad: None, late: 0, late_in_all: 0 }
    }

    /// The number to try, until the answer is known to a twentieth.
    pub fn next(&self) -> Option<usize> {
        match (&self.good, self.bad) {
            (None, None) => Some(self.first),
            (None, Some(bad)) => Some(bad / 2).filter(|&half| half > 0),
            (Some((good, _)), None) => Some(2 * good),
            (Some((good, _)), Some(bad)) => (bad - good > good.div_ceil(20)).then_some(good + (bad - good) / 2),
        }
    }

    /// What `hall` gave.
    pub fn told(&mut self, hall: &Hall, outcome: Outcome) -> Result<(), String> {
        if outcome.checksum != hall.expected() {
            return Err(format!(
                "C={}: the sum is {}, but {} is right",
                hall.conferences,
                outcome.checksum,
                hall.expected()
            ));
        }
        let p99 = outcome.extra.iter().find(|(key, _)| *key == "p99_ns").and_then(|(_, value)| value.as_u64());
        if p99.is_some_and(|p99| u128::from(p99) < LATE.as_nanos()) {
            self.good = Some((hall.conferences, outcome));
            self.late = 0;
            return Ok(());
        }
        self.late += 1;
        self.late_in_all += 1;
        if self.late == RUNS {
            self.bad = Some(hall.conferences);
            self.late = 0;
        }
        Ok(())
    }

    /// The outcome of the largest; the sum is 1, since it depends on how many there were.
    pub fn outcome(self) -> Outcome {
        let (conferences, best) = self.good.unwrap_or((0, Outcome::new(0, Duration::ZERO, 1)));
        Outcome { checksum: 1, ..best }.with("conferences", conferences as u64).with("late_runs", self.late_in_all)
    }
}

/// One leg's part of a conference that is waited for by yields: the owner of the turn is its state's parity.
struct Seat<A: Api> {
    /// 2 t: tick t's frame is to come; 2 t + 1: it is there.
    state: AtomicU64,
    frame: A::Mutex<Option<Frame>>,
}

fn await_by_yield<A: Api>(seat: &Seat<A>, state: usize) {
    while seat.state.load(Ordering::Acquire) != state as u64 {
        A::yield_now();
    }
}

/// Runs a leg: `exchange` gives the decoded frame to the conference and waits for the mixed one.
fn leg<A: Api>(
    hall: &Hall,
    conference: usize,
    leg: usize,
    start: Instant,
    mut exchange: impl FnMut(usize, Frame) -> Frame,
) -> Heard {
    let mut line = [0; SAMPLES];
    let mut frame: Frame = [0; SAMPLES].into();
    let mut heard = (0, Vec::with_capacity(hall.ticks));
    for tick in 0..hall.ticks {
        let due = hall.due(start, conference, tick);
        if let Some(rest) = due.map(|due| due.saturating_duration_since(Instant::now())).filter(|rest| !rest.is_zero())
        {
            A::sleep(rest);
        }
        let since = due.unwrap_or_else(Instant::now);
        hall.decode(conference, leg, tick, &mut frame);
        frame = exchange(tick, frame);
        heard.0 += hall.write(leg, &frame, std::hint::black_box(&mut line));
        heard.1.push(code_of(since.elapsed().as_nanos() as u64));
    }
    heard
}

fn by_promise<A: Api>(hall: Arc<Hall>) -> Outcome {
    let start = Instant::now();
    let (mut legs, mut rooms) = (Vec::new(), Vec::new());
    for conference in 0..hall.conferences {
        let mut inputs = Vec::with_capacity(hall.legs);
        for place in 0..hall.legs {
            let (frames, input) = A::channel::<(Frame, A::Promise<Frame>)>(1);
            inputs.push(input);
            let hall = hall.clone();
            legs.push(A::spawn(move || {
                leg::<A>(&hall, conference, place, start, |_, frame| {
                    let (promise, mixed) = A::promise();
                    A::send(&frames, (frame, promise));
                    A::get(mixed)
                })
            }));
        }
        let hall = hall.clone();
        rooms.push(A::spawn(move || {
            let (mut frames, mut promises) = (Vec::with_capacity(hall.legs), Vec::with_capacity(hall.legs));
            for _ in 0..hall.ticks {
                for input in &inputs {
                    let (frame, promise) = A::recv(input);
                    frames.push(frame);
                    promises.push(promise);
                }
                hall.mix(&mut frames);
                promises.drain(..).zip(frames.drain(..)).for_each(|(promise, frame)| A::set(promise, frame));
            }
        }));
    }
    let heard: Vec<Heard> = legs.into_iter().map(A::join).collect();
    rooms.into_iter().for_each(A::join);
    hall.outcome(start.elapsed(), heard.into_iter())
}

fn by_yield<A: Api>(hall: Arc<Hall>) -> Outcome {
    let start = Instant::now();
    let (mut legs, mut rooms) = (Vec::new(), Vec::new());
    for conference in 0..hall.conferences {
        let seat = |_| Seat::<A> { state: AtomicU64::new(0), frame: A::mutex(None) };
        let seats: Arc<[Seat<A>]> = (0..hall.legs).map(seat).collect();
        for place in 0..hall.legs {
            let (hall, seats) = (hall.clone(), seats.clone());
            legs.push(A::spawn(move || {
                let seat = &seats[place];
                leg::<A>(&hall, conference, place, start, |tick, frame| {
                    *A::lock(&seat.frame) = Some(frame);
                    seat.state.store(2 * tick as u64 + 1, Ordering::Release);
                    await_by_yield(seat, 2 * tick + 2);
                    A::lock(&seat.frame).take().unwrap()
                })
            }));
        }
        let hall = hall.clone();
        rooms.push(A::spawn(move || {
            for tick in 0..hall.ticks {
                seats.iter().for_each(|seat| await_by_yield(seat, 2 * tick + 1));
                let mut frames: Vec<Frame> = seats.iter().map(|seat| A::lock(&seat.frame).take().unwrap()).collect();
                hall.mix(&mut frames);
                for (seat, frame) in seats.iter().zip(frames) {
                    *A::lock(&seat.frame) = Some(frame);
                    seat.state.store(2 * tick as u64 + 2, Ordering::Release);
                }
            }
        }));
    }
    let heard: Vec<Heard> = legs.into_iter().map(A::join).collect();
    rooms.into_iter().for_each(A::join);
    hall.outcome(start.elapsed(), heard.into_iter())
}

pub(super) fn run<A: Api>(hall: Hall, by: &str) -> Outcome {
    if by == "yield" { by_yield::<A>(hall.into()) } else { by_promise::<A>(hall.into()) }
}

pub(super) fn largest<A: Api>(first: Hall, by: &str) -> Result<Outcome, String> {
    let mut search = Search::new(first.conferences);
    while let Some(conferences) = search.next() {
        let hall = first.with(conferences);
        search.told(&hall, run::<A>(first.with(conferences), by))?;
    }
    Ok(search.outcome())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_decoded_is_encoded_as_it_was() {
        for law in [Law::Mu, Law::A] {
            for byte in 0..=255 {
                let sample = law.decode_one(byte);
                assert_eq!(law.decode_one(law.encode_one(sample)), sample, "{law:?} {byte}");
            }
            for sample in i16::MIN..=i16::MAX {
                let error = i32::from(law.decode_one(law.encode_one(sample))) - i32::from(sample);
                assert!(error.abs() <= i32::from(sample).abs() / 16 + 8 + 132, "{law:?} {sample}: {error}");
            }
        }
        // From the tables of the recommendation.
        assert_eq!(
            (Law::Mu.decode_one(0x80), Law::Mu.decode_one(0x00), Law::Mu.encode_one(0)),
            (32_124, -32_124, 0xFF)
        );
        assert_eq!((Law::A.decode_one(0xAA), Law::A.decode_one(0x2A), Law::A.encode_one(0)), (32_256, -32_256, 0xD5));
    }

    #[test]
    fn each_hears_the_others_only() {
        let hall = Hall::new(&Args::parse(["C=1", "P=3", "F=1", "pace_us=0"]).unwrap()).unwrap();
        let mut frames = [1, 20, 300].map(|sample| Box::new([sample; SAMPLES]));
        hall.mix(&mut frames);
        assert_eq!(frames.map(|frame| frame[0]), [320, 301, 21]);
    }

    #[test]
    fn the_expected_sum_is_that_of_every_frame() {
        let hall = Hall::new(&Args::parse(["C=37", "P=3", "F=5", "pace_us=0"]).unwrap()).unwrap();
        let mut sum = 0;
        for (conference, tick) in (0..37).flat_map(|c| (0..5).map(move |t| (c, t))) {
            let mut frames = hall.decoded(conference, tick);
            hall.mix(&mut frames);
            sum += (0..3).map(|leg| hall.write(leg, &frames[leg], &mut [0; SAMPLES])).sum::<u64>();
        }
        assert_eq!(hall.expected(), sum);
    }

    #[test]
    fn the_search_bears_late_runs_that_are_not_the_number_s_fault() {
        let hall = Hall::new(&Args::parse(["C=100", "P=2", "F=1", "pace_us=20000"]).unwrap()).unwrap();
        for unlucky in 1..=RUNS {
            let (mut search, mut runs) = (Search::new(100), 0);
            while let Some(count) = search.next() {
                // The first `unlucky` runs of each number are late; above 1,000 all are.
                let late = count > 1_000 || runs < unlucky;
                runs = if late && runs + 1 < RUNS { runs + 1 } else { 0 };
                let tried = hall.with(count);
                let p99 = if late { 30_000_000 } else { 1u64 };
                search.told(&tried, Outcome::new(1, Duration::ZERO, tried.expected()).with("p99_ns", p99)).unwrap();
            }
            let outcome = search.outcome();
            let found = outcome.extra.iter().find(|(key, _)| *key == "conferences").unwrap().1.as_u64().unwrap();
            if unlucky < RUNS {
                assert!((950..=1_000).contains(&found), "{unlucky}: {found}");
            } else {
                assert_eq!(found, 0, "too large is what is late that often");
            }
        }
    }

    #[test]
    fn the_search_ends_near_the_limit() {
        let hall = Hall::new(&Args::parse(["C=100", "P=2", "F=1", "pace_us=20000"]).unwrap()).unwrap();
        for limit in [1, 3, 99, 100, 101, 5_000] {
            let mut search = Search::new(100);
            while let Some(count) = search.next() {
                let tried = hall.with(count);
                let p99 = if count as u64 <= limit { 1u64 } else { 30_000_000 };
                search.told(&tried, Outcome::new(1, Duration::ZERO, tried.expected()).with("p99_ns", p99)).unwrap();
            }
            let outcome = search.outcome();
            let found = outcome.extra.iter().find(|(key, _)| *key == "conferences").unwrap().1.as_u64().unwrap();
            assert!(found <= limit && found + found.div_ceil(20) >= limit, "{limit}: {found}");
        }
    }
}
