//! Texts in TOML.

use super::{Problem, Reader};
use crate::template::quote::{push_character, quote};
use crate::template::value::Text;

impl Reader<'_> {
    /// Reads a text with its quotes, of one line or of several.
    pub(super) fn text_value(&mut self) -> Result<Text, Problem> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        if rest.starts_with(br#"""""#) {
            self.at += 3;
            return self.long_text(b'"');
        }
        if rest.starts_with(b"'''") {
            self.at += 3;
            return self.long_text(b'\'');
        }
        self.at += 1;
        if rest.starts_with(b"\"") { self.basic_text() } else { self.raw_text() }
    }

    /// Reads up to the closing `"`.
    pub(super) fn basic_text(&mut self) -> Result<Text, Problem> {
        let mut out = Vec::new();
        loop {
            self.check()?;
            match self.peek() {
                None => return Err("unexpected EOF; expected '\"'".into()),
                Some(b'\n' | b'\r') => {
                    return Err(Problem::at("strings cannot contain newlines".to_owned(), self.line));
                }
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out.into());
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape(&mut out)?;
                }
                Some(byte) => {
                    out.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    /// Reads up to the closing `'`.
    pub(super) fn raw_text(&mut self) -> Result<Text, Problem> {
        let mut out = Vec::new();
        loop {
            self.check()?;
            match self.peek() {
                None => return Err("unexpected EOF; expected \"'\"".into()),
                Some(b'\n' | b'\r') => {
                    return Err(Problem::at("strings cannot contain newlines".to_owned(), self.line));
                }
                Some(b'\'') => {
                    self.at += 1;
                    return Ok(out.into());
                }
                Some(byte) => {
                    out.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    /// Reads up to three closing quotes; one or two more of them belong to the text.
    fn long_text(&mut self, mark: u8) -> Result<Text, Problem> {
        let mut out = Vec::new();
        // A line end right behind the opening quotes is not part of the text.
        if self.text.get(self.at..).is_some_and(|rest| rest.starts_with(b"\r\n")) {
            self.at += 1;
        }
        if self.peek() == Some(b'\n') {
            self.take();
        }
        loop {
            self.check()?;
            let Some(byte) = self.peek() else {
                let quotes = if mark == b'"' { "'\"\"\"'" } else { "\"'''\"" };
                return Err(format!("unexpected EOF; expected {quotes}").into());
            };
            if byte == mark {
                let count = self.text.iter().skip(self.at).take_while(|byte| **byte == mark).count();
                if count > 5 {
                    let quotes = if mark == b'"' { "'\"\"\"\"\"\"'" } else { "\"''''''\"" };
                    return Err(format!("unexpected {quotes}").into());
                }
                self.at += count;
                let inner = if count >= 3 { count - 3 } else { count };
                out.extend(std::iter::repeat_n(mark, inner));
                if count >= 3 {
                    return Ok(out.into());
                }
                continue;
            }
            if byte == b'\\' && mark == b'"' {
                self.at += 1;
                if !self.skip_line_end()? {
                    self.escape(&mut out)?;
                }
                continue;
            }
            out.push(byte);
            self.take();
        }
    }

    /// Behind a backslash: skips blanks and line ends if a line end is among them.
    fn skip_line_end(&mut self) -> Result<bool, Problem> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')).count();
        if !rest.iter().take(blanks).any(|byte| *byte == b'\n') {
            return Ok(false);
        }
        for _ in 0..blanks {
            self.check()?;
            self.take();
        }
        Ok(true)
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), Problem> {
        self.check()?;
        let character = self.character();
        self.at += 1;
        let simple = match character {
            'b' => 0x08,
            't' => b'\t',
            'n' => b'\n',
            'f' => 0x0c,
            'r' => b'\r',
            'e' => 0x1b,
            '"' => b'"',
            '\\' => b'\\',
            ' ' | '\t' => return Err(format!("invalid escape: '\\{character}'").into()),
            'x' => return self.code_point(out, 2, "two hexadecimal digits after '\\x'"),
            'u' => return self.code_point(out, 4, "four hexadecimal digits after '\\u'"),
            'U' => return self.code_point(out, 8, "eight hexadecimal digits after '\\U'"),
            _ => return Err(format!("invalid escape in string '\\{character}'").into()),
        };
        out.push(simple);
        Ok(())
    }

    fn code_point(&mut self, out: &mut Vec<u8>, digits: usize, wanted: &str) -> Result<(), Problem> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let count = rest.iter().take(digits).take_while(|byte| byte.is_ascii_hexdigit()).count();
        if count < digits {
            let shown = self.text.get(self.at..self.text.len().min(self.at + count + 1)).unwrap_or_default();
            return Err(format!("expected {wanted}, but got {} instead", quote(shown)).into());
        }
        let spelled = String::from_utf8_lossy(rest.get(..digits).unwrap_or_default()).into_owned();
        let code = u32::from_str_radix(&spelled, 16).ok().and_then(char::from_u32);
        let Some(character) = code else {
            return Err(format!("Escaped character '\\u{spelled}' is not valid UTF-8.").into());
        };
        self.at += digits;
        push_character(out, character);
        Ok(())
    }
}
