//! A trace as JSON, in the format of Chrome's `about:tracing`, which Perfetto reads: two groups of tracks, one for
//! processors and one for threads.

use super::story::{Known, PoolAndProcessor, Said, State, Story, Told};
use crate::lanes::Kind;
use crate::lanes::layout::{EVENT, LINE, Layout, MAGIC, NAMES, PAGE, REASONS, VERSION, head};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The groups, by the numbers that the format calls processes.
const PROCESSORS: u32 = 1;
const THREADS: u32 = 2;

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn text(bytes: &[u8], at: usize, room: usize) -> Option<&str> {
    let length = (word(bytes, at)? as usize).min(room - 8);
    std::str::from_utf8(bytes.get(at + 8..at + 8 + length)?).ok()
}

/// Which process wrote that file, and when it began; `None` if it is no trace.
pub(super) fn process_of(raw: &Path) -> Option<(u64, u64)> {
    let mut bytes = [0; 64];
    File::open(raw).ok()?.read_exact(&mut bytes).ok()?;
    let field = |number: usize| word(&bytes, number * 8);
    (field(head::MAGIC)? == MAGIC).then_some((field(head::PROCESS)?, field(head::BEGUN)?))
}

/// A file's events by time, and what else it says.
struct Read<'a> {
    bytes: &'a [u8],
    layout: Layout,
    /// Events that were overwritten.
    lost: u64,
    events: Vec<Said<'a>>,
}

impl<'a> Read<'a> {
    fn new(bytes: &'a [u8]) -> Option<Self> {
        let field = |number: usize| word(bytes, number * 8);
        if field(head::MAGIC)? != MAGIC || field(head::VERSION)? != VERSION {
            return None;
        }
        let (lanes, per_lane) = (field(head::LANES)? as usize, field(head::EVENTS)? as usize);
        let layout = Layout { lanes, events: per_lane };
        if lanes == 0 || lanes > PAGE || !per_lane.is_power_of_two() || per_lane > super::MOST_EVENTS {
            return None;
        }
        if layout.size() > bytes.len() {
            return None;
        }
        let reasons: Vec<&str> =
            (0..REASONS).map(|n| text(bytes, layout.texts() + n * LINE, LINE).unwrap_or("")).collect();
        let mut read = Self { bytes, layout, lost: 0, events: Vec::new() };
        let mut whole_from = 0;
        for lane in 0..lanes {
            let count = word(bytes, Layout::CURSORS + lane * LINE)?;
            let kept = count.min(per_lane as u64);
            read.lost += count - kept;
            let mut first = 0;
            for number in count - kept..count {
                let at = layout.lane(lane) + (number as usize & (per_lane - 1)) * EVENT;
                let (time, what) = (word(bytes, at)?, word(bytes, at + 8)?);
                // One that was on its way when the process ended has no time.
                if let Some(kind) = Kind::from_bits(what).filter(|_| time != 0) {
                    let reason = reasons[(what >> 8 & 0xff) as usize];
                    let place = ((what >> 16 & 0xffff) as u32, (what >> 32 & 0xffff) as u32);
                    let (thread, other) = (word(bytes, at + 16)?, word(bytes, at + 24)?);
                    read.events.push(Said { time, kind, place, thread, other, reason });
                    first = if first == 0 { time } else { first.min(time) };
                }
            }
            if kept < count {
                whole_from = whole_from.max(first);
            }
        }
        // Before that a lane is silent: its threads would seem to do what another lane said of them last.
        let all = read.events.len();
        read.events.retain(|event| event.time >= whole_from);
        read.lost += (all - read.events.len()) as u64;
        read.events.sort_by_key(|event| event.time);
        Some(read)
    }

    fn field(&self, number: usize) -> u64 {
        word(self.bytes, number * 8).unwrap_or(0)
    }

    /// The names that records were given, with the time.
    fn names(&self) -> HashMap<u64, Vec<(u64, &'a str)>> {
        let start = self.layout.names();
        let count = word(self.bytes, start).unwrap_or(0).min(NAMES as u64) as usize;
        let mut names: HashMap<u64, Vec<(u64, &str)>> = HashMap::new();
        for at in (0..count).map(|number| start + PAGE + number * LINE) {
            if let (Some(record), Some(time)) = (word(self.bytes, at), word(self.bytes, at + 8))
                && let Some(name) = text(self.bytes, at + 16, LINE - 16)
            {
                names.entry(record).or_default().push((time, name));
            }
        }
        names
    }
}

/// A text as JSON has it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => _ = write!(out, "\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out + "\""
}

