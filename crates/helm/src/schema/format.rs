//! Formats of texts, for the drafts that assert them (up to 7).
//!
//! Unknown formats are no rule. Each check says what is wrong as the library does; where that would be the text of
//! an error of Go's standard library, ours is shorter.

use std::net::Ipv6Addr;

use tiphys_go::regexp::Regexp;

/// Checks a text; `None` for formats that nobody knows.
pub(super) type Check = fn(&str) -> Result<(), String>;

/// The check of a format.
pub(super) fn check(name: &str) -> Option<Check> {
    Some(match name {
        "regex" => regex,
        "json-pointer" => json_pointer,
        "relative-json-pointer" => relative_json_pointer,
        "uuid" => uuid,
        "duration" => duration,
        "period" => period,
        "ipv4" => ipv4,
        "ipv6" => ipv6,
        "hostname" => hostname,
        "email" => email,
        "date" => date,
        "time" => time,
        "date-time" => date_time,
        "uri" | "iri" => uri,
        "uri-reference" | "iri-reference" => uri_reference,
        "uri-template" => uri_template,
        "semver" => semver,
        _ => return None,
    })
}

type Checked = Result<(), String>;

fn fail(text: &str) -> Checked {
    Err(text.to_owned())
}

fn invalid(character: char) -> Checked {
    Err(format!("invalid character {character:?}"))
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn regex(text: &str) -> Checked {
    Regexp::new(text).map(|_| ()).map_err(|error| error.to_string())
}

fn json_pointer(text: &str) -> Checked {
    if text.is_empty() {
        return Ok(());
    }
    if !text.starts_with('/') {
        return fail("not starting with /");
    }
    let is_escaped = |rest: &str| rest.starts_with(['0', '1']);
    if text.split('~').skip(1).all(is_escaped) { Ok(()) } else { fail("~ must be followed by 0 or 1") }
}

fn relative_json_pointer(text: &str) -> Checked {
    let count = digits(text);
    if count == 0 {
        return fail("must start with non-negative integer");
    }
    if count > 1 && text.starts_with('0') {
        return fail("starts with zero");
    }
    match text.get(count..).unwrap_or_default() {
        "#" => Ok(()),
        rest => json_pointer(rest),
    }
}

fn uuid(text: &str) -> Checked {
    let lengths = [8, 4, 4, 4, 12];
    let groups: Vec<&str> = text.split('-').collect();
    if groups.len() != lengths.len() {
        return fail("must have 5 elements");
    }
    for (at, (group, length)) in groups.iter().zip(lengths).enumerate() {
        if group.len() != length {
            return Err(format!("element {} must be {length} characters long", at + 1));
        }
        if let Some(wrong) = group.chars().find(|character| !character.is_ascii_hexdigit()) {
            return Err(format!("non-hex character {wrong:?}"));
        }
    }
    Ok(())
}

fn duration(text: &str) -> Checked {
    let Some(text) = text.strip_prefix('P') else { return fail("must start with P") };
    if text.is_empty() {
        return fail("nothing after P");
    }
    if let Some(weeks) = text.strip_suffix('W') {
        return match weeks {
            "" => fail("no number in week"),
            weeks if digits(weeks) == weeks.len() => Ok(()),
            _ => fail("invalid week"),
        };
    }
    let mut all_units = ["YMD", "HMS"].into_iter();
    for (at, mut part) in text.split('T').enumerate() {
        if at > 0 && part.is_empty() {
            return fail("no time elements");
        }
        let Some(all) = all_units.next() else { return fail("more than one T") };
        let mut units = all;
        while !part.is_empty() {
            let count = digits(part);
            if count == 0 {
                return fail("missing number");
            }
            let Some(unit) = part.get(count..).and_then(|rest| rest.chars().next()) else {
                return fail("missing unit");
            };
            let Some(found) = units.find(unit) else {
                let what = if all.contains(unit) { "out of order" } else { "invalid" };
                return Err(format!("{what} unit {unit:?}"));
            };
            units = units.get(found + 1..).unwrap_or_default();
            part = part.get(count + unit.len_utf8()..).unwrap_or_default();
        }
    }
    Ok(())
}

fn period(text: &str) -> Checked {
    let Some((start, end)) = text.split_once('/') else { return fail("missing slash") };
    let part = |side: &str, text: &str| {
        if text.starts_with('P') {
            duration(text).map_err(|what| format!("invalid {side} duration: {what}"))
        } else {
            date_time(text).map_err(|what| format!("invalid {side} date-time: {what}"))
        }
    };
    part("start", start)?;
    if start.starts_with('P') {
        return date_time(end).map_err(|what| format!("invalid end date-time: {what}"));
    }
    part("end", end)
}

fn ipv4(text: &str) -> Checked {
    let groups: Vec<&str> = text.split('.').collect();
    if groups.len() != 4 {
        return fail("expected four decimals");
    }
    for group in groups {
        if group.len() > 1 && group.starts_with('0') {
            return fail("leading zeros");
        }
        match group.parse::<i64>() {
            Ok(0..=255) => {}
            Ok(_) => return fail("decimal must be between 0 and 255"),
            Err(_) => return Err(format!("strconv.Atoi: parsing {group:?}: invalid syntax")),
        }
    }
    Ok(())
}

fn ipv6(text: &str) -> Checked {
    if !text.contains(':') {
        return fail("missing colon");
    }
    if text.contains('%') {
        return fail("zone id is not a part of ipv6 address");
    }
    text.parse::<Ipv6Addr>()
        .map(|_| ())
        .map_err(|_invalid| format!("ParseAddr({text:?}): unable to parse IP"))
}

fn hostname(text: &str) -> Checked {
    let text = text.strip_suffix('.').unwrap_or(text);
    if text.len() > 253 {
        return fail("more than 253 characters long");
    }
    for label in text.split('.') {
        if label.is_empty() || label.len() > 63 {
            return fail("label must be 1 to 63 characters long");
        }
        if label.starts_with('-') {
            return fail("label starts with hyphen");
        }
        if label.ends_with('-') {
            return fail("label ends with hyphen");
        }
        if let Some(wrong) = label.chars().find(|c| !c.is_ascii_alphanumeric() && *c != '-') {
            return invalid(wrong);
        }
    }
    Ok(())
}

fn email(text: &str) -> Checked {
    if text.len() > 254 {
        return fail("more than 255 characters long");
    }
    let Some((local, domain)) = text.rsplit_once('@') else { return fail("missing @") };
    if local.len() > 64 {
        return fail("local part more than 64 characters long");
    }
    let quoted = local.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match quoted {
        Some(inner) if inner.contains(['\\', '"']) => {
            return fail("backslash and quote are not allowed within quoted local part");
        }
        Some(_) => {}
        None => local_part(local)?,
    }
    if let Some(address) = domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return match address.strip_prefix("IPv6:") {
            Some(address) => ipv6(address).map_err(|what| format!("invalid ipv6 address: {what}")),
            None => ipv4(address).map_err(|what| format!("invalid ipv4 address: {what}")),
        };
    }
    hostname(domain).map_err(|what| format!("invalid domain: {what}"))
}

