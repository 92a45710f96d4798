//! The files of AWS profiles, `~/.aws/config` and `~/.aws/credentials`.

use std::collections::BTreeMap;

/// Members of profiles by name; the credentials file wins over the configuration.
#[derive(Debug, Default)]
pub(crate) struct Profiles {
    by_name: BTreeMap<String, BTreeMap<String, String>>,
}

impl Profiles {
    /// Adds a file. In the configuration the sections are called `profile NAME`, but for `default`.
    pub(crate) fn add(&mut self, text: &str, is_configuration: bool) {
        let mut section: Option<String> = None;
        for line in text.lines() {
            // What is indented belongs to the member above (`s3 =`), which no login needs.
            if line.starts_with([' ', '\t', '#', ';']) || line.trim().is_empty() {
                continue;
            }
            let line = line.trim_end();
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
                let name = name.trim();
                section = match name.split_once(char::is_whitespace) {
                    Some(("profile", name)) if is_configuration => Some(name.trim().to_owned()),
                    // sso-session, services: nothing that is a profile.
                    Some(_) => None,
                    None if is_configuration && name != "default" => None,
                    None => Some(name.to_owned()),
                };
                continue;
            }
            let (Some(section), Some((name, value))) = (&section, line.split_once('=')) else { continue };
            let value = value.split(" #").next().unwrap_or(value).trim();
            let members = self.by_name.entry(section.clone()).or_default();
            members.insert(name.trim().to_ascii_lowercase(), value.to_owned());
        }
    }

    /// A member of a profile that is set to something.
    pub(crate) fn get(&self, profile: &str, member: &str) -> Option<&str> {
        self.by_name.get(profile)?.get(member).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(crate) fn has(&self, profile: &str) -> bool {
        self.by_name.contains_key(profile)
    }
}
