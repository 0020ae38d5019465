//! What things cost on a simulated machine.
//!
//! A machine is a set of equal cores in nested clusters. Each word lies on a cache line; a line is somewhere: with the
//! core that wrote it last, shared by those that read it since, or in memory. Costs are nanoseconds, fractions allowed;
//! they may be read from a JSON file with the keys of [`Costs`], of which those that are absent have the values of
//! `base` (a preset's name).
//!
//! # Example
//! ```
//! use raddle_sim::cost::Costs;
//! let costs = Costs::from_json(r#"{ "base": "epyc", "name": "mine", "spin": 20 }"#).unwrap();
//! assert_eq!((costs.spin, costs.cores), (20.0, 128));
//! let error = Costs::from_json(r#"{ "spin": -1 }"#).unwrap_err();
//! assert!(error.contains("`spin`"), "{error}");
//! ```

use serde_json::{Value, json};

/// The largest number of cores that a file may name.
const MOST: usize = 4096;

/// One ring of clusters: what it costs to fetch a line from a core of the same cluster of this size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Cores in a cluster.
    pub cores: usize,
    /// Nanoseconds.
    pub transfer: f64,
}

/// What things cost, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// What the machine is called.
    pub name: String,
    /// Where the figures come from.
    pub source: String,
    /// How many cores it really has.
    pub cores: usize,
    /// False: nothing is cached, and each access goes to the module of the core that used the line first.
    pub cached: bool,
    /// The instructions around one access.
    pub step: f64,
    /// An access to a line that the core holds.
    pub hit: f64,
    /// In addition, a read-modify-write.
    pub exchange: f64,
    /// Without caches: how much of a read-modify-write's store its core does not wait for, 1 for all of it. The module
    /// is busy all the same.
    pub posted: f64,
    /// How much of what follows a read-modify-write passes while that is still under way: nothing where it is a barrier
    /// for all that follows.
    pub behind: f64,
    /// From a store until it is in the cache, for which the core's next read-modify-write or fence waits.
    pub commit: f64,
    /// A line that nobody holds.
    pub memory: f64,
    /// From the smallest clusters to the whole machine.
    pub levels: Vec<Level>,
    /// Without caches: how much of an access, from its beginning, takes each bus and ring that it crosses: 0 none, so
    /// that only modules are waited for, 1 to its end. What the clusters of a level share is one such path.
    pub paths: f64,
    /// The share of a transfer during which others that only read the same line wait too.
    pub read_occupancy: f64,
    /// A sequentially consistent fence.
    pub fence: f64,
    /// The dear side of an asymmetric fence, while other cores run.
    pub heavy_fence: f64,
    /// The same while all others sleep, when nobody has to be interrupted.
    pub heavy_fence_alone: f64,
    /// What such a fence costs each core that it interrupts.
    pub interruption: f64,
    /// A spin hint.
    pub spin: f64,
    /// Going to sleep in the kernel.
    pub sleep: f64,
    /// The call that wakes a sleeper, for its caller.
    pub wake: f64,
    /// From that call to the sleeper's first instruction.
    pub wake_latency: f64,
    /// A switch between lightweight threads.
    pub switch: f64,
    /// Making a thread, and ending it.
    pub spawn: f64,
    /// Making a thread ready that waits, beyond the accesses to its queue: nothing in a library, a system call where
    /// the kernel schedules.
    pub ready: f64,
    /// In addition, one that begins on a stack of its own, not where another one has just ended.
    pub start: f64,
    /// How many lines of a bulk copy are under way at once.
    pub overlap: f64,
    /// In which the memory of the whole machine delivers a line, however many cores ask for one; 0: without a limit.
    pub stream: f64,
    /// How many times as long what a core does by itself takes while another core is awake, too: processors that share
    /// a core, or its power.
    pub together: f64,
}

