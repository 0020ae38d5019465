//! How the library comes up in a program that does not know of it.
//!
//! The constructor runs before the program's own: it reads the settings that `raddle run` left in the environment, and
//! takes itself out of the environment, so that the programs which this one starts are native ([`CHILDREN`] keeps it
//! in); the program that this process becomes by `exec` gets both back ([`exec`]). It starts nothing. The runtime
//! begins with the first thread that the program makes ([`lightweight`]), or with `main` where that is to run on one,
//! too; a program that never makes one otherwise pays for the constructor only.

use crate::os::c;
use crate::process::exec;
use crate::process::preempt::{self, Preempt};
use crate::quantum::Quanta;
use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::OnceLock;
use words::variable;

mod words;

/// Set to 1, the programs that this one starts are taken over too.
const CHILDREN: &CStr = c"RADDLE_CHILDREN";
/// Set to 1, `main` runs on a lightweight thread, too.
const MAIN: &CStr = c"RADDLE_MAIN";
/// Set to 1, no remarks are made.
const QUIET: &CStr = c"RADDLE_QUIET";
/// Microseconds that a thread with quantum checks runs before it gives way to others of its priority.
const QUANTUM: &CStr = c"RADDLE_QUANTUM";
/// `never`, `yields` or `timer`: when threads give way that do not wait.
const PREEMPT: &CStr = c"RADDLE_PREEMPT";
/// The process that `raddle run` became.
const FIRST: &CStr = c"RADDLE_RUN";
const PRELOAD: &CStr = c"LD_PRELOAD";
/// Where `raddle run` asks glibc's malloc for a larger cache.
const TUNABLES: &CStr = c"GLIBC_TUNABLES";
/// What it has put in there: the user's own part, then ours, after a colon if there is any before it.
const TUNABLES_PUT_IN: &CStr = c"RADDLE_TUNABLES";

/// What the environment said when the process began; the program may change it later.
pub(crate) struct Settings {
    pub pool: raddle::drop_in::Settings,
    /// `text` or `json`: print counters at the end.
    pub stats: Option<String>,
    /// Where what the runtime does is written, again and again.
    pub metrics: Option<String>,
    /// Where a trace is written, and how many events of each processor are kept.
    pub trace: Option<(String, usize)>,
    /// The signal at which all threads are dumped.
    pub dump_on: Option<c_int>,
    /// Where to print them: a copy of standard error, which the program may close before it ends.
    pub output: c_int,
    pub children: bool,
    /// `main` runs on a lightweight thread.
    pub main: bool,
    /// Of threads with quantum checks.
    pub quantum: Quanta,
    pub preempt: Preempt,
    /// The process that `raddle run` became; none where the library came in otherwise.
    pub first: Option<u32>,
    /// The process that read this: a fork of it is another.
    pub pid: u32,
}

impl Settings {
    /// They were meant for another process, which became a program that did not take them out (a static one), and made
    /// this one: a child, so native.
    fn is_of_another_process(&self) -> bool {
        !self.children && self.first.is_some_and(|first| first != self.pid)
    }
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// The settings, read now if no constructor has.
pub(crate) fn settings() -> &'static Settings {
    SETTINGS.get_or_init(|| Settings {
        pool: raddle::drop_in::Settings::read(words::of_pool),
        stats: words::form_of_stats(),
        metrics: variable(c"RADDLE_METRICS").filter(|path| !path.is_empty()),
        trace: variable(c"RADDLE_TRACE").filter(|path| !path.is_empty()).map(|path| (path, words::events_of_trace())),
        dump_on: words::signal_of_dump(),
        output: if variable(c"RADDLE_STATS").is_some() { copy_of_errors() } else { 2 },
        children: words::is_on(CHILDREN),
        main: words::is_on(MAIN),
        quantum: quantum(variable(QUANTUM)),
        preempt: Preempt::read(variable(PREEMPT).as_deref()),
        first: variable(FIRST).and_then(|value| value.parse().ok()),
        pid: std::process::id(),
    })
}

/// What the variable says, in microseconds.
fn quantum(text: Option<String>) -> Quanta {
    let text = text.unwrap_or_else(|| crate::quantum::QUANTUM_MICROSECONDS.to_string());
    Quanta::read(&text).unwrap_or_else(|| {
        let line = format!(
            "raddle: RADDLE_QUANTUM is `{text}`, not a number of microseconds up to {}, nor one for each priority: {} is taken\n",
            crate::quantum::LONGEST_MICROSECONDS,
            crate::quantum::QUANTUM_MICROSECONDS
        );
        crate::os::say(&CString::new(line).unwrap_or_default());
        quantum(None)
    })
}

