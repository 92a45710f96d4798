//! Replacement texts.

/// Replaces `$1`, `${1}`, `$name` and `${name}` by what the groups matched, `$$` by `$`.
///
/// A dollar sign that starts none of these stays; a group that does not exist is empty.
pub(super) fn expand(template: &str, captures: &regex::Captures<'_>, names: &[String]) -> String {
    let mut output = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('$') {
        output.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            output.push('$');
            rest = after;
        } else if let Some((name, after)) = reference(rest) {
            let group = match number(name) {
                Some(number) => captures.get(number),
                None => names
                    .iter()
                    .enumerate()
                    .filter(|(_, candidate)| candidate.as_str() == name)
                    .find_map(|(index, _)| captures.get(index)),
            };
            output.push_str(group.map_or("", |group| group.as_str()));
            rest = after;
        } else {
            output.push('$');
        }
    }
    output.push_str(rest);
    output
}

/// Reads a group's name after the dollar sign, with or without braces.
fn reference(text: &str) -> Option<(&str, &str)> {
    let (braced, text) = match text.strip_prefix('{') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let end =
        text.find(|character: char| !character.is_alphanumeric() && character != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(end)?;
    if name.is_empty() {
        return None;
    }
    Some((name, if braced { rest.strip_prefix('}')? } else { rest }))
}

/// The number a name spells; leading zeros make it a name.
fn number(name: &str) -> Option<usize> {
    let leading_zero = name.len() > 1 && name.starts_with('0');
    if leading_zero || !name.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    name.parse().ok()
}
