//! How a text may be written so that it reads back as the same text.

use super::YamlError;
use super::resolve::stays_text;
use super::write::Layout;
use std::borrow::Cow;

/// What a node is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Root,
    Item,
    Member,
    /// A key on the line of its value.
    SimpleKey,
}

/// How a text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

/// What text becomes when it is spelled as JSON and read as YAML.
pub(super) fn through_json(text: &str) -> Result<Cow<'_, str>, YamlError> {
    if text.bytes().all(|byte| byte < 0x7f) {
        return Ok(Cow::Borrowed(text));
    }
    let refused = |character: char| matches!(character, '\u{7f}'..='\u{84}' | '\u{86}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}');
    if text.chars().any(refused) {
        return Err(YamlError::ControlCharacter);
    }
    if !text.contains('\u{85}') {
        return Ok(Cow::Borrowed(text));
    }
    Ok(Cow::Owned(without_next_lines(text)))
}

/// A next-line character ends a line inside the quotes: blanks around it go, one alone becomes a blank, of
/// several all but the first become line ends.
fn without_next_lines(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\u{85}') {
        joined.push_str(before.trim_end_matches(' '));
        rest = after.trim_start_matches(' ');
        let mut ends = 0;
        while let Some(after) = rest.strip_prefix('\u{85}') {
            ends += 1;
            rest = after.trim_start_matches(' ');
        }
        if ends == 0 {
            joined.push(' ');
        }
        (0..ends).for_each(|_| joined.push('\n'));
    }
    joined.push_str(rest);
    joined
}

/// What a text contains that limits how it may be written.
struct Shape {
    lines: bool,
    plain: bool,
    single: bool,
    literal: bool,
}

impl Shape {
    fn of(text: &str, layout: Layout) -> Self {
        if text.is_empty() {
            return Self { lines: false, plain: true, single: true, literal: false };
        }
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut lines, mut special, mut tabs) = (false, false, false);
        let (mut break_blank, mut blank_break) = (false, false);
        let (mut after_blank, mut after_break, mut after_white) = (false, false, true);
        let mut first = true;
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            let before_white =
                characters.peek().is_none_or(|next| matches!(next, ' ' | '\t') || is_break(*next));
            indicators |= match character {
                '#' => first || after_white,
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => {
                    first
                }
                '?' | '-' => first && before_white,
                ':' => before_white,
                _ => false,
            };
            if character == '\t' && layout == Layout::Pretty {
                tabs = true;
            } else {
                special |= !is_printable(character);
            }
            if character == ' ' {
                break_blank |= after_break;
                (after_blank, after_break) = (true, false);
            } else if is_break(character) {
                lines = true;
                blank_break |= after_blank;
                (after_blank, after_break) = (false, true);
            } else {
                (after_blank, after_break) = (false, false);
            }
            after_white = matches!(character, ' ' | '\t') || is_break(character);
            first = false;
        }
        let edge = |character: char| character == ' ' || is_break(character);
        let edges = text.starts_with(edge) || text.ends_with(edge);
        let hard = blank_break || special;
        Self {
            lines,
            plain: !edges && !lines && !break_blank && !hard && !tabs && !indicators,
            single: !break_blank && !hard && !tabs,
            literal: !text.ends_with(' ') && !hard,
        }
    }
}

/// Chooses how a text is written: as what it has to be marked as, unless its shape forbids it.
pub(super) fn style(text: &str, place: Place, layout: Layout) -> Style {
    let shape = Shape::of(text, layout);
    let key = place == Place::SimpleKey;
    let wanted = if text.contains('\n') {
        Style::Literal
    } else if stays_text(text) {
        Style::Plain
    } else {
        Style::Double
    };
    match wanted {
        _ if key && shape.lines => Style::Double,
        Style::Plain if shape.plain => Style::Plain,
        Style::Plain | Style::Single if shape.single => Style::Single,
        Style::Literal if shape.literal && !key => Style::Literal,
        _ => Style::Double,
    }
}

pub(super) fn has_break(text: &str) -> bool {
    text.chars().any(is_break)
}

pub(super) fn is_break(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

pub(super) fn is_printable(character: char) -> bool {
    matches!(character, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
        && character != '\u{feff}'
}
