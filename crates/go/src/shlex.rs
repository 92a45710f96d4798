//! Words of a command line: google/shlex and kballard/go-shellquote.
//!
//! Both know quotes and backslashes. [`split`] drops comments and treats a backslash in double quotes as an
//! escape for any character; [`split_shellquote`] has no comments, keeps such a backslash unless the shell
//! would drop it, and joins lines that end in one.
//!
//! Golden rows: `shlex.jsonl`.

/// Why a text has no words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// A quote is not closed.
    #[error("EOF found when expecting closing quote")]
    OpenQuote,
    /// The text ends after a backslash.
    #[error("EOF found after escape character")]
    OpenEscape,
}

/// Splits as google/shlex does (EVAL-770).
pub fn split(text: &str) -> Result<Vec<String>, SplitError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' | '\r' | '\n' => words.extend(word.take()),
            '#' if word.is_none() => {
                // The comment ends with its line.
                let _end = characters.find(|character| *character == '\n');
            }
            '\'' => quoted(&mut characters, word.get_or_insert_default(), '\'')?,
            '"' => quoted(&mut characters, word.get_or_insert_default(), '"')?,
            '\\' => word.get_or_insert_default().push(characters.next().ok_or(SplitError::OpenEscape)?),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    Ok(words)
}

fn quoted(characters: &mut std::str::Chars<'_>, word: &mut String, quote: char) -> Result<(), SplitError> {
    loop {
        match characters.next().ok_or(SplitError::OpenQuote)? {
            character if character == quote => return Ok(()),
            '\\' if quote == '"' => word.push(characters.next().ok_or(SplitError::OpenEscape)?),
            character => word.push(character),
        }
    }
}

/// Splits as kballard/go-shellquote does.
pub fn split_shellquote(text: &str) -> Result<Vec<String>, SplitError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' => shell_quoted(&mut characters, word.get_or_insert_default(), '\'')?,
            '"' => shell_quoted(&mut characters, word.get_or_insert_default(), '"')?,
            '\\' => match characters.next().ok_or(SplitError::OpenEscape)? {
                '\n' => {}
                escaped => word.get_or_insert_default().push(escaped),
            },
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    Ok(words)
}

fn shell_quoted(
    characters: &mut std::str::Chars<'_>,
    word: &mut String,
    quote: char,
) -> Result<(), SplitError> {
    loop {
        match characters.next().ok_or(SplitError::OpenQuote)? {
            character if character == quote => return Ok(()),
            '\\' if quote == '"' => match characters.next().ok_or(SplitError::OpenQuote)? {
                '\n' => {}
                escaped @ ('$' | '`' | '"' | '\\') => word.push(escaped),
                other => word.extend(['\\', other]),
            },
            character => word.push(character),
        }
    }
}
