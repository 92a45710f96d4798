//! Constraints: which versions are meant.

use super::version::compare_pre_release;
use super::{SemverError, Version};
use regex::Regex;
use std::sync::LazyLock;

/// A set of comparisons that a version may satisfy.
#[derive(Debug, Clone)]
pub struct Constraint {
    /// One of these has to hold.
    groups: Vec<Group>,
}

/// Comparisons that all have to hold.
#[derive(Debug, Clone)]
struct Group {
    comparisons: Vec<Comparison>,
    /// Whether one of them names a pre-release, which admits pre-releases to all.
    pre_releases: bool,
}

#[derive(Debug, Clone)]
struct Comparison {
    operator: Operator,
    version: Version,
    open: Open,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Tilde,
    Caret,
}

/// From which part on a version is missing or a wildcard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Nothing,
    Patch,
    Minor,
    All,
}

/// Bytes of a constraint: no name of a branch or tag is longer, and each tag is compared with all of it.
const CONSTRAINT_BYTES_MAX: usize = 4 << 10;
/// Characters of a constraint that an error shows.
const SHOWN_CHARS_MAX: usize = 200;

const OPERATOR: &str = r"(?:=>|=<|=|!=|>=|<=|>|<|~>|~|\^|)";
/// A bar counts as part of a number here; such a number is refused later.
const NUMBER: &str = r"[0-9xX*|]+";
const NAMES: &str = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*";

/// The shapes of a constraint, compiled once.
struct Shapes {
    /// A list of comparisons, nothing else.
    list: Regex,
    /// One comparison of a list.
    comparison: Regex,
    /// `1.2 - 1.4`.
    range: Regex,
}

static SHAPES: LazyLock<Result<Shapes, regex::Error>> = LazyLock::new(|| {
    let plain = format!(r"v?{NUMBER}(?:\.{NUMBER})?(?:\.{NUMBER})?(?:-{NAMES})?(?:\+{NAMES})?");
    let parts = format!(r"v?({NUMBER})(\.{NUMBER})?(\.{NUMBER})?(-{NAMES})?(?:\+{NAMES})?");
    let one = format!(r"{OPERATOR}[\t\n\f\r ]*{plain}[\t\n\f\r ]*");
    Ok(Shapes {
        list: Regex::new(&format!(r"^[\t\n\f\r ]*{one}(?:(?:[\t\n\f\r ]+|,[\t\n\f\r ]*){one})*$"))?,
        comparison: Regex::new(&format!(r"({OPERATOR})[\t\n\f\r ]*{parts}"))?,
        range: Regex::new(&format!(r"[\t\n\f\r ]*({plain})[\t\n\f\r ]+-[\t\n\f\r ]+({plain})[\t\n\f\r ]*"))?,
    })
});

impl Constraint {
    /// Reads a constraint such as `^1.2 || >=3, <3.5`.
    pub fn parse(text: &str) -> Result<Self, SemverError> {
        let shown = |part: &str| part.chars().take(SHOWN_CHARS_MAX).collect();
        let improper = |part: &str| SemverError::Constraint(shown(part));
        if text.len() > CONSTRAINT_BYTES_MAX {
            return Err(SemverError::ConstraintLength { limit: CONSTRAINT_BYTES_MAX });
        }
        let shapes = SHAPES.as_ref().map_err(|_broken| improper(text))?;
        let text = shapes.range.replace_all(text, ">= $1, <= $2 ");
        let mut groups = Vec::new();
        for part in text.split("||") {
            if !shapes.list.is_match(part) {
                return Err(improper(part));
            }
            let comparisons = shapes
                .comparison
                .captures_iter(part)
                .map(|captures| {
                    let of = |index: usize| captures.get(index).map_or("", |found| found.as_str());
                    Comparison::new(of(1), [of(2), of(3), of(4)], of(5))
                        .ok_or_else(|| SemverError::ConstraintVersion(shown(part)))
                })
                .collect::<Result<Vec<_>, _>>()?;
            let pre_releases =
                comparisons.iter().any(|comparison| !comparison.version.pre_release.is_empty());
            groups.push(Group { comparisons, pre_releases });
        }
        Ok(Self { groups })
    }

