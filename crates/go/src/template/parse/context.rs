//! How errors show a part of a template: the text of it, with blanks as Go prints its trees.

use super::lex::{Kind, Lexer, newlines};
use crate::template::code::{Body, Form, Site};
use crate::template::quote::{quote, unquote};
use crate::template::value::to_str;

/// Shows a part of a template, and where it is: `(base:1:3, .a | f)`.
pub(crate) fn shown(body: &Body, site: Site) -> (String, String) {
    let text = &*body.file.text;
    let part = normal(text, site.start as usize, site.end as usize);
    let context = match site.form {
        Form::Part => part,
        Form::Action => format!("{{{{{part}}}}}"),
        Form::Template => format!("{{{{template {}}}}}", with_quoted_name(&part)),
    };
    let before = text.get(..site.at as usize).unwrap_or_default();
    let line = 1 + newlines(before);
    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count();
    (format!("{}:{line}:{column}", body.file.name), context)
}

/// The name of a template in double quotes, however it is written, and what comes behind it.
fn with_quoted_name(part: &str) -> String {
    let mut escaped = false;
    let mark = part.chars().next().unwrap_or_default();
    let end = part.char_indices().skip(1).find(|(_, character)| {
        let ends = *character == mark && !escaped;
        escaped = mark == '"' && *character == '\\' && !escaped;
        ends
    });
    let Some((name, behind)) = end.and_then(|(at, _)| part.split_at_checked(at + 1)) else {
        return part.to_owned();
    };
    unquote(name.as_bytes()).map_or_else(|| part.to_owned(), |name| quote(&name) + behind)
}

/// How a bar is shown.
const PIPE: &str = " | ";

/// A part of an action as it is written, as Go prints the tree of it.
pub(super) fn normal(text: &[u8], start: usize, end: usize) -> String {
    let mut lexer = Lexer::inside(text, start, end);
    let mut out = String::new();
    // Whether an operand has ended, after which the next is set off by a blank.
    let (mut ended, mut blank) = (false, false);
    loop {
        let token = lexer.next();
        let spelled = match token.kind {
            Kind::End | Kind::Error => return out,
            Kind::Space => {
                blank = true;
                continue;
            }
            Kind::Pipe => PIPE,
            Kind::Declare => " := ",
            Kind::Assign => " = ",
            Kind::Char => ", ",
            Kind::RightParenthesis => ")",
            _ => "",
        };
        if spelled.is_empty() {
            let attached = token.kind == Kind::Field && !blank;
            if ended && !attached {
                out.push(' ');
            }
            out.push_str(&to_str(lexer.bytes(token)));
            ended = token.kind != Kind::LeftParenthesis;
        } else {
            // A bar behind the last command of a pipeline is allowed, and no part of the tree.
            if token.kind == Kind::RightParenthesis && out.ends_with(PIPE) {
                out.truncate(out.len() - PIPE.len());
            }
            out.push_str(spelled);
            ended = token.kind == Kind::RightParenthesis;
        }
        blank = false;
    }
}