type Number = (&'static str, fn(&mut Costs) -> &mut f64);

const NUMBERS: [Number; 24] = [
    ("step", |c| &mut c.step),
    ("hit", |c| &mut c.hit),
    ("exchange", |c| &mut c.exchange),
    ("posted", |c| &mut c.posted),
    ("behind", |c| &mut c.behind),
    ("commit", |c| &mut c.commit),
    ("memory", |c| &mut c.memory),
    ("paths", |c| &mut c.paths),
    ("read_occupancy", |c| &mut c.read_occupancy),
    ("fence", |c| &mut c.fence),
    ("heavy_fence", |c| &mut c.heavy_fence),
    ("heavy_fence_alone", |c| &mut c.heavy_fence_alone),
    ("interruption", |c| &mut c.interruption),
    ("spin", |c| &mut c.spin),
    ("sleep", |c| &mut c.sleep),
    ("wake", |c| &mut c.wake),
    ("wake_latency", |c| &mut c.wake_latency),
    ("switch", |c| &mut c.switch),
    ("spawn", |c| &mut c.spawn),
    ("ready", |c| &mut c.ready),
    ("start", |c| &mut c.start),
    ("overlap", |c| &mut c.overlap),
    ("stream", |c| &mut c.stream),
    ("together", |c| &mut c.together),
];

/// The names of the presets.
pub const PRESETS: [&str; 7] = ["host", "epyc", "opteron", "xeon500", "supersparc", "hector", "firefly"];

/// Nanoseconds by which the preset `firefly` is fitted.
const FIREFLY_SWITCH_NS: f64 = 17_000.0;
const FIREFLY_SPAWN_NS: f64 = 11_300.0;
const FIREFLY_READY_NS: f64 = 1_700.0;

fn level(cores: usize, transfer: f64) -> Level {
    Level { cores, transfer }
}

impl Costs {
    /// A preset by name.
    pub fn preset(name: &str) -> Option<Self> {
        let host = Self::host();
        let costs = match name {
            "host" => host,
            // Two EPYC 7702 of the MSc report (1.2.1): 128 cores, four to a shared cache.
            "epyc" => Self {
                source:
                    "2 x AMD EPYC 7702, clusters of 4 cores and sockets of 64: transfers as core-to-core latencies of \
                         this family have been published, rounded; the kernel's costs as the host's"
                        .into(),
                cores: 128,
                levels: vec![level(4, 28.0), level(64, 110.0), level(usize::MAX, 230.0)],
                memory: 110.0,
                ..host
            },
            // Four Opteron 6380 at 2.5 GHz of the lock-free scheduler's paper (section 6): two dies of eight cores in
            // each.
            "opteron" => Self {
                source: "4 x AMD Opteron 6380 (Negele et al., section 6), modules of 2, dies of 8, sockets of 16: \
                         transfers are guesses after that family's L2, L3 and HyperTransport; memory of 100 GB/s, as its maker said \
                         of four of the generation before"
                    .into(),
                cores: 64,
                exchange: 16.0,
                levels: vec![level(2, 20.0), level(8, 50.0), level(16, 110.0), level(usize::MAX, 180.0)],
                memory: 90.0,
                stream: 0.64,
                switch: 14.0,
                ..host
            },
            "xeon500" => Self {
                source: "4 x Xeon at 500 MHz on one bus (Oguma and Nakayama, section 4): guesses".into(),
                cores: 4,
                levels: vec![level(usize::MAX, 300.0)],
                memory: 250.0,
                ..host.slower(5.0)
            },
            "supersparc" => Self {
                source: "8 x SuperSPARC at 40 MHz on one bus (Oguma and Nakayama, section 4): guesses".into(),
                cores: 8,
                levels: vec![level(usize::MAX, 1_200.0)],
                memory: 1_000.0,
                ..host.slower(60.0)
            },
            // 16 MC88100 at 16 MHz: 10, 19 and 23 cycles for a local, an on-station and a cross-ring access; a swap is
            // two.
            "hector" => Self {
                source: "Hector, 16 cores at 16 MHz in stations of 4, uncached: 10, 19 and 23 cycles (Unrau et al., \
                         section 4); a read-modify-write is two accesses, the core goes on after the first (section 4.1.1); the \
                         instructions round an access fitted to 5.40 µs for a pair of MCS, kernel guesses"
                    .into(),
                cores: 16,
                cached: false,
                hit: 625.0,
                levels: vec![level(1, 625.0), level(4, 1_187.5), level(usize::MAX, 1_437.5)],
                memory: 625.0,
                exchange: 0.0,
                posted: 1.0,
                step: 250.0,
                spin: 250.0,
                ..host.slower(150.0)
            },
            // Six CVAX on one bus: a procedure call takes 7 µs, a trap 19.
            "firefly" => Self {
                source: "DEC Firefly, 6 x CVAX on one bus (Anderson et al., section 2.1): making a thread and the switch fitted to 34 and 37 \
                         µs of FastThreads' Null Fork and Signal-Wait, the kernel's to a trap of 19 µs; the rest guesses"
                    .into(),
                cores: 6,
                levels: vec![level(usize::MAX, 1_500.0)],
                memory: 1_200.0,
                exchange: 1_000.0,
                spin: 20_000.0,
                sleep: 19_000.0,
                wake: 19_000.0,
                wake_latency: 100_000.0,
                switch: FIREFLY_SWITCH_NS,
                spawn: FIREFLY_SPAWN_NS,
                ready: FIREFLY_READY_NS,
                ..host.slower(200.0)
            },
            _ => return None,
        };
        Some(Self { name: name.into(), ..costs })
    }

    fn host() -> Self {
        Self {
            name: "host".into(),
            source: "2 virtual cores of a Xeon at 2.5 GHz: estimates from this project's own measurements".into(),
            cores: 2,
            cached: true,
            step: 1.0,
            hit: 0.5,
            exchange: 6.0,
            posted: 0.0,
            behind: 0.0,
            commit: 4.0,
            memory: 90.0,
            levels: vec![level(usize::MAX, 60.0)],
            paths: 0.0,
            read_occupancy: 0.25,
            fence: 8.0,
            heavy_fence: 2_500.0,
            heavy_fence_alone: 2_500.0,
            interruption: 0.0,
            spin: 40.0,
            sleep: 1_200.0,
            wake: 1_500.0,
            wake_latency: 5_000.0,
            switch: 8.0,
            spawn: 40.0,
            ready: 0.0,
            start: 30.0,
            overlap: 8.0,
            stream: 0.0,
            together: 1.0,
        }
    }

    /// The same with everything that is the core's own, and the kernel's, so many times slower.
    fn slower(self, times: f64) -> Self {
        let Self {
            step,
            hit,
            exchange,
            behind,
            commit,
            fence,
            heavy_fence,
            spin,
            sleep,
            wake,
            wake_latency,
            switch,
            ..
        } = self;
        let heavy_fence_alone = self.heavy_fence_alone;
        let [step, hit, exchange, behind, commit, fence, spin] =
            [step, hit, exchange, behind, commit, fence, spin].map(|cost| cost * times);
        let [switch, spawn, start] = [switch, self.spawn, self.start].map(|cost| cost * times);
        // Kernels were smaller then.
        let [heavy_fence, heavy_fence_alone, sleep, wake, wake_latency] =
            [heavy_fence, heavy_fence_alone, sleep, wake, wake_latency].map(|cost| cost * (times / 3.0).max(1.0));
        let costs =
            Self { step, hit, exchange, behind, commit, fence, heavy_fence, spin, sleep, wake, wake_latency, ..self };
        Self { switch, spawn, start, heavy_fence_alone, ..costs }
    }

    /// A preset's name, or the text of a file.
    ///
    /// # Errors
    /// What is wrong with the text, and with which key.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|why| format!("not JSON: {why}"))?;
        let Value::Object(map) = value else { return Err("not an object with the costs as keys".into()) };
        let base = match map.get("base") {
            None => "host",
            Some(Value::String(name)) => name,
            Some(_) => return Err(format!("`base` names a preset: {}", PRESETS.join(", "))),
        };
        let unknown = || format!("`base`: there is no preset `{}`; there are {}", shown(base), PRESETS.join(", "));
        let mut costs = Self::preset(base).ok_or_else(unknown)?;
        costs.name = "file".into();
        costs.source = format!("a file, what is absent there as in `{base}`");
        for (key, value) in &map {
            costs.set(key, value)?;
        }
        Ok(costs)
    }

    /// As a file that [`Costs::from_json`] reads.
    pub fn to_json(&self) -> String {
        let mut costs = self.clone();
        let levels = self.levels.iter().map(|level| json!([level.cores.min(MOST), level.transfer]));
        let mut object = json!({
            "name": self.name, "source": self.source, "cores": self.cores, "cached": self.cached,
            "levels": levels.collect::<Vec<_>>(),
        });
        for (name, place) in NUMBERS {
            object[name] = json!(*place(&mut costs));
        }
        format!("{object:#}\n")
    }

    fn set(&mut self, key: &str, value: &Value) -> Result<(), String> {
        match key {
            "base" => {}
            "name" => self.name = text(key, value)?,
            "source" => self.source = text(key, value)?,
            "cores" => self.cores = size(key, value)?,
            "cached" => self.cached = value.as_bool().ok_or("`cached` is true or false")?,
            "levels" => self.levels = read_levels(value)?,
            key => {
                let Some((_, place)) = NUMBERS.iter().find(|(name, _)| *name == key) else {
                    let names: Vec<&str> = NUMBERS.iter().map(|(name, _)| *name).collect();
                    let known = names.join(", ");
                    return Err(format!(
                        "`{}` is no cost; there are base, name, source, cores, cached, levels, {known}",
                        shown(key)
                    ));
                };
                *place(self) = number(key, value)?;
            }
        }
        Ok(())
    }

    /// What it costs core `a` to fetch a line from core `b`.
    pub fn transfer(&self, a: usize, b: usize) -> f64 {
        self.levels[self.level(a, b)].transfer
    }

    /// The number of the smallest cluster that has both, from 0.
    pub fn level(&self, a: usize, b: usize) -> usize {
        let last = self.levels.len() - 1;
        self.levels.iter().position(|level| a / level.cores == b / level.cores).unwrap_or(last)
    }
}

