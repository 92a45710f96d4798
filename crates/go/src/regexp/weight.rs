//! How much an expression weighs: about how many states it has, and whether a match may depend on all of the text
//! behind it.

/// States that are simulated in one step of a template's budget: three nanoseconds each.
pub(crate) const STATES_OF_A_STEP: usize = 13;
/// Bytes that an automaton of few states looks at in a step.
const BYTES_SEARCHED: usize = 32;
/// Steps of compiling a state or a byte: 200 ns. A compiler that finds the program too large took as long.
const COMPILED_STEPS: usize = 5;
/// Steps of compiling the shortest expression.
const COMPILE_STEPS_MIN: usize = 500;
/// States of a class of Unicode: its UTF-8 takes hundreds.
const UNICODE: usize = 500;
/// States of what matches nearly every character.
const NEGATED: usize = 8;
/// States beyond which no expression compiles.
const WEIGHT_MAX: usize = 100_000;

/// What is known of an expression before it is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weight {
    /// States, about.
    pub(crate) states: usize,
    /// Whether something is repeated without end before the expression ends, so that a search may read on to the end of
    /// the text for a match that is long over.
    pub(crate) looks_ahead: bool,
}

impl Weight {
    /// Steps of one search in a text of so many bytes.
    ///
    /// An automaton of few states takes a nanosecond for a byte. One that gets too many is given up, and each state is
    /// simulated; a search cannot be ended in the middle, so it is paid for as if that happened.
    pub(crate) fn search_steps(self, bytes: usize) -> usize {
        if self.states <= STATES_OF_A_STEP {
            return bytes.div_ceil(BYTES_SEARCHED);
        }
        bytes.saturating_mul(self.states).div_ceil(STATES_OF_A_STEP)
    }
}

/// Steps of compiling an expression, whether or not it is one: a step is about 40 ns of a processor.
pub fn compile_steps(pattern: &str) -> usize {
    let states = weigh(pattern).states;
    states.saturating_add(pattern.len()).saturating_mul(COMPILED_STEPS).saturating_add(COMPILE_STEPS_MIN)
}

/// One group that is read.
#[derive(Default)]
struct Group {
    states: usize,
    last: usize,
}

impl Group {
    fn add(&mut self, states: usize) {
        self.states = self.states.saturating_add(self.last).min(WEIGHT_MAX);
        self.last = states;
    }

    fn whole(self) -> usize {
        self.states.saturating_add(self.last).min(WEIGHT_MAX)
    }
}

/// Weighs an expression. What is no expression weighs something, too.
pub(crate) fn weigh(pattern: &str) -> Weight {
    let mut outer = Vec::new();
    let mut group = Group::default();
    let (mut is_repeated, mut looks_ahead) = (false, false);
    let folds = if pattern.contains("(?") { 2 } else { 1 };
    let mut rest = pattern;
    while let Some(character) = rest.chars().next() {
        rest = rest.get(character.len_utf8()..).unwrap_or_default();
        if is_repeated && !matches!(character, ')' | '?') {
            looks_ahead = true;
        }
        match character {
            '(' => outer.push(std::mem::take(&mut group)),
            ')' => {
                let inner = std::mem::replace(&mut group, outer.pop().unwrap_or_default()).whole();
                group.add(inner);
            }
            '[' => {
                let (class, behind) = class(rest);
                rest = behind;
                group.add(class);
            }
            '\\' => {
                let (escape, behind) = escape(rest);
                rest = behind;
                group.add(escape);
            }
            '*' | '+' => is_repeated = true,
            '{' => match super::translate::repeat_count(&format!("{{{rest}")) {
                Some((least, most, length)) => {
                    let times = usize::try_from(most.unwrap_or(least).max(1)).unwrap_or(usize::MAX);
                    group.last = group.last.saturating_mul(times).min(WEIGHT_MAX);
                    is_repeated |= most.is_none();
                    rest = rest.get(length.saturating_sub(1)..).unwrap_or_default();
                }
                None => group.add(1),
            },
            '.' => group.add(NEGATED),
            '?' | '|' => {}
            character => group.add(character.len_utf8()),
        }
    }
    let states = outer.into_iter().fold(group.whole(), |states, open| states.saturating_add(open.whole()));
    Weight { states: states.saturating_mul(folds).clamp(1, WEIGHT_MAX), looks_ahead }
}

/// What a class weighs whose opening bracket was read, and what stands behind it.
fn class(text: &str) -> (usize, &str) {
    let mut weight = if text.starts_with('^') { NEGATED } else { 1 };
    let mut rest = text.strip_prefix('^').unwrap_or(text);
    let mut is_first = true;
    while let Some(character) = rest.chars().next() {
        rest = rest.get(character.len_utf8()..).unwrap_or_default();
        match character {
            ']' if !is_first => return (weight, rest),
            '\\' => {
                let (escape, behind) = escape(rest);
                weight = weight.saturating_add(escape);
                rest = behind;
            }
            character if !character.is_ascii() => weight = weight.saturating_add(NEGATED),
            _ => {}
        }
        is_first = false;
    }
    (weight, rest)
}

/// What an escape weighs whose backslash was read, and what stands behind it.
fn escape(text: &str) -> (usize, &str) {
    let Some(kind) = text.chars().next() else { return (1, text) };
    let rest = text.get(kind.len_utf8()..).unwrap_or_default();
    match kind {
        'p' | 'P' => {
            let rest = match rest.strip_prefix('{') {
                Some(name) => name.split_once('}').map_or("", |(_, behind)| behind),
                None => rest.get(rest.chars().next().map_or(0, char::len_utf8)..).unwrap_or_default(),
            };
            (UNICODE, rest)
        }
        'D' | 'S' | 'W' => (NEGATED, rest),
        _ => (1, rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_07_expressions_weigh_what_they_repeat() {
        for (pattern, states, looks_ahead) in [
            ("", 1, false),
            ("abc", 3, false),
            ("a{3}", 3, false),
            ("((a{20}){20}){20}", 8_000, false),
            ("[a-z]+", 1, false),
            ("[a-z]+x", 2, true),
            ("a*b|a", 3, true),
            ("(a|b)*", 2, false),
            ("a{2,}b", 3, true),
            ("a+?", 1, false),
            (r"\pL{3}", 1_500, false),
            (r"[\p{Greek}x]", 501, false),
            ("[]a]b", 2, false),
            (r"\{a\}", 3, false),
            ("a{x}", 4, false),
            ("(((", 1, false),
            ("a{1000}{1000}{1000}", WEIGHT_MAX, false),
        ] {
            assert_eq!(weigh(pattern), Weight { states, looks_ahead }, "{pattern}");
        }
    }
}
