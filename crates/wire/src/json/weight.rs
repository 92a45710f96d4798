//! What a text of JSON becomes in memory, found out without reading it into memory.

/// Memory of one value, with its place in a list or an object.
const VALUE_BYTES: usize = 64;
/// Memory of an object that has members: their map holds a node for eleven of them.
const OBJECT_BYTES: usize = 640;

/// What a text becomes when it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Values of all kinds.
    pub values: usize,
    /// Bytes of memory, at most.
    pub bytes: usize,
}

/// The weight of a text. What is no JSON has one as well: reading it ends earlier.
pub fn weight(text: &[u8]) -> Weight {
    let (mut values, mut objects) = (1_usize, 0_usize);
    let (mut is_in_text, mut is_escaped) = (false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_in_text => is_escaped = true,
            b'"' => is_in_text = !is_in_text,
            _ if is_in_text => {}
            b'{' => {
                values += 1;
                objects += 1;
            }
            b'[' | b',' | b':' => values += 1,
            _ => {}
        }
    }
    let of_values = values.saturating_mul(VALUE_BYTES);
    let of_objects = objects.saturating_mul(OBJECT_BYTES);
    Weight { values, bytes: text.len().saturating_add(of_values).saturating_add(of_objects) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inv_10_values_are_counted_outside_of_texts() {
        assert_eq!(weight(b"7").values, 1);
        assert_eq!(weight(br#"{"a": [1, 2], "b": {}}"#).values, 8);
        assert_eq!(weight(br#""[[[{{,,,::\"[[\\""#).values, 1);
        assert_eq!(weight(br#"["\\", "[", 1]"#).values, 4);
    }

    /// Small objects weigh a hundred times what they are written with.
    #[test]
    fn inv_10_small_objects_weigh_much() {
        let text = format!("[{}]", vec![r#"{"":0}"#; 1_000].join(","));
        let weight = weight(text.as_bytes());
        assert!(weight.bytes > 80 * text.len(), "{weight:?}");
        let long = format!("\"{}\"", "x".repeat(100_000));
        assert!(super::weight(long.as_bytes()).bytes < 2 * long.len());
    }
}
