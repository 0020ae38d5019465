//! `raddle sim report --paper NAME` alone, built in seconds after a change of the model.

use raddle_sim::papers::{self, PAPERS, Size};

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some(paper) = PAPERS.iter().find(|paper| paper.name == name) else {
        let names: Vec<&str> = PAPERS.iter().map(|paper| paper.name).collect();
        return eprintln!("name a paper: {}", names.join(", "));
    };
    let verdicts = papers::verdicts(paper, Size::Full, &mut |_, _, _| ());
    let drawn = papers::draw(paper, Size::Full, &mut |_, _, _| ());
    match (verdicts, drawn) {
        (Ok(verdicts), Ok(drawn)) => print!("{}", papers::table(paper, &verdicts, &drawn)),
        (Err(why), _) | (_, Err(why)) => eprintln!("{why}"),
    }
}