fn local_part(local: &str) -> Checked {
    if local.starts_with('.') {
        return fail("starts with dot");
    }
    if local.ends_with('.') {
        return fail("ends with dot");
    }
    if local.contains("..") {
        return fail("consecutive dots");
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || ".!#$%&'*+-/=?^_`{|}~".contains(c);
    local.chars().find(|c| !allowed(*c)).map_or(Ok(()), invalid)
}

fn number(text: Option<&str>) -> Option<u32> {
    text.filter(|text| digits(text) == text.len())?.parse().ok()
}

fn date(text: &str) -> Checked {
    let parsed = (|| {
        let (year, month, day) = (text.get(..4)?, text.get(5..7)?, text.get(8..)?);
        let marks = text.get(4..5)? == "-" && text.get(7..8)? == "-" && day.len() == 2;
        let (year, month, day) = (number(Some(year))?, number(Some(month))?, number(Some(day))?);
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let days = match month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        (marks && (1..=days).contains(&day)).then_some(())
    })();
    parsed.ok_or_else(|| format!("parsing time {text:?} as \"2006-01-02\": cannot parse"))
}

fn time(text: &str) -> Checked {
    if text.len() < 9 {
        return fail("less than 9 characters long");
    }
    if text.get(2..3) != Some(":") || text.get(5..6) != Some(":") {
        return fail("missing colon in correct place");
    }
    let part = |range: std::ops::Range<usize>| number(text.get(range));
    let (Some(hour), Some(minute), Some(second)) = (part(0..2), part(3..5), part(6..8)) else {
        return fail("invalid hour/min/sec");
    };
    if hour > 23 || minute > 59 || second > 60 {
        return fail("hour/min/sec out of range");
    }
    let mut rest = text.get(8..).unwrap_or_default();
    if let Some(fraction) = rest.strip_prefix('.') {
        let count = digits(fraction);
        if count == 0 {
            return fail("no digits in second fraction");
        }
        rest = fraction.get(count..).unwrap_or_default();
    }
    let minutes = i64::from(hour * 60 + minute) - offset(rest)?;
    let minutes = minutes.rem_euclid(24 * 60);
    if second >= 60 && minutes != 23 * 60 + 59 { fail("invalid leap second") } else { Ok(()) }
}

/// Minutes before UTC.
fn offset(text: &str) -> Result<i64, String> {
    if matches!(text, "z" | "Z") {
        return Ok(0);
    }
    if text.len() != 6 {
        return Err("offset must be 6 characters long".to_owned());
    }
    let sign = match text.get(..1) {
        Some("+") => 1,
        Some("-") => -1,
        _ => return Err("offset must begin with plus/minus".to_owned()),
    };
    if text.get(3..4) != Some(":") {
        return Err("missing colon in offset in correct place".to_owned());
    }
    let (Some(hour), Some(minute)) = (number(text.get(1..3)), number(text.get(4..6))) else {
        return Err("invalid hour/min in offset".to_owned());
    };
    if hour > 23 || minute > 59 {
        return Err("hour/min in offset out of range".to_owned());
    }
    Ok(sign * i64::from(hour * 60 + minute))
}

fn date_time(text: &str) -> Checked {
    if text.len() < 20 {
        return fail("less than 20 characters long");
    }
    if !matches!(text.get(10..11), Some("t" | "T")) {
        return fail("11th character must be t or T");
    }
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
    date(part(0..10)).map_err(|what| format!("invalid date element: {what}"))?;
    time(part(11..text.len())).map_err(|what| format!("invalid time element: {what}"))
}

/// What Go's `url.Parse` refuses; says whether the address has a scheme.
fn parse_url(text: &str) -> Result<bool, String> {
    let wrong = |what: &str| Err(format!("parse {text:?}: {what}"));
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return wrong("net/url: invalid control character in URL");
    }
    let (rest, fragment) = super::address::split(text);
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')));
    let scheme = match end {
        Some(0) if rest.starts_with(':') => return wrong("missing protocol scheme"),
        Some(end) if rest.get(end..).is_some_and(|rest| rest.starts_with(':')) => {
            rest.get(..end).unwrap_or_default()
        }
        _ => "",
    };
    let scheme = if scheme.starts_with(|c: char| c.is_ascii_alphabetic()) { scheme } else { "" };
    let rest = if scheme.is_empty() { rest } else { rest.get(scheme.len() + 1..).unwrap_or_default() };
    let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            return Ok(true);
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return wrong("first path segment in URL cannot contain colon");
        }
    }
    let is_network = rest.starts_with("//") && (!scheme.is_empty() || !rest.starts_with("///"));
    let path = if is_network {
        let rest = rest.get(2..).unwrap_or_default();
        let end = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
        host(authority.rsplit_once('@').map_or(authority, |(_, host)| host))
            .map_err(|what| format!("parse {text:?}: {what}"))?;
        path
    } else {
        rest
    };
    for part in [path, fragment] {
        let is_escape = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
        if let Some(rest) = part.split('%').skip(1).find(|rest| !is_escape(rest)) {
            let shown: String = rest.chars().take(2).collect();
            return wrong(&format!("invalid URL escape \"%{shown}\""));
        }
    }
    Ok(!scheme.is_empty())
}

