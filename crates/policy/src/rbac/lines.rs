//! The text of a policy: CSV, one rule or link a line (API-81, API-82).

use std::fmt;

use smol_str::SmolStr;

/// Bytes of one policy: all keys of `argocd-rbac-cm`, or all roles of a project. Kubernetes stores an eighth of it.
pub const POLICY_BYTES_MAX: usize = 8 << 20;
/// Lines of one policy.
pub const POLICY_LINES_MAX: usize = 200_000;
/// Bytes of one line.
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// Letters of a line that a message repeats.
const SHOWN_MAX: usize = 120;
/// Fields of the longest line there is.
const FIELDS_MAX: usize = 6;

/// A `p` line: what a subject may or may not do (API-80).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRule {
    /// Account, group or role that the rule is about; never a pattern.
    pub subject: SmolStr,
    /// Pattern of resources.
    pub resource: SmolStr,
    /// Pattern of actions.
    pub action: SmolStr,
    /// Pattern of objects.
    pub object: SmolStr,
    /// `allow` or `deny`; anything else makes the rule inert.
    pub effect: SmolStr,
}

/// A `g` line: the member has all rights of the role (API-80).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleLink {
    /// Account, group or role.
    pub member: SmolStr,
    /// The role it gets.
    pub role: SmolStr,
}

/// What one line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Statement {
    /// A `p` line.
    Rule(PolicyRule),
    /// A `g` line.
    Link(RoleLink),
    /// A line of another section of a model (`r`, `e`, `m`), which has no effect.
    Nothing,
}

/// A line that says something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Its number in its text, from 1.
    pub(super) number: usize,
    /// What it says.
    pub(super) statement: Statement,
}

/// Where in a policy something is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The key of the `ConfigMap`, or the project; empty where there is only one text.
    pub origin: SmolStr,
    /// Line of that text, from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.origin.is_empty() {
            write!(f, "{} ", self.origin)?;
        }
        write!(f, "line {}", self.line)
    }
}

/// Why a policy is not taken: the place, and what is wrong there (API-81, API-89).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct PolicyError {
    /// Where.
    pub place: Place,
    /// What.
    pub problem: PolicyProblem,
}

/// What is wrong with a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyProblem {
    /// The line is no CSV or says nothing that there is.
    #[error("`{text}`: {reason}")]
    Line {
        /// The line, cut.
        text: String,
        /// What is wrong with it and what to write.
        reason: LineReason,
    },
    /// The text is longer than [`POLICY_BYTES_MAX`].
    #[error(
        "the policy has more than {POLICY_BYTES_MAX} bytes; use groups and patterns instead of one line each"
    )]
    TooLong,
    /// The text has more than [`POLICY_LINES_MAX`] lines.
    #[error(
        "the policy has more than {POLICY_LINES_MAX} lines; use groups and patterns instead of one line each"
    )]
    TooManyLines,
    /// A pattern is beyond a bound. Left out, a `deny` with it would be lost without a word.
    #[error("the pattern `{pattern}` is too large ({why}); write several shorter ones")]
    Pattern {
        /// The pattern, cut.
        pattern: String,
        /// Which bound.
        why: String,
    },
    /// `scopes` is no list of claims (API-90).
    #[error("scopes: {0}; write a list of names of claims, such as `[groups, email]`")]
    Scopes(String),
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineReason {
    /// A rule has another number of fields.
    #[error("a p line has 6 fields (p, subject, resource, action, object, effect), this one has {}", Count(.0))]
    RuleFields(usize),
    /// A link has another number of fields.
    #[error("a g line has 3 fields (g, member, role), this one has {}", Count(.0))]
    LinkFields(usize),
    /// The first field is none of those known.
    #[error("the line must begin with p (a rule) or g (a role's member)")]
    Kind,
    /// A quote stands inside a field that is not quoted.
    #[error(
        "bare \" in non-quoted field; put the whole field into double quotes and write \"\" for each of its quotes"
    )]
    BareQuote,
    /// Something stands behind the closing quote of a field.
    #[error(
        "extraneous or missing \" in quoted-field; nothing may stand between the closing quote and the comma"
    )]
    Quote,
    /// The line is longer than [`LINE_BYTES_MAX`].
    #[error("the line has more than {LINE_BYTES_MAX} bytes; write several shorter ones")]
    TooLong,
}

