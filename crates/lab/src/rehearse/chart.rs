//! When each object was written and became healthy, as bars (`--gantt`).

use std::fmt::Write as _;
use std::time::Duration;

use super::show::seconds;
use super::steps::Step;

/// Letters of the longest bar.
const WIDTH: usize = 50;

/// The bars of steps that took until `end`.
pub(super) fn draw(steps: &[&Step], end: Duration) -> String {
    let names: Vec<String> = steps.iter().map(|step| step.what()).collect();
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let total = end.as_millis().max(1);
    let column = |time: Duration| {
        let column = time.as_millis().saturating_mul(WIDTH as u128) / total;
        usize::try_from(column).unwrap_or(WIDTH).min(WIDTH)
    };
    let mut text = String::new();
    for (step, name) in steps.iter().zip(names) {
        let from = column(step.at).min(WIDTH - 1);
        let to = column(step.until.unwrap_or(end)).max(from + 1);
        let letter = if step.until.is_some() { "█" } else { "░" };
        let bar = format!("{}{}", " ".repeat(from), letter.repeat(to - from));
        let _written = writeln!(text, "{name:<longest$} │{bar:<WIDTH$}│");
    }
    let _written = writeln!(text, "{:<longest$}  0s{:>width$}", "", seconds(end), width = WIDTH - 2);
    text
}