/// Microseconds, to the nanosecond.
fn time(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000)
}

/// A processor's number among the tracks, which is above zero.
fn track(place: PoolAndProcessor) -> u32 {
    place.0 * 10_000 + place.1 + 1
}

fn name_of(place: PoolAndProcessor) -> String {
    if place.0 == 0 { format!("processor {}", place.1) } else { format!("pool {} processor {}", place.0, place.1) }
}

struct Writer<W: Write> {
    out: W,
    arrows: u64,
}

impl<W: Write> Writer<W> {
    fn metadata(&mut self, what: &str, group: u32, track: u32, arguments: &str) -> io::Result<()> {
        writeln!(
            self.out,
            "{{\"ph\":\"M\",\"name\":\"{what}\",\"pid\":{group},\"tid\":{track},\"args\":{{{arguments}}}}},"
        )
    }

    fn span(&mut self, group: u32, track: u32, name: &str, times: (u64, u64), arguments: &str) -> io::Result<()> {
        // A nanosecond less: a reader that adds start and length in floating point must not find the next span in it.
        let (from, length) = (time(times.0), time((times.1 - times.0).saturating_sub(1).max(1)));
        writeln!(
            self.out,
            "{{\"ph\":\"X\",\"name\":{},\"pid\":{group},\"tid\":{track},\"ts\":{from},\"dur\":{length},\"args\":{{{arguments}}}}},",
            quoted(name)
        )
    }

    /// From who woke to who was woken, and ran then.
    fn arrow(&mut self, from: (u32, u64), to: (u32, u64)) -> io::Result<()> {
        self.arrows += 1;
        for (phase, (track, at)) in [("\"s\"", from), ("\"f\",\"bp\":\"e\"", to)] {
            let (id, at) = (self.arrows, time(at));
            writeln!(
                self.out,
                "{{\"ph\":{phase},\"name\":\"wakes\",\"cat\":\"wakes\",\"id\":{id},\"pid\":{THREADS},\"tid\":{track},\"ts\":{at}}},"
            )?;
        }
        Ok(())
    }
}

/// Reads the one, writes the other, which appears when it is whole.
pub(super) fn convert(raw: &Path, into: &Path) -> io::Result<()> {
    let bytes = std::fs::read(raw)?;
    let unfit = || io::Error::new(io::ErrorKind::InvalidData, "it is no trace of raddle's");
    let read = Read::new(&bytes).ok_or_else(unfit)?;
    let new = super::with_end(into, ".new");
    let _ = std::fs::remove_file(&new);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let mut out = BufWriter::new(crate::os::own_writes::Own(file));
    write(&read, &mut out).and_then(|()| out.flush()).inspect_err(|_| drop(std::fs::remove_file(&new)))?;
    std::fs::rename(&new, into)
}

fn write(read: &Read<'_>, out: &mut impl Write) -> io::Result<()> {
    let begin = read.field(head::NOW);
    let program = text(read.bytes, head::NAME * 8, LINE).unwrap_or("?");
    writeln!(
        out,
        "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"program\":{},\"process\":{},\"begun_ns_since_1970\":{},\"events\":{},\
         \"earlier_events_overwritten\":{}}},\"traceEvents\":[",
        quoted(program),
        read.field(head::PROCESS),
        read.field(head::DATE),
        read.events.len(),
        read.lost,
    )?;
    let mut writer = Writer { out, arrows: 0 };
    let (mut story, mut failed) = (Story::default(), Ok(()));
    // Names come later than the spans of the threads that have them: so all is heard twice.
    read.events.iter().for_each(|event| story.hear(*event, &mut |_| {}));
    let names = names_of(&story, read);
    story = Story::default();
    let mut tell = |told: Told<'_>| {
        if failed.is_ok() {
            failed = put(&mut writer, begin, &names, &told);
        }
    };
    for event in &read.events {
        story.hear(*event, &mut tell);
    }
    story.over(read.events.last().map_or(begin, |event| event.time), &mut tell);
    failed?;
    let title = format!("\"name\":{}", quoted(&format!("{program}: processors")));
    writer.metadata("process_name", PROCESSORS, 0, &title)?;
    let title = format!("\"name\":{}", quoted(&format!("{program}: threads")));
    writer.metadata("process_name", THREADS, 0, &title)?;
    for &place in &story.places {
        writer.metadata("thread_name", PROCESSORS, track(place), &format!("\"name\":\"{}\"", name_of(place)))?;
        writer.metadata("thread_sort_index", PROCESSORS, track(place), &format!("\"sort_index\":{}", track(place)))?;
    }
    for (number, name) in names.iter().enumerate() {
        let track = number as u32 + 1;
        writer.metadata("thread_name", THREADS, track, &format!("\"name\":{}", quoted(name)))?;
        writer.metadata("thread_sort_index", THREADS, track, &format!("\"sort_index\":{track}"))?;
    }
    // The last element has no comma.
    writeln!(
        writer.out,
        "{{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":{PROCESSORS},\"tid\":0,\"args\":{{\"sort_index\":0}}}}\n]}}"
    )
}