/// A number of fields, of which only the first few are counted.
struct Count<'a>(&'a usize);

impl fmt::Display for Count<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self.0 > FIELDS_MAX { write!(f, "more than {FIELDS_MAX}") } else { write!(f, "{}", self.0) }
    }
}

/// Reads the lines of a text; the first that is wrong ends it (API-81).
pub(super) fn read<'t>(
    origin: &'t str,
    text: &'t str,
) -> impl Iterator<Item = Result<Line, PolicyError>> + 't {
    text.split('\n').enumerate().filter_map(move |(at, line)| {
        let number = at + 1;
        let place = || Place { origin: origin.into(), line: number };
        if number > POLICY_LINES_MAX {
            return Some(Err(PolicyError { place: place(), problem: PolicyProblem::TooManyLines }));
        }
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        Some(match statement(line) {
            Ok(statement) => Ok(Line { number, statement }),
            Err(reason) => Err(PolicyError {
                place: place(),
                problem: PolicyProblem::Line { text: shown(line), reason },
            }),
        })
    })
}

/// As much of a text as a message repeats.
pub(super) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn statement(line: &str) -> Result<Statement, LineReason> {
    if line.len() > LINE_BYTES_MAX {
        return Err(LineReason::TooLong);
    }
    let fields = fields(line)?;
    match fields.as_slice() {
        [kind, subject, resource, action, object, effect] if kind == "p" => Ok(Statement::Rule(PolicyRule {
            subject: subject.clone(),
            resource: resource.clone(),
            action: action.clone(),
            object: object.clone(),
            effect: effect.clone(),
        })),
        [kind, member, role] if kind == "g" => {
            Ok(Statement::Link(RoleLink { member: member.clone(), role: role.clone() }))
        }
        [kind, ..] if kind == "p" => Err(LineReason::RuleFields(fields.len())),
        [kind, ..] if kind == "g" => Err(LineReason::LinkFields(fields.len())),
        [kind, ..] if ["r", "e", "m"].contains(&kind.as_str()) => Ok(Statement::Nothing),
        _ => Err(LineReason::Kind),
    }
}

/// The fields of a line as Go's CSV reader has them with `TrimLeadingSpace`. What comes behind the seventh is read and
/// forgotten.
fn fields(line: &str) -> Result<Vec<SmolStr>, LineReason> {
    let mut fields = Vec::with_capacity(FIELDS_MAX);
    let mut rest = Some(line);
    while let Some(text) = rest {
        let text = text.trim_start();
        let (field, behind) = if let Some(quoted) = text.strip_prefix('"') {
            quoted_field(quoted)?
        } else {
            let (field, behind) =
                text.split_once(',').map_or((text, None), |(field, behind)| (field, Some(behind)));
            if field.contains('"') {
                return Err(LineReason::BareQuote);
            }
            (field.into(), behind)
        };
        if fields.len() <= FIELDS_MAX {
            fields.push(field);
        }
        rest = behind;
    }
    Ok(fields)
}