fn text(key: &str, value: &Value) -> Result<String, String> {
    value.as_str().map(shown).ok_or_else(|| format!("`{key}` is a text"))
}

/// As a terminal may have it: it obeys control characters.
fn shown(text: &str) -> String {
    let one = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(one).collect()
}

fn size(key: &str, value: &Value) -> Result<usize, String> {
    let number = value.as_u64().filter(|&number| (1..=MOST as u64).contains(&number));
    number.map(|number| number as usize).ok_or_else(|| format!("`{key}` is a number from 1 to {MOST}, not {value}"))
}

fn number(key: &str, value: &Value) -> Result<f64, String> {
    let number = value.as_f64().filter(|number| (0.0..=1e9).contains(number));
    let least = if ["overlap", "together"].contains(&key) { 1 } else { 0 };
    let number = number.filter(|&number| number >= f64::from(least));
    number.ok_or_else(|| format!("`{key}` is a number from {least} to 1e9, not {value}"))
}

fn read_levels(value: &Value) -> Result<Vec<Level>, String> {
    const SHAPE: &str =
        "`levels` is a list of [cores, nanoseconds], the clusters growing, the last one for the whole machine";
    let list = value.as_array().filter(|list| !list.is_empty()).ok_or(SHAPE)?;
    let mut levels: Vec<Level> = Vec::new();
    for pair in list {
        let [cores, transfer] = pair.as_array().map(Vec::as_slice).ok_or(SHAPE)? else { return Err(SHAPE.into()) };
        let level = level(size("levels", cores)?, number("levels", transfer)?);
        if levels
            .last()
            .is_some_and(|smaller| level.cores <= smaller.cores || !level.cores.is_multiple_of(smaller.cores))
        {
            return Err(format!("`levels`: {} cores are not several times the cluster before", level.cores));
        }
        levels.push(level);
    }
    if let Some(last) = levels.last_mut() {
        last.cores = usize::MAX;
    }
    Ok(levels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_there_and_says_where_it_comes_from() {
        for name in PRESETS {
            let costs = Costs::preset(name).unwrap();
            assert!(costs.name == name && costs.source.len() > 20 && costs.levels.last().unwrap().cores == usize::MAX);
        }
        assert_eq!(Costs::preset("vax"), None);
    }

    #[test]
    fn distance_is_the_smallest_cluster_with_both() {
        let epyc = Costs::preset("epyc").unwrap();
        assert_eq!([epyc.level(0, 3), epyc.level(3, 4), epyc.level(63, 64), epyc.level(7, 5)], [0, 1, 2, 0]);
    }

    #[test]
    fn a_file_s_texts_cannot_command_the_terminal() {
        let escape = r#"\u001b]0;x\u0007"#;
        let costs = Costs::from_json(&format!("{{\"name\": \"a{escape}\", \"source\": \"b\\nc é\"}}")).unwrap();
        assert_eq!((costs.name.as_str(), costs.source.as_str()), (r"a\u{1b}]0;x\u{7}", r"b\nc é"));
        for text in [format!("{{\"{escape}\": 1}}"), format!("{{\"base\": \"{escape}\"}}")] {
            assert!(!Costs::from_json(&text).unwrap_err().contains(char::is_control), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_file_is_named() {
        for (text, named) in [
            ("{", "not JSON"),
            ("[]", "not an object"),
            ("{\"base\": \"vax\"}", "no preset `vax`"),
            ("{\"hits\": 3}", "`hits` is no cost"),
            ("{\"hit\": \"3\"}", "`hit`"),
            ("{\"hit\": -3}", "`hit`"),
            ("{\"hit\": 1e300}", "`hit`"),
            ("{\"overlap\": 0}", "`overlap`"),
            ("{\"together\": 0.5}", "`together`"),
            ("{\"cores\": 0}", "`cores`"),
            ("{\"levels\": []}", "`levels`"),
            ("{\"levels\": [[4, 30], [6, 90]]}", "`levels`: 6 cores"),
            ("{\"levels\": [4, 30]}", "`levels`"),
            ("{\"cached\": 1}", "`cached`"),
        ] {
            let error = Costs::from_json(text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
        let costs = Costs::from_json("{\"levels\": [[4, 30], [8, 90]], \"cores\": 16}").unwrap();
        assert_eq!((costs.transfer(0, 3), costs.transfer(0, 15)), (30.0, 90.0));
    }
}