/// What each thread is called, by its number.
fn names_of(story: &Story, read: &Read<'_>) -> Vec<String> {
    let names = read.names();
    let mut lives: HashMap<u64, Vec<usize>> = HashMap::new();
    story.threads.iter().enumerate().for_each(|(number, known)| lives.entry(known.record).or_default().push(number));
    let name = |(number, known): (usize, &Known)| {
        // Its last name, before the record's next thread.
        let next = lives[&known.record].iter().find(|&&other| other > number).map(|&next| story.threads[next].from);
        // A thread is named a moment before it is spawned.
        let first = lives[&known.record].first() == Some(&number);
        let given = names.get(&known.record).map_or(&[][..], Vec::as_slice).iter();
        let mut own = given.filter(|(at, _)| (first || *at >= known.from) && next.is_none_or(|next| *at < next));
        own.next_back().map_or_else(|| format!("thread {number}"), |(_, name)| format!("{name} ({number})"))
    };
    story.threads.iter().enumerate().map(name).collect()
}

fn put(writer: &mut Writer<impl Write>, begin: u64, names: &[String], told: &Told<'_>) -> io::Result<()> {
    let since = |at: u64| at.saturating_sub(begin);
    match *told {
        Told::Span { thread, state, from, to, left } => {
            let track_of_thread = thread as u32 + 1;
            let times = (since(from), since(to));
            match state {
                State::Runs(place) => {
                    let left = if left.is_empty() { "the trace ends" } else { left };
                    let why = format!("\"until\":{}", quoted(left));
                    let number = format!("\"thread\":{thread},{why}");
                    writer.span(PROCESSORS, track(place), &names[thread], times, &number)?;
                    let on = format!("\"on\":\"{}\",{why}", name_of(place));
                    writer.span(THREADS, track_of_thread, "runs", times, &on)
                }
                State::Ready => writer.span(THREADS, track_of_thread, "ready", times, ""),
                State::Waits(what) => writer.span(THREADS, track_of_thread, &format!("waits for {what}"), times, ""),
                State::Without(what) => writer.span(THREADS, track_of_thread, what, times, ""),
            }
        }
        Told::Woke { by, at, thread, ran } => writer.arrow((by as u32 + 1, since(at)), (thread as u32 + 1, since(ran))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_times_are_as_json_has_them() {
        assert_eq!(quoted("a \"b\"\\\n"), "\"a \\\"b\\\"\\\\\\u000a\"");
        assert_eq!((time(1_234_567).as_str(), time(5).as_str()), ("1234.567", "0.005"));
    }

    #[test]
    fn nothing_is_said_of_a_time_of_which_a_lane_has_lost_its_events() {
        let layout = Layout { lanes: 3, events: 2 };
        let mut bytes = vec![0; layout.size()];
        let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        for (field, value) in [(head::MAGIC, MAGIC), (head::VERSION, VERSION), (head::LANES, 3), (head::EVENTS, 2)] {
            put(field * 8, value);
        }
        // The second lane has lost three; the others have all that they were given.
        for (lane, count, times) in [(0, 2, [5, 60]), (1, 5, [50, 40]), (2, 1, [30, 0])] {
            put(Layout::CURSORS + lane * LINE, count);
            for (place, time) in times.into_iter().enumerate() {
                put(layout.lane(lane) + place * EVENT, time);
                put(layout.lane(lane) + place * EVENT + 8, crate::lanes::Kind::Ready as u64);
            }
        }
        let read = Read::new(&bytes).unwrap();
        assert_eq!(read.events.iter().map(|event| event.time).collect::<Vec<_>>(), [40, 50, 60]);
        assert_eq!(read.lost, 5);
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        let folder = std::env::temp_dir();
        let path = folder.join(format!("raddle-no-trace-{}", std::process::id()));
        for bytes in [&b"short"[..], &[7; 10_000]] {
            std::fs::write(&path, bytes).unwrap();
            assert!(convert(&path, &folder.join("unused")).is_err() && process_of(&path).is_none());
        }
        std::fs::remove_file(path).unwrap();
    }
}