fn host(host: &str) -> Checked {
    if let Some(inner) = host.strip_prefix('[') {
        let Some((address, port)) = inner.rsplit_once(']') else { return fail("missing ']' in host") };
        check_port(port)?;
        return ipv6(address).map_err(|what| format!("invalid ipv6 address: {what}"));
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) => {
            check_port(&format!(":{port}"))?;
            name
        }
        None => host,
    };
    if name.contains(':') {
        return fail("ipv6 address not enclosed in brackets");
    }
    let allowed =
        |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c);
    match name.chars().find(|c| !allowed(*c)) {
        Some(wrong) => Err(format!("invalid character {:?} in host name", wrong.to_string())),
        None => Ok(()),
    }
}

fn check_port(port: &str) -> Checked {
    match port.strip_prefix(':') {
        None if port.is_empty() => Ok(()),
        Some(number) if digits(number) == number.len() => Ok(()),
        _ => Err(format!("invalid port {port:?} after host")),
    }
}

fn uri(text: &str) -> Checked {
    if parse_url(text)? { Ok(()) } else { fail("relative url") }
}

fn uri_reference(text: &str) -> Checked {
    if text.contains('\\') {
        return fail("contains \\");
    }
    parse_url(text).map(|_| ())
}

fn uri_template(text: &str) -> Checked {
    parse_url(text)?;
    let path = text.split(['?', '#']).next().unwrap_or_default();
    for step in path.split('/') {
        let mut open = false;
        for brace in step.chars().filter(|c| matches!(c, '{' | '}')) {
            if (brace == '{') == open {
                return fail("nested curly braces");
            }
            open = !open;
        }
        if open {
            return fail("no matching closing brace");
        }
    }
    Ok(())
}

