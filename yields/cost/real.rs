//! Rust's standard library, a JSON parser and a regex engine at work: cost.sh counts their instructions with and
//! without checks. The first argument names the work; any other one only makes the numbers. The second one says how
//! often.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

fn numbers(count: usize) -> Vec<u32> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12345);
        state >> 8
    };
    (0..count).map(|_| next()).collect()
}

fn main() {
    let work = std::env::args().nth(1).unwrap_or_default();
    let times = std::env::args().nth(2).and_then(|times| times.parse().ok()).unwrap_or(1);
    (0..times).for_each(|_: u32| run(&work));
}

/// A function of its own, so that no loop is round all.
#[inline(never)]
fn run(work: &str) {
    let all = numbers(40_000);
    let mut text = String::new();
    for one in &all[..8000] {
        write!(text, "word{one} größe {} ", one % 97).unwrap();
    }
    let json = {
        let rows: Vec<String> =
            all[..4000].iter().map(|n| format!("{{\"id\":{n},\"name\":\"x\\ny{n}\",\"c\":[1,2.5,{{\"d\":-{n}}}]}}")).collect();
        format!("[{}]", rows.join(","))
    };
    let sum: usize = match work {
        "std_sort" => {
            let mut sorted = all.clone();
            sorted.sort();
            sorted[1000] as usize
        }
        "std_sort_unstable" => {
            let mut sorted = all.clone();
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            sorted[1000] as usize
        }
        "std_hash" => {
            let mut counts = HashMap::<String, usize, std::hash::BuildHasherDefault<std::hash::DefaultHasher>>::default();
            for word in text.split(' ') {
                *counts.entry(word.to_owned()).or_default() += 1;
            }
            counts.len()
        }
        "std_btree" => {
            let mut counts = BTreeMap::new();
            for one in &all {
                *counts.entry(one % 5000).or_insert(0) += 1;
            }
            counts.values().max().copied().unwrap_or(0)
        }
        "std_format" => all.iter().map(|n| format!("{n:>12} {:#x} {:.3}", n, f64::from(*n) / 7.0).len()).sum(),
        "std_chars" => text.chars().filter(|c| c.is_alphabetic()).count() + text.to_uppercase().len(),
        "std_find" => (0..100).filter_map(|n| text.find(&format!("word{}x", all[n]))).sum::<usize>() + text.matches("größe 7").count(),
        "memchr" => {
            let bytes = std::hint::black_box(text.as_bytes());
            let lines = |byte| memchr::memchr_iter(byte, bytes).count();
            (b'0'..=b'z').map(lines).sum::<usize>() + memchr::memmem::find_iter(bytes, "größe 9").count()
        }
        "serde_parse" => {
            let value: serde_json::Value = serde_json::from_str(&json).unwrap();
            value[7]["c"][2]["d"].as_i64().unwrap().unsigned_abs() as usize
        }
        "serde_write" => {
            let value: serde_json::Value = serde_json::from_str(&json).unwrap();
            (0..10).map(|_| serde_json::to_string(&value).unwrap().len()).sum()
        }
        "regex_words" => regex::Regex::new(r"([a-z]+)([0-9]+)7\b").unwrap().captures_iter(&text).map(|c| c[2].len()).sum(),
        "regex_either" => regex::Regex::new(r"größe (1|3|55)|word[^ ]*99").unwrap().find_iter(&text).count(),
        _ => 0,
    };
    println!("{sum} {} {}", text.len(), json.len());
}