    /// Whether a version satisfies the constraint. Pre-releases do only where the constraint names one.
    pub fn matches(&self, version: &Version) -> bool {
        self.groups.iter().any(|group| {
            (version.pre_release.is_empty() || group.pre_releases)
                && group.comparisons.iter().all(|comparison| comparison.holds(version))
        })
    }
}

impl Comparison {
    fn new(operator: &str, numbers: [&str; 3], pre_release: &str) -> Option<Self> {
        let operator = match operator {
            "" | "=" => Operator::Equal,
            "!=" => Operator::NotEqual,
            ">" => Operator::Greater,
            ">=" | "=>" => Operator::GreaterOrEqual,
            "<" => Operator::Less,
            "<=" | "=<" => Operator::LessOrEqual,
            "~" | "~>" => Operator::Tilde,
            "^" => Operator::Caret,
            _ => return None,
        };
        let [major, minor, patch] = numbers.map(|number| number.strip_prefix('.').unwrap_or(number));
        let wild = |number: &str| matches!(number, "" | "x" | "X" | "*");
        let (open, text) = if wild(major) {
            (Open::All, format!("0.0.0{pre_release}"))
        } else if wild(minor) {
            (Open::Minor, format!("{major}.0.0{pre_release}"))
        } else if wild(patch) {
            (Open::Patch, format!("{major}.{minor}.0{pre_release}"))
        } else {
            (Open::Nothing, format!("{major}.{minor}.{patch}{pre_release}"))
        };
        Some(Self { operator, version: Version::parse(&text).ok()?, open })
    }

    fn holds(&self, version: &Version) -> bool {
        let bound = &self.version;
        match self.operator {
            Operator::Equal if self.open == Open::Nothing => version == bound,
            Operator::Equal | Operator::Tilde => self.tilde(version),
            Operator::NotEqual => self.not_equal(version),
            Operator::Greater => match self.open {
                Open::Nothing | Open::All => version > bound,
                Open::Minor => version.major > bound.major,
                Open::Patch => (version.major, version.minor) > (bound.major, bound.minor),
            },
            Operator::GreaterOrEqual => version >= bound,
            Operator::Less => version < bound,
            Operator::LessOrEqual => match self.open {
                Open::Nothing => version <= bound,
                Open::Minor => version.major <= bound.major,
                Open::Patch | Open::All => (version.major, version.minor) <= (bound.major, bound.minor),
            },
            Operator::Caret => self.caret(version),
        }
    }

    fn not_equal(&self, version: &Version) -> bool {
        let bound = &self.version;
        if self.open == Open::Nothing || version.major != bound.major {
            return version != bound;
        }
        match self.open {
            Open::Minor => false,
            _ if version.minor != bound.minor => true,
            Open::Patch => compare_pre_release(&version.pre_release, &bound.pre_release).is_ne(),
            _ => version != bound,
        }
    }

    fn tilde(&self, version: &Version) -> bool {
        let bound = &self.version;
        if version < bound {
            return false;
        }
        let exact = matches!(self.open, Open::Nothing | Open::All);
        if exact && (bound.major, bound.minor, bound.patch) == (0, 0, 0) {
            return true;
        }
        version.major == bound.major && (version.minor == bound.minor || self.open == Open::Minor)
    }

    fn caret(&self, version: &Version) -> bool {
        let bound = &self.version;
        if version < bound {
            return false;
        }
        if bound.major > 0 || self.open == Open::Minor {
            return version.major == bound.major;
        }
        if version.major > 0 {
            return false;
        }
        if bound.minor > 0 || self.open == Open::Patch {
            return version.minor == bound.minor;
        }
        version.minor == 0 && version.patch == bound.patch
    }
}
