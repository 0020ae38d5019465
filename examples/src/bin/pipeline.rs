//! A pipeline: each thread does one step and hands on through a bounded channel, so a slow step slows the ones before
//! it down.
#![forbid(unsafe_code)]

use raddle::sync::channel;

fn main() -> Result<(), raddle::BuildError> {
    let pool = raddle::Builder::new().processors(2).build()?;
    let (words, letters) = pool.run(|| {
        let (lines_in, lines) = channel::bounded::<&str>(4);
        let (words_in, words) = channel::bounded::<String>(4);
        raddle::spawn(move || {
            for line in ["a raddle is the comb", "that spreads the threads"] {
                lines_in.send(line).expect("the next step lives as long");
            }
        });
        raddle::spawn(move || {
            for word in lines.iter().flat_map(str::split_whitespace) {
                words_in.send(word.to_string()).expect("the next step lives as long");
            }
        });
        // Ends when the step before has ended and its channel is empty.
        words.iter().fold((0, 0), |(words, letters), word| (words + 1, letters + word.len()))
    });
    println!("{words} words of {letters} letters");
    Ok(())
}
