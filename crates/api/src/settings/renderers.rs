//! What one rendering may take (SEC-07, INV-16).

use std::collections::BTreeMap;

use super::reader::Reader;

/// Bounds of renderings, from `argocd-cm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renderers {
    /// `tiphys.renderer.steps`: steps that the templates of a chart take together, 200,000,000: about eight seconds of a
    /// processor.
    pub template_steps: u64,
    /// `tiphys.renderer.memory.mb`: bytes that a rendering holds at the same time, 96 MiB.
    pub live_bytes: usize,
    /// `tiphys.renderer.localAddresses`: whether what a source names by URL may be on this machine, its network link or
    /// at the services of its cloud; `false`.
    pub local_addresses: bool,
}

impl Default for Renderers {
    fn default() -> Self {
        Self::read(&BTreeMap::new(), &mut Vec::new())
    }
}

impl Renderers {
    pub(super) fn read(cm: &BTreeMap<String, String>, warnings: &mut Vec<String>) -> Self {
        let nothing = BTreeMap::new();
        let mut reader = Reader::with_warnings(cm, &nothing, std::mem::take(warnings));
        let steps = reader.number("tiphys.renderer.steps", "", 200_000_000, 1_000_000..=i64::from(i32::MAX));
        let mebibytes = reader.number("tiphys.renderer.memory.mb", "", 96, 16..=65_536);
        let local_addresses = reader.flag("tiphys.renderer.localAddresses", "", false);
        *warnings = reader.into_warnings();
        Self {
            template_steps: u64::try_from(steps).unwrap_or_default(),
            live_bytes: usize::try_from(mebibytes).unwrap_or_default() << 20,
            local_addresses,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_07_bounds_of_renderings_can_be_raised() {
        let read = |pairs: &[(&str, &str)]| {
            let cm = pairs.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
            let mut warnings = Vec::new();
            (Renderers::read(&cm, &mut warnings), warnings.len())
        };
        let defaults =
            Renderers { template_steps: 200_000_000, live_bytes: 96 << 20, local_addresses: false };
        assert_eq!(read(&[]), (defaults, 0));
        let raised = [("tiphys.renderer.steps", "400000000"), ("tiphys.renderer.memory.mb", "256")];
        let raised_to = Renderers { template_steps: 400_000_000, live_bytes: 256 << 20, ..defaults };
        assert_eq!(read(&raised), (raised_to, 0));
        assert_eq!(
            read(&[("tiphys.renderer.steps", "many"), ("tiphys.renderer.memory.mb", "1")]),
            (defaults, 2)
        );
    }

    #[test]
    fn sec_50_sources_name_no_local_addresses_unless_set() {
        let read = |text: &str| {
            let cm = [("tiphys.renderer.localAddresses".to_owned(), text.to_owned())].into();
            let mut warnings = Vec::new();
            (Renderers::read(&cm, &mut warnings).local_addresses, warnings.len())
        };
        assert_eq!(read("true"), (true, 0));
        assert_eq!(read("false"), (false, 0));
        assert_eq!(read("yes please"), (false, 1));
    }
}
