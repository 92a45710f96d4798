//! How many Applications of a step may be under way (ASET-212).

use serde_json::Value;

/// A `maxUpdate` that is none; the text is as people write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidLimit {
    /// What is written.
    pub text: String,
}

/// How many of so many may be under way; `None` for no limit, 0 for nobody.
///
/// # Errors
/// When it is neither a whole number nor a percentage.
pub fn limit_of(max_update: Option<&Value>, members: usize) -> Result<Option<usize>, InvalidLimit> {
    match max_update {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(number)) => match whole(number) {
            Some(number) => Ok(Some(usize::try_from(number).unwrap_or(0))),
            None => Err(InvalidLimit { text: number.to_string() }),
        },
        Some(Value::String(text)) => {
            let invalid = || InvalidLimit { text: text.clone() };
            let percent = text.strip_suffix('%').ok_or_else(invalid)?;
            let percent: i64 = percent.parse().map_err(|_not_whole| invalid())?;
            let members = i64::try_from(members).unwrap_or(i64::MAX);
            let share = percent.saturating_mul(members).div_euclid(100);
            let least = i64::from(text != "0%");
            Ok(Some(usize::try_from(share.max(least)).unwrap_or(0)))
        }
        Some(other) => Err(InvalidLimit { text: other.to_string() }),
    }
}

fn whole(number: &serde_json::Number) -> Option<i64> {
    let of_float = || {
        let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 1e15)?;
        format!("{float:.0}").parse().ok()
    };
    number.as_i64().or_else(of_float)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn aset_212_limits_of_a_step() {
        for (written, members, expected) in [
            (json!(null), 3, Ok(None)),
            (json!(2), 3, Ok(Some(2))),
            (json!(2.0), 3, Ok(Some(2))),
            (json!(0), 3, Ok(Some(0))),
            (json!(-1), 3, Ok(Some(0))),
            (json!("50%"), 3, Ok(Some(1))),
            (json!("10%"), 3, Ok(Some(1))),
            (json!("100%"), 3, Ok(Some(3))),
            (json!("200%"), 3, Ok(Some(6))),
            (json!("0%"), 3, Ok(Some(0))),
            (json!("00%"), 3, Ok(Some(1))),
            (json!("-5%"), 3, Ok(Some(1))),
            (json!("2"), 3, Err("2")),
            (json!("x%"), 3, Err("x%")),
            (json!("33.3%"), 3, Err("33.3%")),
            (json!(1.5), 3, Err("1.5")),
            (json!(true), 3, Err("true")),
        ] {
            let found = limit_of(Some(&written), members);
            let found = found.as_ref().map_err(|invalid| invalid.text.as_str());
            assert_eq!(found, expected.as_ref().map_err(|text| *text), "{written}");
        }
        assert_eq!(limit_of(None, 1), Ok(None));
    }
}
