//! A campaign of simulations in parts, which run wherever there is room for them, and its parts put together.
//!
//! Each simulation of a command line has a number, from 0. Part `i` of `n` runs those whose number leaves the rest
//! `i`, and tells each on a line of its own as soon as it is done: number, campaign (a hash of all options that
//! results depend on) and the line that one process would print. So a part that is ended early leaves what it has
//! done, lines may come in any order, and what is put together is what one process prints, byte by byte.

use raddle_sim::report::{self as rows, Row};
use raddle_sim::simulate::Plan;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A part of so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    part: usize,
    of: usize,
}

/// Where a rank finds its number and how many there are: MPICH and its relatives, Open MPI, Slurm, and a Kubernetes
/// Job whose manifest tells the number of its pods.
const RANKS: [(&str, &str); 4] = [
    ("PMI_RANK", "PMI_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("JOB_COMPLETION_INDEX", "RADDLE_SHARDS"),
];

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "rank" {
            let found =
                RANKS.iter().find_map(|(rank, size)| Some((std::env::var(rank).ok()?, std::env::var(size).ok()?)));
            let (rank, size) = found.ok_or_else(|| {
                let names: Vec<String> = RANKS.iter().map(|(rank, size)| format!("{rank} and {size}")).collect();
                format!("no rank is known: of {} none is set", names.join(", "))
            })?;
            return format!("{rank}/{size}").parse();
        }
        let numbers = text.split_once('/').and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((part, of)) if part < of => Ok(Self { part, of }),
            _ => Err("a part is I/N, from 0/N to (N-1)/N, or `rank`".into()),
        }
    }
}

impl Shard {
    /// Whether the simulation of that number belongs to it.
    pub fn has(self, number: usize) -> bool {
        number % self.of == self.part
    }

    /// The file's name with the part's number in the place of `{shard}`.
    pub fn named(self, path: &Path) -> PathBuf {
        path.to_str().map_or_else(|| path.to_path_buf(), |text| text.replace("{shard}", &self.part.to_string()).into())
    }
}

/// All simulations of a command line.
pub struct Campaign {
    hash: u64,
    names: Vec<String>,
}

impl Campaign {
    pub fn of(plans: &[Plan]) -> Self {
        let names: Vec<String> = plans.iter().map(name).collect();
        let all = format!(
            "{}\n{:?}\n{names:?}",
            env!("CARGO_PKG_VERSION"),
            plans.first().map(|plan| (&plan.costs, plan.steps))
        );
        let hash = all
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self { hash, names }
    }

    fn head(&self, number: &str) -> String {
        format!("{{\"simulation\":{number},\"of\":{},\"campaign\":\"{:016x}\",\"row\":", self.names.len(), self.hash)
    }

    /// What a part tells of one.
    pub fn line(&self, number: usize, row: Row) -> String {
        format!("{}{}}}\n", self.head(&number.to_string()), rows::json_lines(&[row]).trim_end())
    }

    /// Those of these numbers.
    ///
    /// # Errors
    /// Where there is no such number.
    pub fn check(&self, numbers: &[usize]) -> Result<(), String> {
        match numbers.iter().find(|number| **number >= self.names.len()) {
            Some(number) => {
                Err(format!("--only: there is no simulation {number}: they go from 0 to {}", self.names.len() - 1))
            }
            None => Ok(()),
        }
    }

    /// What one process would have printed, and remarks on lines that are none of a simulation's.
    ///
    /// # Errors
    /// Names what is missing, files of other campaigns, and two results of one simulation.
    pub fn merge(&self, files: &[PathBuf]) -> Result<(String, Vec<String>), String> {
        let (mut found, mut remarks) = (BTreeMap::new(), Vec::new());
        for file in files {
            let shown = file.display();
            let bytes = std::fs::read(file).map_err(|why| format!("cannot read {shown}: {why}"))?;
            let (mut results, mut others) = (0, Vec::new());
            for (nth, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
                let Some((number, row)) = self.read(line).map_err(|why| format!("{shown}, line {}: {why}", nth + 1))?
                else {
                    others.push(nth + 1);
                    continue;
                };
                results += 1;
                if found.insert(number, row.to_string()).is_some_and(|other| other != row) {
                    return Err(format!(
                        "{shown}, line {}: simulation {number} has come out otherwise before",
                        nth + 1
                    ));
                }
            }
            match (results, &others[..]) {
                // A part of which there was nothing to do is empty.
                (_, []) => {}
                (0, _) => remarks.push(format!("{shown}: no line of it is a simulation's; it is left out")),
                (_, [line]) => {
                    remarks.push(format!("{shown}, line {line}: no whole line of a simulation; it is left out"));
                }
                (_, [first, ..]) => remarks.push(format!(
                    "{shown}, line {first} and {} more: no whole lines of simulations; they are left out",
                    others.len() - 1
                )),
            }
        }
        let missing: Vec<usize> = (0..self.names.len()).filter(|number| !found.contains_key(number)).collect();
        if missing.is_empty() {
            return Ok((found.into_values().map(|row| row + "\n").collect(), remarks));
        }
        const NAMED: usize = 8;
        let named: Vec<String> =
            missing.iter().take(NAMED).map(|&number| format!("  {number}: {}", self.names[number])).collect();
        let more =
            if missing.len() > NAMED { format!("\n  and {} more", missing.len() - NAMED) } else { String::new() };
        let numbers: Vec<String> = missing.iter().map(usize::to_string).collect();
        let remarks: String = remarks.iter().map(|remark| format!("{remark}\n")).collect();
        Err(format!(
            "{remarks}{} of {} simulations are missing:\n{}{more}\nrun them alone, with the same options and `--only {}`, and merge what comes of it, too",
            missing.len(),
            self.names.len(),
            named.join("\n"),
            numbers.join(",")
        ))
    }

    /// A line's number and row; none where it is no whole line of a part's.
    fn read<'a>(&self, line: &'a str) -> Result<Option<(usize, &'a str)>, String> {
        let value: serde_json::Value = match serde_json::from_str(line) {
            Ok(value) => value,
            Err(_) => return Ok(None),
        };
        let Some(number) = value["simulation"].as_u64() else { return Ok(None) };
        let row = line.strip_prefix(&self.head(&number.to_string())).and_then(|rest| rest.strip_suffix('}'));
        match row {
            Some(row) if (number as usize) < self.names.len() => Ok(Some((number as usize, row))),
            _ => Err("it is of another campaign: other options, costs or version".into()),
        }
    }
}

fn name(plan: &Plan) -> String {
    let Plan { workload, arguments, policy, cores, seed, .. } = plan;
    format!("{}:{arguments} under `{policy}` on {cores} cores, seed {seed}", workload.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_one_of_so_many() {
        let shard: Shard = "1/4".parse().unwrap();
        assert_eq!((0..9).filter(|number| shard.has(*number)).collect::<Vec<_>>(), [1, 5]);
        assert_eq!(shard.named(Path::new("part-{shard}.jsonl")), PathBuf::from("part-1.jsonl"));
        for wrong in ["4/4", "1", "-1/4", "1/0", "/", "a/b"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