/// A field behind its opening quote, and what follows its comma.
fn quoted_field(text: &str) -> Result<(SmolStr, Option<&str>), LineReason> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let (inner, behind) = rest.split_once('"').ok_or(LineReason::Quote)?;
        field.push_str(inner);
        if let Some(more) = behind.strip_prefix('"') {
            field.push('"');
            rest = more;
        } else if let Some(next) = behind.strip_prefix(',') {
            return Ok((field.into(), Some(next)));
        } else if behind.is_empty() {
            return Ok((field.into(), None));
        } else {
            return Err(LineReason::Quote);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(text: &str) -> Result<Statement, String> {
        match read("policy.csv", text).next() {
            Some(Ok(line)) => Ok(line.statement),
            Some(Err(error)) => Err(error.to_string()),
            None => Ok(Statement::Nothing),
        }
    }

    fn rule(text: &str) -> [String; 5] {
        let Ok(Statement::Rule(rule)) = first(text) else { panic!("{text}: {:?}", first(text)) };
        [rule.subject, rule.resource, rule.action, rule.object, rule.effect].map(String::from)
    }

    #[test]
    fn api_81_a_rule_has_six_fields_and_a_link_three() {
        assert_eq!(
            rule("p, kim, logs, get, shop/*, allow"),
            ["kim", "logs", "get", "shop/*", "allow"].map(str::to_owned)
        );
        assert_eq!(rule(" \tp,kim,logs,get,shop/*,allow\r"), rule("p, kim, logs, get, shop/*, allow"));
        assert_eq!(
            first("g, devs, role:dev"),
            Ok(Statement::Link(RoleLink { member: "devs".into(), role: "role:dev".into() }))
        );
        assert_eq!(
            first("p, kim, logs").unwrap_err(),
            "policy.csv line 1: `p, kim, logs`: a p line has 6 fields (p, subject, resource, action, object, \
             effect), this one has 3"
        );
        assert!(first("p, a, b, c, d, e, f, g, h").unwrap_err().ends_with("this one has more than 6"));
        assert!(
            first("g, devs")
                .unwrap_err()
                .ends_with("a g line has 3 fields (g, member, role), this one has 2")
        );
        assert!(first("g, a, b, c").is_err());
    }

    #[test]
    fn api_81_other_first_fields() {
        for text in ["r, x", "e", "m, a, b", "", "# p, no rule", "   ", "\t#"] {
            assert_eq!(first(text), Ok(Statement::Nothing), "{text}");
        }
        for text in
            ["x, a, b", "P, kim, logs, get, *, allow", ", a, b", "p2, a, b, c, d, e", "\"\", a", "role:x"]
        {
            assert!(first(text).unwrap_err().contains("must begin with p"), "{text}");
        }
    }

    #[test]
    fn api_81_quotes_hold_commas_blanks_and_quotes() {
        assert_eq!(rule(r#"p, kim, logs, get, "{a,b}/*", allow"#)[3], "{a,b}/*");
        assert_eq!(rule(r#""p", " kim ", logs, get, "a""b", "allow""#)[0], " kim ");
        assert_eq!(rule(r#"p, kim, logs, get, "a""b", allow"#)[3], "a\"b");
        assert_eq!(rule(r#"p, "", logs, get, "", allow"#)[0], "");
        assert!(
            first(r#"p, ki"m, logs, get, *, allow"#).unwrap_err().contains("bare \" in non-quoted field")
        );
        for text in [
            r#"p, "kim" , logs, get, *, allow"#,
            r#"p, "kim"x, logs, get, *, allow"#,
            r#"p, kim, logs, get, "open, allow"#,
            r#"""#,
        ] {
            assert!(first(text).unwrap_err().contains("quoted-field"), "{text}");
        }
    }

    #[test]
    fn api_82_only_leading_blanks_go() {
        assert_eq!(
            rule("p,  alice , applications , get,\u{a0}*/*, allow"),
            ["alice ", "applications ", "get", "*/*", "allow"].map(str::to_owned)
        );
        // The empty subject is a subject (API-92).
        assert_eq!(rule("p, , applications, get, */*, allow")[0], "");
    }

    #[test]
    fn api_81_lines_are_counted_and_cut() {
        let text = format!("# one\n\np, kim, logs, get, *, allow\r\nx{}", "y".repeat(500));
        let found: Vec<_> = read("policy.more.csv", &text).collect();
        assert_eq!(found[0].as_ref().unwrap().number, 3);
        let error = found[1].as_ref().unwrap_err();
        assert_eq!(error.place, Place { origin: "policy.more.csv".into(), line: 4 });
        assert!(error.to_string().len() < 250, "{error}");
    }

    #[test]
    fn sec_07_lines_have_a_length_and_a_number() {
        let commas = ",".repeat(LINE_BYTES_MAX);
        assert!(first(&format!("p{commas}")).unwrap_err().contains("more than 65536 bytes"));
        assert!(first(&format!("p{}", ",".repeat(1_000))).unwrap_err().contains("more than 6"));
        let many = "#\n".repeat(POLICY_LINES_MAX + 1);
        let errors: Vec<_> = read("", &many).filter_map(Result::err).collect();
        assert_eq!(errors[0].problem, PolicyProblem::TooManyLines);
    }
}
