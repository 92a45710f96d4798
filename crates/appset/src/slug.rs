//! Names that are safe in host names and labels: `normalize` and `slugify` (ASET-107, ASET-109).
//!
//! Slugs follow gosimple/slug 1.15 with its transliteration (gosimple/unidecode 1.0.1). Nothing is remembered
//! between calls: a template's limits are for its own call.

use unidecode::unidecode_char;

/// Longest normalised name, in bytes.
const NORMALIZED_BYTES_MAX: usize = 253;
/// Longest slug of a branch's name.
const BRANCH_SLUG_MAX: i64 = 50;

/// Lower case, other characters as hyphens, at most 253 bytes, without `-` and `.` at the ends (ASET-107).
///
/// ```
/// # use tiphys_appset::slug::normalize;
/// assert_eq!(normalize("Prod_01/west"), "prod-01-west");
/// ```
pub fn normalize(name: &str) -> String {
    let mut normal: String = name
        .chars()
        // Go has one lower case letter for each.
        .map(|c| c.to_lowercase().next().unwrap_or(c))
        .map(|c| if matches!(c, '-' | '.' | '0'..='9' | 'a'..='z') { c } else { '-' })
        .collect();
    // Only ASCII is left, so every byte is a character.
    normal.truncate(NORMALIZED_BYTES_MAX);
    normal.trim_matches(['-', '.']).to_owned()
}

/// `slugify`: the slug of the normalised text (ASET-109).
pub fn slugify(text: &str, length_max: i64, smart: bool) -> String {
    slug(&normalize(text), length_max, smart)
}

/// The slug of a branch (ASET-63, ASET-109).
///
/// ```
/// # use tiphys_appset::slug::branch_slug;
/// assert_eq!(branch_slug("Feature/ABC_123"), "feature-abc-123");
/// ```
pub fn branch_slug(branch: &str) -> String {
    slug(&branch.replace('_', "-"), BRANCH_SLUG_MAX, true)
}

/// Words of ASCII, joined by hyphens. Smart cuts fall between words; `length_max` of 0 or less means no limit there.
pub fn slug(text: &str, length_max: i64, smart: bool) -> String {
    let limit = usize::try_from(length_max).unwrap_or(0);
    let mut slug = String::with_capacity(text.len());
    for c in text.trim().chars() {
        match c {
            '&' => slug.push_str("and"),
            '@' => slug.push_str("at"),
            '"' | '\'' | '\u{2019}' => {}
            '\u{2012}'..='\u{2015}' => slug.push('-'),
            other => slug.push_str(ascii(other)),
        }
    }
    slug.make_ascii_lowercase();
    if !smart && slug.len() >= limit {
        slug.truncate(limit);
    }
    let mut joined = String::with_capacity(slug.len());
    for c in slug.chars() {
        match c {
            'A'..='Z' | 'a'..='z' | '0'..='9' | '_' => joined.push(c),
            _ if joined.ends_with('-') => {}
            _ => joined.push('-'),
        }
    }
    let trimmed = joined.trim_matches(['-', '_']);
    if limit == 0 || !smart || trimmed.len() <= limit {
        return trimmed.to_owned();
    }
    let head = trimmed.get(..=limit).unwrap_or(trimmed);
    let end = head.rfind('-').unwrap_or(limit);
    trimmed.get(..end).unwrap_or(trimmed).to_owned()
}

/// What the tables have for a character that they do not know.
const UNKNOWN: &str = "[?]";