/// A descriptor for standard error that the program does not know of, far from those that it counts on.
fn copy_of_errors() -> c_int {
    // SAFETY: makes a descriptor, or an error.
    let copy = unsafe { crate::os::system_call(c::SYS_fcntl, [2, c::F_DUPFD_CLOEXEC as usize, 200, 0, 0, 0]) };
    if copy < 0 { 2 } else { copy as c_int }
}

/// The loader calls this when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = constructor;

extern "C" fn constructor(_: c_int, _: *const *const c_char, _: *const *const c_char) {
    crate::process::step_aside::at_begin();
    // The program begins with what it would find without this library.
    let errno = crate::os::errno();
    crate::process::fork::count_forks();
    crate::process::kernel_waits::prepare_notes();
    let settings = settings();
    words::tell_misspelt();
    if settings.stats.is_some() || settings.trace.is_some() {
        // SAFETY: the function takes nothing and does not unwind. Registered before the program's own: it runs after
        // those.
        unsafe { c::atexit(at_exit) };
    }
    if let Some(own) = own_path() {
        let is_preloaded = || settings.first.is_none() && !settings.children && in_list(&own).is_some();
        if settings.first == Some(settings.pid) || is_preloaded() {
            keep(settings, &own);
        }
        if !settings.children {
            leave_environment(&own);
        }
    }
    crate::os::set_errno(errno);
}

extern "C" fn at_exit() {
    crate::stats::finish_trace(settings());
    if settings().stats.is_some() {
        crate::stats::report(settings());
    }
}

/// What `raddle run` sets beside the library.
const NAMES: [&CStr; 17] = [
    c"RADDLE_TRACE",
    c"RADDLE_TRACE_EVENTS",
    c"RADDLE_DUMP_ON",
    c"RADDLE_METRICS",
    c"RADDLE_PROCESSORS",
    c"RADDLE_POLICY",
    c"RADDLE_ALL_PROCESSORS",
    c"RADDLE_EVENT_LOOPS",
    c"RADDLE_DIRECT_SENDS",
    c"RADDLE_STATS",
    QUIET,
    CHILDREN,
    MAIN,
    FIRST,
    QUANTUM,
    PREEMPT,
    TUNABLES_PUT_IN,
];

/// Keeps the library and the settings for what this process may become.
fn keep(settings: &Settings, own: &str) {
    let setting = |name: &&CStr| CString::new([name.to_bytes(), b"=", variable(name)?.as_bytes()].concat()).ok();
    let tunables = users_tunables();
    let put_in = tunables.as_ref().and(Some(&TUNABLES));
    // Without `raddle run` the process is the first one all the same.
    let first = settings.first.is_none().then(|| CString::new(format!("RADDLE_RUN={}", settings.pid)).ok()).flatten();
    exec::keep(exec::Kept {
        library: CString::new(own).unwrap_or_default(),
        settings: NAMES.iter().chain(put_in).filter_map(setting).chain(first).collect(),
        replaced: tunables.and_then(|users| CString::new(format!("GLIBC_TUNABLES={users}")).ok()),
        process: settings.pid,
        quiet: variable(QUIET).is_some_and(|value| value == "1"),
    });
}

/// The user's part of [`TUNABLES`], empty if there is none, where they are still what `raddle run` has put in.
fn users_tunables() -> Option<String> {
    let put_in = variable(TUNABLES_PUT_IN).filter(|put_in| variable(TUNABLES).as_ref() == Some(put_in))?;
    Some(put_in.rsplit_once(':').map_or(String::new(), |(users, _)| users.into()))
}

/// Takes this library out of `LD_PRELOAD`, and what `raddle run` set with it.
fn leave_environment(own: &str) {
    let Some(rest) = in_list(own) else { return };
    let rest = CString::new(rest).unwrap_or_default();
    // SAFETY: C strings; at start no other thread reads the environment.
    unsafe {
        if rest.is_empty() {
            c::unsetenv(PRELOAD.as_ptr());
        } else {
            c::setenv(PRELOAD.as_ptr(), rest.as_ptr(), 1);
        }
        match users_tunables().map(|users| CString::new(users).unwrap_or_default()) {
            Some(users) if users.is_empty() => _ = c::unsetenv(TUNABLES.as_ptr()),
            Some(users) => _ = c::setenv(TUNABLES.as_ptr(), users.as_ptr(), 1),
            None => {}
        }
        for name in NAMES {
            c::unsetenv(name.as_ptr());
        }
    }
}

