//! Plots as SVG, and pages that need nothing but themselves: for measured figures (`raddle bench`) and simulated ones
//! (`raddle sim`).
//!
//! [`lines()`] draws series of points, [`quantiles`] the distributions of latencies, [`bars()`] one figure of each
//! contestant with its rounds; a [`Page`] holds them, with the command that made it and the [`Circumstances`].
//!
//! # Example
//! ```
//! use raddle_report::{Axis, Circumstances, Page, Series, Unit, lines};
//! let series = [Series::new("steal", vec![(1.0, 9.5e6), (2.0, 18.7e6), (4.0, 36.0e6)])];
//! let (cores, speed) = (Axis::of("cores", Unit::Number), Axis::of("threads a second", Unit::Number));
//! let plot = lines("Threads a second", &cores, &speed, &series);
//! let mut page = Page::new("raddle sim", "raddle sim --workload packet");
//! page.circumstances(&Circumstances::now().of_simulation());
//! page.section("Speed", &plot);
//! assert!(page.finish().contains("<circle"));
//! ```
#![forbid(unsafe_code)]

mod axis;
mod bars;
mod circumstances;
mod lines;
mod page;

pub use axis::{Axis, Unit};
pub use bars::{Bar, Bars, bars};
pub use circumstances::Circumstances;
pub use lines::{Series, lines, quantiles};
pub use page::{Page, escape, table};

/// Colours that people with colour blindness tell apart, on white and on black.
const COLOURS: [&str; 8] = ["#1f77b4", "#d55e00", "#009e73", "#b2559e", "#b8860b", "#56b4e9", "#8c564b", "#7f7f7f"];
/// About so wide is a character of 13 px.
const CHARACTER: f64 = 7.4;

/// How many characters the longest of these texts has, in pixels.
fn width_of<'a>(texts: impl Iterator<Item = &'a str>) -> f64 {
    CHARACTER * texts.map(|text| text.chars().count()).max().unwrap_or(0) as f64
}
