//! How deep a text is nested, told before it is parsed: parser and analysis take stack for each level.

use rsjsonnet_lang::arena::Arena;
use rsjsonnet_lang::interner::StrInterner;
use rsjsonnet_lang::lexer::Lexer;
use rsjsonnet_lang::span::SpanManager;
use rsjsonnet_lang::token::{STokenKind, TokenKind};

/// Levels of a text. Each takes up to 4 KB of stack in an optimised build, and threads have 2 MB.
pub(super) const DEPTH_MAX: usize = 400;

/// Refuses a text whose parsing takes more stack than there is.
///
/// Levels are counted generously: whatever may stand open when a token is read counts.
pub(super) fn check(text: &[u8]) -> Result<(), String> {
    let (arena, texts, mut spans) = (Arena::new(), Arena::new(), SpanManager::new());
    let interner = StrInterner::new();
    let (context, _) = spans.insert_source_context(text.len());
    // What is no sequence of tokens is told by who parses it.
    let Ok(tokens) = Lexer::new(&arena, &texts, &interner, &mut spans, context, text).lex_to_eof(false)
    else {
        return Ok(());
    };
    let mut depth = Depth::default();
    for token in tokens {
        let kind = match token.kind {
            TokenKind::Simple(kind) => Some(kind),
            _ => None,
        };
        if let Some(kind) = kind {
            depth.take(kind);
        }
        depth.before = kind;
        if depth.total > DEPTH_MAX {
            return Err(format!("expressions are nested more than {DEPTH_MAX} levels deep"));
        }
    }
    Ok(())
}

/// What stands open.
#[derive(Default)]
struct Depth {
    /// Levels in all brackets.
    total: usize,
    /// The brackets around the present place.
    above: Vec<Level>,
    here: Level,
    before: Option<STokenKind>,
}

/// Levels inside one pair of brackets.
#[derive(Default)]
struct Level {
    is_object: bool,
    count: usize,
    /// What `count` was where each `local` or `assert` began that no semicolon has ended.
    begun: Vec<usize>,
}

impl Depth {
    fn take(&mut self, kind: STokenKind) {
        match kind {
            STokenKind::LeftBrace | STokenKind::LeftBracket | STokenKind::LeftParen => {
                self.open();
                let level = Level { is_object: kind == STokenKind::LeftBrace, ..Level::default() };
                self.above.push(std::mem::replace(&mut self.here, level));
            }
            STokenKind::RightBrace | STokenKind::RightBracket | STokenKind::RightParen => {
                self.total = self.total.saturating_sub(self.here.count);
                // What the bracket ends stays: suffixes of one expression are nested in each other.
                self.here = self.above.pop().unwrap_or_default();
            }
            STokenKind::Local | STokenKind::Assert => {
                // Those of an object end with a comma, and nothing is nested in them.
                let begins = matches!(self.before, Some(STokenKind::LeftBrace | STokenKind::Comma));
                if !(self.here.is_object && begins && self.here.begun.is_empty()) {
                    self.here.begun.push(self.here.count);
                }
                self.open();
            }
            STokenKind::Semicolon => {
                // What follows is nested in what ends here, once.
                let count = self.here.begun.pop().map_or(self.here.count, |count| count + 1);
                self.back_to(count);
            }
            STokenKind::Comma => {
                let count = self.here.begun.last().map_or(0, |count| count + 1);
                self.back_to(count);
            }
            STokenKind::Error
            | STokenKind::Function
            | STokenKind::If
            | STokenKind::For
            | STokenKind::Import
            | STokenKind::Importstr
            | STokenKind::Importbin
            | STokenKind::Dot => self.open(),
            _ => {}
        }
    }

    fn open(&mut self) {
        self.total += 1;
        self.here.count += 1;
    }

    fn back_to(&mut self, count: usize) {
        self.total = self.total.saturating_sub(self.here.count.saturating_sub(count));
        self.here.count = self.here.count.min(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_10_texts_that_are_nested_too_deep_are_refused() {
        let nested = |open: &str, close: &str, levels: usize| {
            check(format!("{}1{}", open.repeat(levels), close.repeat(levels)).as_bytes())
        };
        for (open, close) in [
            ("local a=1;", ""),
            ("local a=1,b=2;", ""),
            ("local a=", ";1"),
            ("if true then 1 else ", ""),
            ("function(x) ", ""),
            ("{a:", "}"),
            ("[", "]"),
            ("(", ")"),
            ("a[", "]"),
            ("a(", ")"),
            ("[", " for x in [1]]"),
            ("assert true;", ""),
            ("error ", ""),
            ("{}", ""),
            ("{local a=", "}"),
        ] {
            assert!(nested(open, close, 100).is_ok(), "{open}");
            assert!(nested(open, close, 500).is_err(), "{open}");
        }
        for suffix in [".x", "(1)", "[1]"] {
            assert!(check(format!("a{}", suffix.repeat(100)).as_bytes()).is_ok());
            assert!(check(format!("a{}", suffix.repeat(500)).as_bytes()).is_err());
        }
        // What stands beside each other is not nested.
        assert!(check(format!("[{}]", "{a: [1], b: f(2)}, ".repeat(5_000)).as_bytes()).is_ok());
        let members = "local x = 1, y: if x then {a: 2} else 3, assert x.y.z(1): 'a', ";
        assert!(check(format!("{{{}}}", members.repeat(1_000)).as_bytes()).is_ok());
        assert!(check(format!("{}1", "local a = x.y.z(1) + {a: 1}, b = a;".repeat(390)).as_bytes()).is_ok());
        let between = format!("{}local a=1;", "if x then ".repeat(50));
        assert!(check(format!("{}1", between.repeat(10)).as_bytes()).is_err());
        assert!(check(b"'unfinished").is_ok());
    }
}
