//! Stages: pools joined by bounded queues. A stage that is full says so, and processors move to where the work waits
//! longest.
#![forbid(unsafe_code)]

use raddle::stage::{Refused, Stages};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stages = Stages::builder().stage("parse", 64).stage("work", 16).processors(2).build()?;
    let (parse, work) = (stages.stage("parse").unwrap(), stages.stage("work").unwrap());
    let mut answers = Vec::new();
    for number in 1..=100u64 {
        // Waits while `parse` is full; a thread of `parse` waits in turn while `work` is.
        answers.push(parse.spawn(move || {
            let text = number.to_string();
            work.run(move || text.parse::<u64>().map(|number| number * 10)).map_err(|refused| refused.to_string())
        })?);
    }
    let mut sum = 0;
    for answer in answers {
        sum += answer.join().expect("no request panics")??;
    }
    println!("sum of the answers: {sum}");
    // New work is refused once the stages close.
    drop(stages);
    assert_eq!(parse.try_place().unwrap_err(), Refused::Closed);
    Ok(())
}
