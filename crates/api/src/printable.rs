//! Text from outside as a terminal or a log may show it: nothing in it moves the cursor, clears the screen,
//! forges another line or turns the direction of writing.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A text in one line: control characters, line breaks among them, are written as `\n`, `\x1b`, `\u{202e}`.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, is_hostile)
}

/// The same, for a text that consists of lines: its line breaks and tabs stay.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| is_hostile(letter) && !matches!(letter, '\n' | '\t'))
}

fn escaped(text: &str, escape: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&escape) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            letter if !escape(letter) => shown.push(letter),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            letter => {
                let code = u32::from(letter);
                // A string takes every write.
                let _written = if code < 0x100 {
                    write!(shown, "\\x{code:02x}")
                } else {
                    write!(shown, "\\u{{{code:x}}}")
                };
            }
        }
    }
    Cow::Owned(shown)
}

/// Shortens a text to this many bytes, with a mark that says how many are missing. Says whether it did.
pub fn cut(text: &mut String, bytes_max: usize) -> bool {
    if text.len() <= bytes_max {
        return false;
    }
    let mark = format!("… ({} bytes in total)", text.len());
    let mut end = bytes_max.saturating_sub(mark.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    if mark.len() <= bytes_max {
        text.push_str(&mark);
    }
    true
}

/// Control characters, separators of lines and paragraphs, and marks that turn the direction of writing.
fn is_hostile(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_13_nothing_from_outside_commands_a_terminal() {
        let hostile = "a\u{1b}[2J\u{9b}31m\r\nb\tc\u{7f}\u{202e}d\u{2028}";
        assert_eq!(line(hostile), "a\\x1b[2J\\x9b31m\\r\\nb\\tc\\x7f\\u{202e}d\\u{2028}");
        assert_eq!(lines(hostile), "a\\x1b[2J\\x9b31m\\r\nb\tc\\x7f\\u{202e}d\\u{2028}");
        assert!(matches!(line("größer 漢字 🚀"), Cow::Borrowed(_)));
    }
    #[test]
    fn ctl_36_a_long_text_is_cut_between_letters_and_says_so() {
        let mut short = "é".repeat(50);
        assert!(!cut(&mut short, 100));
        let mut long = "é".repeat(51);
        assert!(cut(&mut long, 100));
        assert!(long.len() <= 100 && long.ends_with("é… (102 bytes in total)"), "{long}");
        let again = long.clone();
        assert!(!cut(&mut long, 100) && long == again);
        let mut tiny = "é".repeat(51);
        assert!(cut(&mut tiny, 3) && tiny.len() <= 3);
    }
}