/// What a character becomes. Go's table lacks blocks that ours fills, and has some letters that ours lacks.
fn ascii(c: char) -> &'static str {
    match (c, u32::from(c)) {
        ('\0'..='\x7f', _) => unidecode_char(c),
        ('Є', _) => "Ie",
        ('ъ' | 'Ъ', _) => "'",
        ('し' | 'シ', _) => "shi",
        ('ち' | 'チ', _) => "chi",
        ('っ' | 'つ' | 'ッ' | 'ツ', _) => "tsu",
        ('ヿ' | '™' | '㏿', _) => "",
        ('\u{212a}', _) => "K",
        ('\u{212b}', _) => "A",
        ('Ⅎ' | 'ⅎ', _) => "F",
        ('ʰ', _) => "k",
        ('ẛ', _) => "S",
        ('€', _) => "EU",
        ('\u{24d0}'..='\u{24ea}', code) => at("abcdefghijklmnopqrstuvwxyz0", code, 0x24d0),
        ('\u{1d6c}'..='\u{1d77}', code) => at("bdfmnprrstzg", code, 0x1d6c),
        ('\u{1d80}'..='\u{1d8a}', code) => at("bdfgklmnprs", code, 0x1d80),
        ('\u{1d8c}'..='\u{1d8e}', code) => at("vxz", code, 0x1d8c),
        ('\u{1d7d}', _) => "p",
        ('\u{25f4}'..='\u{25f7}', _) => "#",
        ('\u{2c60}'..='\u{2c6f}', _) => extended_latin(c),
        (_, 0x80..=0x9f | 0x2e5..=0x2eb | 0x1900..=0x1dff | 0xfdf0..=0xfdfb) => "",
        (_, 0x2ff | 0x3ff | 0x5c0 | 0x6ff | 0x1eff | 0x25ff) => "",
        (_, 0x2ef..=0x2fe | 0x3f4..=0x3f9 | 0x3fc..=0x3fe | 0xaf0 | 0xaf1 | 0xaf9) => UNKNOWN,
        (_, 0x13f5 | 0x13f8..=0x13fd | 0x1e9c | 0x1e9d | 0x1e9f | 0x1efa..=0x1efe) => UNKNOWN,
        (_, 0x213b..=0x213f | 0x25f8..=0x25fe | 0x4e00 | 0xfdfc | 0xfdfd) => UNKNOWN,
        _ => match unidecode_char(c) {
            // The table of a block ends one character early.
            UNKNOWN if u32::from(c) & 0xff == 0xff => "",
            "[?] " if is_unknown_block(u32::from(c)) => "",
            text => text,
        },
    }
}

/// Blocks of 256 that Go's table has nothing about; elsewhere it marks what it does not know.
fn is_unknown_block(code: u32) -> bool {
    !matches!(code >> 8, 0x2e | 0x2f | 0x4d | 0x4e..=0x9f | 0xf9 | 0xfa)
}

fn at(letters: &'static str, code: u32, first: u32) -> &'static str {
    let at = usize::try_from(code.saturating_sub(first)).unwrap_or(0);
    letters.get(at..=at).unwrap_or("")
}

fn extended_latin(c: char) -> &'static str {
    match c {
        'Ⱡ' | 'Ɫ' => "L",
        'ⱡ' => "l",
        'Ᵽ' => "P",
        'Ɽ' => "R",
        'ⱥ' => "a",
        'ⱦ' => "t",
        'Ⱨ' => "H",
        'ⱨ' => "h",
        'Ⱪ' => "K",
        'ⱪ' => "k",
        'Ⱬ' => "Z",
        'ⱬ' => "z",
        'Ɱ' => "M",
        'Ɐ' => "A",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aset_107_names_are_normalised_by_character() {
        for (name, expected) in [
            ("Prod_01/west", "prod-01-west"),
            ("", ""),
            ("-.a.-", "a"),
            ("...", ""),
            ("grün", "gr-n"),
            ("İx", "ix"),
            ("日本", ""),
            ("a日b", "a-b"),
        ] {
            assert_eq!(normalize(name), expected, "{name}");
        }
        let long = format!("{}-.", "a".repeat(252));
        assert_eq!(normalize(&long).len(), 252);
        assert_eq!(normalize(&"x".repeat(300)).len(), 253);
    }

    #[test]
    fn aset_109_slugs() {
        assert_eq!(slugify("feat/a_really+long_pull_request_name", 23, true), "feat-a-really-long-pull");
        let one_word = format!("feat/{}", "x".repeat(60));
        assert_eq!(slugify(&one_word, 50, true), "feat");
        assert_eq!(slugify(&one_word, 50, false).len(), 50);
        assert_eq!(slugify(&"y".repeat(60), 50, true), "y".repeat(50));
        assert_eq!(slugify("a-b", 0, true), "a-b");
        assert_eq!(slugify("a-b", 0, false), "", "as the original cuts");
    }

    #[test]
    fn aset_63_slugs_of_branches() {
        for (branch, expected) in [
            ("Feature/ABC_123", "feature-abc-123"),
            ("dependabot/npm_and_yarn/@types/node-20", "dependabot-npm-and-yarn-attypes-node-20"),
            (" R&D’s \"x\" – y ", "randds-x-y"),
            ("größe", "grosse"),
            ("しんじゅく", "shinziyuku"),
            ("__a__", "a"),
        ] {
            assert_eq!(branch_slug(branch), expected, "{branch}");
        }
    }
}
