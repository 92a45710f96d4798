//! The tracking settings of `argocd-cm` as one snapshot (TRK-7..9, 11, 140).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use smol_str::SmolStr;
use tiphys_api::names::annotation;
use tiphys_object::selector::{is_label_key, is_label_value};

use super::{HashAlgorithm, TrackingFormat, TrackingMethod};

/// Keys of `argocd-cm` (TRK section 2).
pub mod key {
    /// The system's method.
    pub const METHOD: &str = "application.resourceTrackingMethod";
    /// Methods that an application may choose instead.
    pub const OVERRIDES: &str = "application.resourceTrackingMethod.overrides";
    /// Key of the instance label.
    pub const LABEL_KEY: &str = "application.instanceLabelKey";
    /// Key of the tracking annotation.
    pub const ANNOTATION_KEY: &str = "application.trackingAnnotationKey";
    /// Form of the tracking annotation.
    pub const ANNOTATION_FORMAT: &str = "application.trackingAnnotationFormat";
    /// Digest of the hash methods.
    pub const HASH_ALGORITHM: &str = "application.trackingHashAlgorithm";
    /// Whether the readable name is written.
    pub const NAME_ANNOTATION: &str = "application.trackingNameAnnotation";
    /// Key of the readable name.
    pub const NAME_ANNOTATION_KEY: &str = "application.trackingNameAnnotationKey";
    /// Whether a change of these settings is followed up.
    pub const MIGRATION: &str = "application.resourceTracking.migration";
    /// The installation ID.
    pub const INSTALLATION_ID: &str = "installationID";
    /// Where the installation ID is written.
    pub const CARRIER: &str = "installationID.carrier";
    /// Key of the annotation or label with the installation ID.
    pub const INSTALLATION_ID_KEY: &str = "installationID.key";
    /// Whether an installation without an ID makes one.
    pub const AUTO_GENERATE: &str = "installationID.autoGenerate";
    /// What an installation without an ID makes of objects that have one.
    pub const FOREIGN: &str = "installationID.foreign";

    /// All of them: what says how objects are marked, and read.
    pub const ALL: [&str; 14] = [
        METHOD,
        OVERRIDES,
        LABEL_KEY,
        ANNOTATION_KEY,
        ANNOTATION_FORMAT,
        HASH_ALGORITHM,
        NAME_ANNOTATION,
        NAME_ANNOTATION_KEY,
        MIGRATION,
        INSTALLATION_ID,
        CARRIER,
        INSTALLATION_ID_KEY,
        AUTO_GENERATE,
        FOREIGN,
    ];
}

/// Default key of the instance label (TRK section 1).
const INSTANCE_LABEL_KEY: &str = "app.kubernetes.io/instance";
/// Default key of the readable name.
const NAME_ANNOTATION_KEY: &str = "argo-cd.argoproj.io/application-name";
/// Default key of the label with the installation ID.
const INSTALLATION_ID_LABEL: &str = "argo-cd.argoproj.io/installation-id";

/// Where the installation ID stands on an object (TRK-61..66).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// An annotation, with those methods that write the tracking annotation.
    #[default]
    Annotation,
    /// An annotation, with every method.
    AnnotationStrict,
    /// A label, with every method.
    Label,
    /// The text whose digest is the instance label; otherwise as `Annotation`.
    Hash,
}

impl Carrier {
    const ALL: [Self; 4] = [Self::Annotation, Self::AnnotationStrict, Self::Label, Self::Hash];

    /// Reads a settings value exactly.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|carrier| carrier.as_str() == text)
    }

    /// The settings value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Annotation => "annotation",
            Self::AnnotationStrict => "annotation-strict",
            Self::Label => "label",
            Self::Hash => "hash",
        }
    }
}

/// Whether the readable name is written beside the mark (TRK-56).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NameAnnotation {
    /// With methods that write digests.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl NameAnnotation {
    const ALL: [Self; 3] = [Self::Auto, Self::Always, Self::Never];

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.as_str() == text)
    }

    /// The settings value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "true",
            Self::Never => "false",
        }
    }
}

