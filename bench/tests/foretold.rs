//! What a bench foretells is what the kept results took.
#![forbid(unsafe_code)]

use raddle_bench::catalogue::{self, Case};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// A share may be off by so much: results are added now and then.
const FACTOR: f64 = 1.5;

/// The case of a row, and how many seconds its repetition took in the median; `None` for arguments that are no more.
fn measured(row: &Value) -> Option<(Case, f64)> {
    let seconds = row["ns_median"].as_f64()? * row["ops"].as_f64()? * 1e-9;
    let workload = catalogue::find(row["workload"].as_str()?).ok()?;
    let item = row["args"].as_str()?.replace(' ', ":");
    let cases = catalogue::cases(workload, &[item], row["processors"].as_u64()? as usize).ok()?;
    Some((cases.into_iter().next()?, seconds))
}

#[test]
fn the_shares_are_those_of_the_kept_results() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    // They are not in the package.
    let Ok(folders) = std::fs::read_dir(results) else { return };
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    let files = files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "json"));
    let mut sums: BTreeMap<&str, (f64, f64, Option<f64>)> = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let rows = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        for (case, seconds) in rows.filter_map(|row| measured(&row)) {
            let sum = sums.entry(case.workload.name).or_default();
            *sum = (sum.0 + seconds, sum.1 + (case.workload.slow)(&case.args), case.measured_share());
        }
    }
    let compared: Vec<_> =
        sums.into_iter().filter_map(|(name, (took, slow, share))| Some((name, took / slow, share?))).collect();
    assert!(compared.len() >= 20, "only {compared:?}");
    for (name, took, share) in compared {
        let off = (took / share).max(share / took);
        assert!(off <= FACTOR, "{name}: the results took {took:.3} of `slow`, SHARES says {share}");
    }
}
