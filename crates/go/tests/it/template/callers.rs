//! What callers bring along: objects with fields and methods, types with names, a cluster, chance, keys.

use super::{WORLD, chart, execute};
use serde_json::json;
use tiphys_go::template::{
    Certificate, CertificateRequest, Element, Engine, Environment, Failure, Function, FunctionSet, KeyError,
    KeyKind, Keys, Kind, Limits, List, ListType, Lookup, Map, MapType, NamedType, Number, Object, Parsed,
    Record, RecordType, Templates, Text, Time, Type, Value, Work,
};

static VERSION: RecordType = RecordType {
    name: "common.KubeVersion",
    kind: Kind::Struct,
    fields: &["Version", "Major", "Minor"],
    methods: &[Function::new("String", &[], |call| {
        let version = call.receiver().as_object::<Record>().and_then(|version| version.field("Version"));
        Ok(version.unwrap_or_default())
    })],
    print: Some(|version| match version.field("Version") {
        Some(Value::Text(text)) => text,
        _ => Text::EMPTY,
    }),
};

static VERSIONS: ListType = ListType {
    name: "common.VersionSet",
    named: true,
    item: Element::Text,
    methods: &[Function::new("Has", &[Type::Text], |call| {
        let wanted = call.text(0).clone();
        let has = call.receiver().items().is_some_and(|list| {
            (0..list.len()).any(|at| matches!(list.get(at), Some(Value::Text(text)) if text == wanted))
        });
        Ok(Value::Bool(has))
    })],
};

static FILES: MapType = MapType {
    name: "engine.files",
    named: true,
    member: Element::Bytes,
    methods: &[Function::new("Get", &[Type::Text], |call| {
        let found = call.receiver().as_map().and_then(|files| files.get(call.text(0).as_bytes()));
        Ok(match found {
            Some(Value::Bytes(Some(bytes))) => Value::Text(Text::from_bytes(&bytes)),
            _ => Value::Text(Text::EMPTY),
        })
    })],
};

static PHASE: NamedType = NamedType { name: "v1.Phase", kind: Kind::String, methods: &[], print: None };

fn root() -> Value {
    let version = ["v1.30.2", "1", "30"].map(Value::text).to_vec();
    let versions = List::typed(&VERSIONS, vec![Value::text("v1"), Value::text("apps/v1")]);
    let files = Map::typed(&FILES);
    files.set("a.txt".into(), Value::Bytes(Some(b"hello".as_slice().into())));
    let capabilities: Map =
        [("KubeVersion", Value::object(Record::new(&VERSION, version))), ("APIVersions", versions.into())]
            .into_iter()
            .collect();
    let root: Map = [
        ("Capabilities", capabilities.into()),
        ("Files", files.into()),
        ("Phase", Value::named(&PHASE, Value::text("Running"))),
        ("Values", Value::from_json(&json!({"a": {"b": 1}}))),
        ("When", Value::object(Time::utc(jiff::Timestamp::UNIX_EPOCH))),
    ]
    .into_iter()
    .collect();
    root.into()
}

fn render(text: &str) -> String {
    match execute(&chart(&[("t", text)]), "t", &root(), Limits::default()) {
        Ok(output) => output,
        Err(error) => error.message().to_owned(),
    }
}