/// One consistent snapshot of everything that decides ownership (TRK-140).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TrackingSettings {
    /// The method: the system's, or the effective one of an application.
    pub method: TrackingMethod,
    /// Key of the instance label.
    pub label_key: SmolStr,
    /// Key of the tracking annotation.
    pub annotation_key: SmolStr,
    /// Form of the tracking annotation (TRK-35).
    pub annotation_format: TrackingFormat,
    /// Digest of the hash methods.
    pub hash_algorithm: HashAlgorithm,
    /// Whether the readable name is written.
    pub name_annotation: NameAnnotation,
    /// Key of the readable name.
    pub name_annotation_key: SmolStr,
    /// Methods that an application may choose; `None` allows all of them (TRK-110).
    pub overrides: Option<Vec<TrackingMethod>>,
    /// Whether what was marked under the settings before stays recognised (TRK-98, TRK-101).
    pub migrates: bool,
    /// Installation ID; empty means none (TRK-60).
    pub installation_id: SmolStr,
    /// Where it is written.
    pub carrier: Carrier,
    /// Key of the annotation or label that holds it.
    pub installation_id_key: SmolStr,
    /// Whether objects with an installation ID have no owner in an installation without one (TRK-63).
    pub rejects_foreign: bool,
    /// Namespace the product runs in.
    pub control_plane_namespace: SmolStr,
    /// What is wrong with the settings, for the log; something else is in force instead (TRK-8, TRK-9).
    pub problems: Vec<String>,
}

impl TrackingSettings {
    /// Reads the keys of `argocd-cm` (TRK-7, TRK-8). Total: what is missing or empty takes its default, and so does
    /// what is wrong.
    pub fn from_settings(settings: &BTreeMap<String, String>, control_plane_namespace: &str) -> Self {
        Self::after(None, settings, control_plane_namespace)
    }

    /// The same, following settings that are in force: of those whatever is wrong now stays (TRK-9).
    pub fn after(
        before: Option<&Self>,
        settings: &BTreeMap<String, String>,
        control_plane_namespace: &str,
    ) -> Self {
        let mut read = Reader { settings, problems: Vec::new() };
        let id = SmolStr::new(read.text(key::INSTALLATION_ID));
        let carrier = read.carrier(&id, before);
        let id_key = match carrier {
            Carrier::Label => INSTALLATION_ID_LABEL,
            _ => annotation::INSTALLATION_ID,
        };
        // A key that was in force elsewhere on the object is no replacement.
        let before_id =
            before.filter(|before| (before.carrier == Carrier::Label) == (carrier == Carrier::Label));
        let overrides = read.overrides();
        Self {
            // An unrecognised one is `annotation`, whatever was in force; the settings themselves tell of it (TRK-8).
            method: TrackingMethod::parse(read.text(key::METHOD)).unwrap_or_default(),
            label_key: read.key(key::LABEL_KEY, INSTANCE_LABEL_KEY, before.map(|one| &one.label_key)),
            annotation_key: read.key(
                key::ANNOTATION_KEY,
                annotation::TRACKING_ID,
                before.map(|one| &one.annotation_key),
            ),
            annotation_format: read.choice(key::ANNOTATION_FORMAT, TrackingFormat::parse).unwrap_or_default(),
            hash_algorithm: read.choice(key::HASH_ALGORITHM, HashAlgorithm::parse).unwrap_or_default(),
            name_annotation: read.choice(key::NAME_ANNOTATION, NameAnnotation::parse).unwrap_or_default(),
            name_annotation_key: read.key(
                key::NAME_ANNOTATION_KEY,
                NAME_ANNOTATION_KEY,
                before.map(|one| &one.name_annotation_key),
            ),
            overrides,
            migrates: read.choice(key::MIGRATION, |text| flag(text, "auto", "off")).unwrap_or(true),
            carrier,
            installation_id_key: read.key(
                key::INSTALLATION_ID_KEY,
                id_key,
                before_id.map(|one| &one.installation_id_key),
            ),
            rejects_foreign: read
                .choice(key::FOREIGN, |text| flag(text, "reject", "ignore"))
                .unwrap_or(false),
            installation_id: id,
            control_plane_namespace: control_plane_namespace.into(),
            problems: read.problems,
        }
    }

