//! The numbers that options take. One that is wrong is told what is expected, with an example.
//!
//! Uses nothing else of the command, as `check.rs`.

use std::ops::RangeInclusive;

/// Reads an option's whole number; `example` is a use of the option that is right.
pub fn whole<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
    example: &'static str,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.trim().parse::<u64>().ok().filter(|number| range.contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
            let expected = match (*range.start(), *range.end()) {
                (0, end) if end >= u64::from(u32::MAX) => "a whole number".to_string(),
                (start, end) if end >= u64::from(u32::MAX) => format!("a whole number from {start} on"),
                (start, end) => format!("a whole number from {start} to {end}"),
            };
            format!("give {expected}, as in `{example}`")
        })
    }
}

/// As many as a program can count; how long it takes is not asked here.
pub const ANY: RangeInclusive<u64> = 0..=u32::MAX as u64;
/// As [`ANY`], but one.
pub const SOME: RangeInclusive<u64> = 1..=u32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_of_the_range_is_told_it() {
        let read = whole::<u16>(1..=1024, "--processors 4");
        assert_eq!((read("1"), read("1024")), (Ok(1), Ok(1024)));
        for wrong in ["", "x", "0", "-1", "1025", "1.5", "99999999999999999999999"] {
            let told = "give a whole number from 1 to 1024, as in `--processors 4`";
            assert_eq!(read(wrong).unwrap_err(), told, "{wrong}");
        }
        assert_eq!(
            whole::<u32>(SOME, "--rounds 9")("0").unwrap_err(),
            "give a whole number from 1 on, as in `--rounds 9`"
        );
        assert_eq!(whole::<u64>(0..=u64::MAX, "--seed 7")("-1").unwrap_err(), "give a whole number, as in `--seed 7`");
    }
}
