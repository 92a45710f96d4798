//! The text of a scrape (`OpenMetrics`), for what is written by hand.

use std::fmt::{Display, Write as _};

use crate::histogram::Histogram;

/// A text that grows family by family.
pub(super) struct Body(String);

impl Body {
    /// Goes on after what is there already.
    pub(super) fn after(text: String) -> Self {
        Self(text)
    }

    /// Begins a family; what follows are its samples. Counters are named without their `_total`.
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ended = writeln!(self.0, "# HELP {name} {help}.\n# TYPE {name} {kind}");
    }

    /// Writes one sample.
    pub(super) fn sample<'a>(
        &mut self,
        name: &str,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        value: impl Display,
    ) {
        self.0.push_str(name);
        let mut between = '{';
        for (label, value) in labels {
            self.0.push(between);
            between = ',';
            self.0.push_str(label);
            self.0.push_str("=\"");
            self.escaped(value);
            self.0.push('"');
        }
        if between == ',' {
            self.0.push('}');
        }
        // Writing to a String cannot fail.
        let _ended = writeln!(self.0, " {value}");
    }

    /// Writes the samples of a histogram.
    pub(super) fn histogram(&mut self, name: &str, labels: &[(&str, &str)], histogram: &Histogram) {
        let ((bounds, counts), sum) = (histogram.buckets(), histogram.sum());
        let mut below = 0;
        let (bucket, infinite) = (format!("{name}_bucket"), ["+Inf".to_owned()]);
        let bounds = bounds.iter().map(|bound| format!("{bound:?}")).chain(infinite);
        for (bound, count) in bounds.zip(counts) {
            below += count;
            self.sample(&bucket, labels.iter().copied().chain([("le", bound.as_str())]), below);
        }
        self.sample(&format!("{name}_sum"), labels.iter().copied(), format_args!("{sum:?}"));
        self.sample(&format!("{name}_count"), labels.iter().copied(), below);
    }

    fn escaped(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '\\' => self.0.push_str("\\\\"),
                '"' => self.0.push_str("\\\""),
                '\n' => self.0.push_str("\\n"),
                c => self.0.push(c),
            }
        }
    }

    /// Takes families that are text already.
    pub(super) fn families(&mut self, text: &str) {
        self.0.push_str(text);
    }

    /// The whole text.
    pub(super) fn end(mut self) -> String {
        self.0.push_str("# EOF\n");
        self.0
    }
}

/// The name that a label of Kubernetes has in metrics (CTL-120).
pub(super) fn label_name(key: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    format!("label_{}", key.chars().map(plain).collect::<String>())
}