#[test]
fn rnd_192_objects_of_the_caller_have_fields_methods_and_a_text() {
    for (text, wanted) in [
        ("{{ .Capabilities.KubeVersion }}", "v1.30.2"),
        ("{{ .Capabilities.KubeVersion.Minor }}", "30"),
        ("{{ .Capabilities.KubeVersion.String }}", "v1.30.2"),
        ("{{ .Capabilities.KubeVersion | typeOf }}", "common.KubeVersion"),
        ("{{ .Capabilities.KubeVersion | kindOf }}", "struct"),
        ("{{ .Capabilities.KubeVersion | toString | trimPrefix \"v\" }}", "1.30.2"),
        ("{{ semverCompare \">=1.21-0\" .Capabilities.KubeVersion.Version }}", "true"),
        // The field of a value in a map of anything; behind a pointer Go names the type of the value.
        ("{{ .Capabilities.KubeVersion.Patch }}", "can't evaluate field Patch in type interface {}"),
        ("{{ .Capabilities.APIVersions.Has \"apps/v1\" }}", "true"),
        ("{{ .Capabilities.APIVersions.Has \"x\" }}", "false"),
        ("{{ .Capabilities.APIVersions.Has 1 }}", "expected string; found 1"),
        ("{{ .Capabilities.APIVersions.Has }}", "wrong number of args for Has: want 1 got 0"),
        ("{{ has \"v1\" .Capabilities.APIVersions }}", "true"),
        ("{{ .Capabilities.APIVersions | join \",\" }}", "v1,apps/v1"),
        ("{{ .Capabilities.APIVersions | typeOf }}", "common.VersionSet"),
        ("{{ .Files.Get \"a.txt\" }}", "hello"),
        ("{{ .Files.Get \"b.txt\" }}", ""),
        ("{{ range $name, $_ := .Files }}{{ $name }}{{ end }}", "a.txt"),
        ("{{ index .Files \"a.txt\" | toString }}", "hello"),
        ("{{ printf \"%T\" .Files }}", "engine.files"),
        ("{{ .Phase }} {{ eq .Phase \"Running\" }} {{ typeOf .Phase }}", "Running true v1.Phase"),
        ("{{ .When.Year }} {{ .When | date \"2006-01-02\" }}", "1970 1970-01-01"),
        ("{{ .Values.a.b }} {{ .Values | toJson }}", r#"1 {"a":{"b":1}}"#),
    ] {
        assert_eq!(render(text), wanted, "{text}");
    }
}

#[test]
fn rnd_200_what_one_template_sets_the_next_one_sees() {
    let templates = chart(&[
        ("a", r#"{{ $_ := set .Values.a "c" 2 }}{{ $_ = unset .Values.a "b" }}"#),
        ("b", "{{ .Values.a | toJson }}"),
    ]);
    let root = root();
    let mut engine = Engine::new(&templates, &WORLD, Limits::default());
    engine.execute("a", &root).unwrap();
    assert_eq!(engine.execute("b", &root).unwrap(), br#"{"c":2}"#);
}

#[test]
fn rnd_183_parsed_templates_are_shared_between_threads_and_sets() {
    fn shared<T: Send + Sync + Clone>() {}
    shared::<Parsed>();
    shared::<Templates>();
    shared::<FunctionSet>();

    let parsed =
        Parsed::new("lib", br#"{{ define "x" }}from lib{{ end }}"#.as_slice(), &FunctionSet::helm()).unwrap();
    let mut first = chart(&[("t", r#"{{ include "x" . }}"#)]);
    first.add(&parsed);
    let mut second = first.clone();
    second.parse("own", br#"{{ define "x" }}from own{{ end }}"#.as_slice()).unwrap();
    let on_thread = std::thread::spawn(move || execute(&first, "t", &Value::Nil, Limits::default()).unwrap());
    assert_eq!(on_thread.join().unwrap(), "from lib");
    assert_eq!(execute(&second, "t", &Value::Nil, Limits::default()).unwrap(), "from own");
}

struct World;

impl Environment for World {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(86_400).unwrap()
    }

    fn random(&self, bytes: &mut [u8]) {
        bytes.fill(3);
    }

    fn lookup(&self, what: Lookup<'_>) -> Result<Map, Failure> {
        match what.kind {
            "Broken" => Err(Failure::new("the cluster is away")),
            "Secret" => Ok([("name", Value::text(what.name))].into_iter().collect()),
            _ => Ok(Map::new()),
        }
    }

    fn keys(&self) -> Option<&dyn Keys> {
        Some(self)
    }
}

impl Keys for World {
    fn bcrypt(&self, password: &[u8], _work: &mut dyn Work) -> Result<String, KeyError> {
        Ok(format!("$2a$10${}", password.len()))
    }

    fn private_key(&self, kind: KeyKind, _work: &mut dyn Work) -> Result<String, KeyError> {
        Ok(format!("{kind:?}"))
    }

    fn certificate(
        &self,
        request: &CertificateRequest<'_>,
        _work: &mut dyn Work,
    ) -> Result<Certificate, KeyError> {
        if request.authority && request.signer.is_some() {
            return Err("an authority signs itself".into());
        }
        let by = request.signer.as_ref().map_or("itself", |signer| signer.certificate.as_str());
        let names = [request.addresses.join("+"), request.names.join("+")].join("/");
        Ok(Certificate {
            certificate: format!("{} for {names} {} days by {by}", request.common_name, request.days),
            key: "key".to_owned(),
        })
    }

    fn check(&self, _certificate: &[u8], _key: &[u8], _work: &mut dyn Work) -> Result<(), KeyError> {
        Err("no certificate".into())
    }
}

fn asked(text: &str) -> String {
    let functions = FunctionSet::helm().and(FunctionSet::sprig());
    let mut templates = Templates::new("gotpl", functions);
    templates.parse("t", text.as_bytes()).unwrap();
    match Engine::new(&templates, &World, Limits::default()).execute("t", &Value::Nil) {
        Ok(output) => String::from_utf8(output).unwrap(),
        Err(error) => error.message().to_owned(),
    }
}

#[test]
fn rnd_199_time_chance_the_cluster_and_keys_come_from_the_environment() {
    for (text, wanted) in [
        (r#"{{ now | date "2006-01-02" }}"#, "1970-01-02"),
        (r#"{{ date "2006" "no time" }}"#, "1970"),
        ("{{ now | unixEpoch }}", "86400"),
        ("{{ len (randAlphaNum 12) }} {{ len (uuidv4) }}", "12 36"),
        (r#"{{ (lookup "v1" "Secret" "ns" "s").name }}"#, "s"),
        (r#"{{ lookup "v1" "Pod" "" "" | len }}"#, "0"),
        (r#"{{ lookup "v1" "Broken" "" "" }}"#, "the cluster is away"),
        (r#"{{ bcrypt "abc" }} {{ htpasswd "u" "abc" }}"#, "$2a$10$3 u:$2a$10$3"),
        (r#"{{ genPrivateKey "ecdsa" }} {{ genPrivateKey "x" }}"#, "Ecdsa Unknown type x"),
        (r#"{{ $ca := genCA "me" 9 }}{{ $ca.Cert }}, {{ $ca.Key }}"#, "me for / 9 days by itself, key"),
        (
            r#"{{ (genSignedCert "a" (list "1.2.3.4") (list "b" "c") 2 (genCA "me" 9)).Cert }}"#,
            "a for 1.2.3.4/b+c 2 days by me for / 9 days by itself",
        ),
        (r#"{{ typeOf (genCA "me" 9) }}"#, "sprig.certificate"),
        (r#"{{ genSelfSignedCert "a" (list "x") nil 2 }}"#, "error parsing ip: x"),
    ] {
        assert_eq!(asked(text), wanted, "{text}");
    }
}

#[test]
fn rnd_199_times_in_go_and_how_far_a_text_is_a_time() {
    for (text, wanted) in [
        (r#"{{ printf "%#v" now }}"#, "time.Date(1970, time.January, 2, 0, 0, 0, 0, time.UTC)"),
        (r#"{{ printf "%#.9v" now }}"#, "time.Date"),
        (
            r#"{{ list (toDate "2006-01-02 -0700" "2020-02-03 +0200") | printf "%#v" }}"#,
            "[]interface {}{time.Date(2020, time.February, 3, 0, 0, 0, 0, time.Location(\"\"))}",
        ),
        (
            r#"{{ mustToDate "2006 xyz" "2020 xyw" }}"#,
            r#"parsing time "2020 xyw" as "2006 xyz": cannot parse "w" as " xyz""#,
        ),
        (
            r#"{{ mustToDate "2006x01" "2020y01" }}"#,
            r#"parsing time "2020y01" as "2006x01": cannot parse "y01" as "x""#,
        ),
    ] {
        assert!(asked(text).ends_with(wanted), "{text}: {}", asked(text));
    }
}

#[test]
fn rnd_199_whatever_needs_keys_fails_where_nobody_makes_them() {
    let templates = chart(&[("t", r#"{{ genCA "me" 9 }}"#)]);
    let error = execute(&templates, "t", &Value::Nil, Limits::default()).unwrap_err();
    assert!(error.message().contains("keys"), "{error}");
}

/// A pointer to something that counts.
#[derive(Debug)]
struct Counter(i64);

impl Object for Counter {
    fn type_name(&self) -> &'static str {
        "*x.Counter"
    }
    fn kind(&self) -> Kind {
        Kind::Pointer
    }
    fn number(&self) -> Option<Number> {
        Some(Number::Int(self.0))
    }
    fn json(&self) -> Option<Result<Value, String>> {
        Some(Ok(Value::int(self.0)))
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[test]
fn rnd_192_objects_say_what_they_are_in_json() {
    let root: Map = [("c", Value::object(Counter(7)))].into_iter().collect();
    let templates = chart(&[("t", "{{ toJson .c }} {{ toYaml . }} {{ kindOf .c }}")]);
    assert_eq!(execute(&templates, "t", &root.into(), Limits::default()).unwrap(), "7 c: 7 ptr");
}

#[test]
fn rnd_196_yaml_of_nothing_is_a_map_that_can_be_filled() {
    for (text, wanted) in [
        ("{{ $m := fromYaml \"\" }}{{ $_ := set $m \"a\" 1 }}{{ toJson $m }}", r#"{"a":1}"#),
        ("{{ fromYaml \"null\" | toJson }} {{ fromYamlArray \"\" | toJson }}", "{} []"),
        ("{{ fromJson \"null\" | toJson }} {{ sortAlpha nil }}", "null [<nil>]"),
    ] {
        assert_eq!(render(text), wanted, "{text}");
    }
}

#[test]
fn rnd_195_an_expression_of_bytes_that_are_no_utf_8_does_not_compile() {
    // With a character in the place of the byte its first alternative would match everything.
    assert_eq!(
        render("{{ regexMatch (printf \"|%s\" (trunc 1 \"é\")) \"\" }} {{ regexMatch \"|é\" \"\" }}"),
        "false true"
    );
    let told = render("{{ mustRegexMatch (printf \"|%s\" (trunc 1 \"é\")) \"\" }}");
    assert!(told.contains("error parsing regexp: invalid UTF-8: "), "{told}");
}

/// What Helm has under `.Capabilities`: a pointer to a struct with a struct in it, whose pointer has `String`.
static CAPABILITIES: RecordType = RecordType {
    name: "*common.Capabilities",
    kind: Kind::Pointer,
    fields: &["KubeVersion"],
    methods: &[],
    print: None,
};

#[derive(Debug)]
struct Version;

impl Object for Version {
    fn type_name(&self) -> &'static str {
        "common.KubeVersion"
    }
    fn fields(&self) -> &'static [&'static str] {
        &["Version", "Minor"]
    }
    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Version" => Some(Value::text("v1.31.0")),
            "Minor" => Some(Value::text("31")),
            _ => None,
        }
    }
    fn print_addressed(&self) -> Option<Text> {
        Some("v1.31.0".into())
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[test]
fn rnd_192_an_action_prints_a_field_behind_a_pointer_by_the_pointers_string() {
    let capabilities = Record::new(&CAPABILITIES, vec![Value::object(Version)]);
    let root: Value = [("C", Value::object(capabilities))].into_iter().collect::<Map>().into();
    for (text, wanted) in [
        ("{{ .C.KubeVersion }}", "v1.31.0"),
        ("{{ $v := .C.KubeVersion }}{{ $v }}", "v1.31.0"),
        ("{{ with .C.KubeVersion }}{{ . }}{{ end }}", "v1.31.0"),
        ("{{ print .C.KubeVersion }}", "{v1.31.0 31}"),
        ("{{ .C.KubeVersion | toString }}", "{v1.31.0 31}"),
        ("{{ printf \"%v\" .C.KubeVersion }}", "{v1.31.0 31}"),
        ("{{ list .C.KubeVersion | first }}", "{v1.31.0 31}"),
        ("{{ define \"x\" }}{{ . }}{{ end }}{{ include \"x\" .C.KubeVersion }}", "{v1.31.0 31}"),
        ("{{ define \"x\" }}{{ . }}{{ end }}{{ template \"x\" .C.KubeVersion }}", "v1.31.0"),
    ] {
        let templates = chart(&[("t", text)]);
        assert_eq!(execute(&templates, "t", &root, Limits::default()).unwrap(), wanted, "{text}");
    }
}