    /// What is in force where nothing but the carrier is set, in no namespace; read once.
    pub(super) fn usual(carrier: Carrier) -> &'static Self {
        static USUAL: LazyLock<[TrackingSettings; 4]> = LazyLock::new(|| {
            Carrier::ALL.map(|carrier| {
                let only = [(key::CARRIER.to_owned(), carrier.as_str().to_owned())];
                TrackingSettings::from_settings(&only.into(), "")
            })
        });
        let [annotation, strict, label, hash] = &*USUAL;
        match carrier {
            Carrier::Annotation => annotation,
            Carrier::AnnotationStrict => strict,
            Carrier::Label => label,
            Carrier::Hash => hash,
        }
    }

    /// The same settings with the effective method of one application (TRK-110).
    #[must_use]
    pub fn with_method(&self, method: TrackingMethod) -> Self {
        Self { method, ..self.clone() }
    }

    /// The effective method of an application: its annotation when that names a known method that the override
    /// list allows, else the system's (TRK-110, TRK-111).
    pub fn effective_method(&self, annotation: Option<&str>) -> TrackingMethod {
        let wanted = annotation.and_then(TrackingMethod::parse);
        wanted.filter(|method| self.allows(*method)).unwrap_or(self.method)
    }

    /// The settings of an application with this annotation (TRK-110).
    #[must_use]
    pub fn of_application(&self, annotation: Option<&str>) -> Self {
        self.with_method(self.effective_method(annotation))
    }

    fn allows(&self, method: TrackingMethod) -> bool {
        self.overrides.as_ref().is_none_or(|methods| methods.contains(&method))
    }

    /// The instance name of an application (TRK-1).
    pub fn instance_name(&self, namespace: &str, name: &str) -> SmolStr {
        super::instance_name(namespace, name, &self.control_plane_namespace)
    }
}

/// Whether a text is the one value or the other.
fn flag(text: &str, yes: &str, no: &str) -> Option<bool> {
    (text == yes || text == no).then_some(text == yes)
}

struct Reader<'a> {
    settings: &'a BTreeMap<String, String>,
    problems: Vec<String>,
}

impl Reader<'_> {
    fn text(&self, key: &str) -> &str {
        self.settings.get(key).map_or("", String::as_str)
    }

    fn refuse(&mut self, key: &str, problem: &str) {
        let text = self.text(key);
        self.problems.push(format!("argocd-cm: {key}: {text:?} {problem}"));
    }

    /// A value of a list; `None` when it is missing, empty or not of the list.
    fn choice<T>(&mut self, key: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let text = self.text(key);
        if text.is_empty() {
            return None;
        }
        let parsed = parse(text);
        if parsed.is_none() {
            self.refuse(key, "is no known value; the default is in force");
        }
        parsed
    }

    /// A label or annotation key (TRK-9).
    fn key(&mut self, key: &str, default: &str, before: Option<&SmolStr>) -> SmolStr {
        let text = self.text(key);
        if text.is_empty() {
            return default.into();
        }
        if is_label_key(text) {
            return text.into();
        }
        let stays = before.cloned().unwrap_or_else(|| default.into());
        self.refuse(key, &format!("is no qualified name; {stays:?} is in force"));
        stays
    }

    /// Where the ID goes; a label holds only what is a label's value (TRK-65).
    fn carrier(&mut self, id: &str, before: Option<&TrackingSettings>) -> Carrier {
        let carrier = self.choice(key::CARRIER, Carrier::parse).unwrap_or_default();
        if carrier != Carrier::Label || id.is_empty() || is_label_value(id) {
            return carrier;
        }
        // That the ID was carried by a label before does not make this one fit.
        let before = before.map(|before| before.carrier).filter(|carrier| *carrier != Carrier::Label);
        let stays = before.unwrap_or_default();
        let problem = format!(
            "cannot carry the installation ID, which is no label value; {:?} is in force",
            stays.as_str()
        );
        self.refuse(key::CARRIER, &problem);
        stays
    }

    /// Methods that applications may choose: `*` or missing for all, empty for none.
    fn overrides(&mut self) -> Option<Vec<TrackingMethod>> {
        let text = self.settings.get(key::OVERRIDES)?.clone();
        let mut methods = Vec::new();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            match TrackingMethod::parse(item) {
                _ if item == "*" => return None,
                Some(method) => methods.push(method),
                None => self.refuse(key::OVERRIDES, &format!("names {item:?}, which is no tracking method")),
            }
        }
        Some(methods)
    }
}

#[cfg(test)]
mod tests;