fn semver(text: &str) -> Checked {
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let identifiers = |part: Option<&str>, name: &str| {
        for identifier in part.into_iter().flat_map(|part| part.split('.')) {
            if identifier.is_empty() {
                return Err(format!("{name} identifier is empty"));
            }
            if let Some(wrong) = identifier.chars().find(|c| !c.is_ascii_alphanumeric() && *c != '-') {
                return Err(format!("invalid character {wrong:?} in {name} identifier"));
            }
        }
        Ok(())
    };
    if build == Some("") {
        return fail("build is empty");
    }
    identifiers(build, "build")?;
    let (core, pre_release) = text.split_once('-').map_or((text, None), |(core, pre)| (core, Some(pre)));
    identifiers(pre_release, "pre-release")?;
    let has_zero = |part: &str| part.len() > 1 && part.starts_with('0') && digits(part) == part.len();
    if pre_release.is_some_and(|pre| pre.split('.').any(has_zero)) {
        return fail("pre-release numeric identifier starts with zero");
    }
    let numbers: Vec<&str> = core.split('.').collect();
    if numbers.len() != 3 {
        return fail("versionCore must have 3 numbers separated by dot");
    }
    for (number, name) in numbers.iter().zip(["major", "minor", "patch"]) {
        if number.is_empty() {
            return Err(format!("{name} is empty"));
        }
        if number.len() > 1 && number.starts_with('0') {
            return Err(format!("{name} starts with zero"));
        }
        if digits(number) != number.len() {
            return Err(format!("{name} contains non-digit"));
        }
    }
    Ok(())
}