/// The others of `LD_PRELOAD`, if this library is there.
fn in_list(own: &str) -> Option<String> {
    let list = variable(PRELOAD)?;
    let all = || list.split([':', ' ']).filter(|path| !path.is_empty());
    let rest: Vec<&str> = all().filter(|path| !same_file(path, own)).collect();
    (rest.len() < all().count()).then(|| rest.join(":"))
}

/// A name without a folder is looked for by the loader, in the library's own folder among others.
fn same_file(path: &str, own: &str) -> bool {
    let own = std::path::Path::new(own);
    let is_name = || !path.contains('/') && own.file_name().is_some_and(|name| name == path);
    own == std::path::Path::new(path) || is_name() || std::fs::canonicalize(path).is_ok_and(|path| path == own)
}

/// Where the loader found this library; none when it is part of the program.
fn own_path() -> Option<String> {
    // SAFETY: zeroes are a valid Dl_info; the address is this library's, and the answer a C string that lives as long
    // as the library.
    let name = unsafe {
        let mut found: c::Dl_info = std::mem::zeroed();
        if c::dladdr(constructor as *const std::ffi::c_void, &mut found) == 0 || found.dli_fname.is_null() {
            return None;
        }
        CStr::from_ptr(found.dli_fname).to_string_lossy().into_owned()
    };
    // A file in memory, which `raddle run` makes where no folder is to be had, has no other path than that of its
    // descriptor.
    Some(std::fs::canonicalize(&name).map_or(name, |path| path.to_string_lossy().into_owned()))
}

/// Where address space is limited, malloc has fewer arenas: each kernel thread would take 64 MiB for one of its own.
fn spare_address_space() {
    let asked = variable(c"MALLOC_ARENA_MAX").is_some()
        || variable(TUNABLES).is_some_and(|tunables| tunables.contains("malloc.arena_max"));
    // SAFETY: zeroes are a valid limit, which is written to.
    let limit = unsafe {
        let mut limit: c::rlimit = std::mem::zeroed();
        (c::getrlimit(c::RLIMIT_AS, &mut limit) == 0).then_some(limit.rlim_cur)
    };
    if let Some(limit) = limit.filter(|&limit| limit < ROOMY && !asked) {
        // SAFETY: one for each gigabyte.
        unsafe { c::mallopt(c::M_ARENA_MAX, (limit >> 30).max(1) as c_int) };
    }
}

/// Bytes of address space from which on malloc's arenas do not count.
const ROOMY: u64 = 1 << 36;

/// Whether threads that the program creates are lightweight. The first call starts the runtime. Where it cannot be
/// started, a line on standard error says why, and every call goes on to the C library from then on.
pub(crate) fn lightweight() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    if let Some(placed) = crate::c_interface::lightweight() {
        return placed;
    }
    *ANSWER.get_or_init(|| {
        // Its errors mean nothing to the program.
        let before = crate::os::errno();
        let _restored = crate::thread::undo::Undo::new(move || crate::os::set_errno(before));
        let settings = settings();
        if settings.is_of_another_process() {
            return false;
        }
        if let Some(sanitizer) = crate::os::sanitizer() {
            let sanitizer = sanitizer.to_string_lossy();
            let line = format!("raddle: this program is built with {sanitizer}: its threads are kernel threads\n");
            crate::os::say(&CString::new(line).unwrap_or_default());
            return false;
        }
        crate::os::find_all();
        spare_address_space();
        crate::process::signals::prepare_kernel_threads();
        if settings.stats.is_some() || settings.metrics.is_some() {
            raddle::info::sample_delays(true);
            crate::quantum::gaps::measure();
        }
        crate::quantum::begin();
        raddle::drop_in::on_fault(crate::process::take_fault);
        let started = raddle::drop_in::start(&settings.pool).unwrap_or_else(|error| {
            let line = format!("raddle: {error}\nraddle: the threads of this program are kernel threads\n");
            crate::os::say(&CString::new(line).unwrap_or_default());
            false
        });
        if started && let Some(signal) = settings.dump_on {
            crate::process::dump_signal::catch(signal);
        }
        if started {
            preempt::begin(settings.preempt, settings.quantum.shortest());
        }
        if started && let Some((path, events)) = &settings.trace {
            crate::stats::begin_trace(settings, path, *events);
        }
        if started && let Some(path) = &settings.metrics {
            crate::stats::publish(path);
        }
        started
    })
}
