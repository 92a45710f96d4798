use std::collections::BTreeSet;

use super::*;

#[test]
fn api_p1_methods_are_found_by_their_paths() {
    let schema = schema();
    let count = |service: &str| {
        schema.services().iter().find(|it| it.full == service).map_or(0, |service| service.methods.len())
    };
    let counts = [
        ("account.AccountService", 6),
        ("application.ApplicationService", 31),
        ("applicationset.ApplicationSetService", 8),
        ("certificate.CertificateService", 3),
        ("cluster.ClusterService", 7),
        ("cluster.SettingsService", 2),
        ("gpgkey.GPGKeyService", 4),
        ("notification.NotificationService", 3),
        ("project.ProjectService", 12),
        ("repocreds.RepoCredsService", 8),
        ("repository.RepositoryService", 21),
        ("session.SessionService", 3),
        ("version.VersionService", 1),
        ("grpc.health.v1.Health", 2),
        ("grpc.reflection.v1.ServerReflection", 1),
        ("grpc.reflection.v1alpha.ServerReflection", 1),
    ];
    for (service, methods) in counts {
        assert_eq!(count(service), methods, "{service}");
    }
    assert_eq!(schema.services().len(), counts.len());
    for (id, method) in schema.methods() {
        assert_eq!(schema.method_at(&method.path), Some(id));
        assert_eq!(method.bindings.is_empty(), method.path.starts_with("/grpc."), "{}", method.path);
    }
    let settings = schema.method_at("/cluster.SettingsService/Get").unwrap();
    assert_eq!(schema.full_name(schema.method(settings).response), "cluster.Settings");
    assert_eq!(schema.method_at("/settings.SettingsService/Get"), None);
    let streams: Vec<&str> = schema
        .methods()
        .filter(|(_, method)| method.server_streams || method.client_streams)
        .filter(|(_, method)| !method.path.starts_with("/grpc."))
        .map(|(_, method)| method.name)
        .collect();
    assert_eq!(streams, ["Watch", "GetManifestsWithFiles", "WatchResourceTree", "PodLogs", "Watch"]);
}

#[test]
fn api_p19_services_are_tried_in_the_order_of_their_registration() {
    let order: Vec<&str> = schema().services().iter().map(|service| service.name).collect();
    let expected = [
        "VersionService",
        "ClusterService",
        "ApplicationService",
        "ApplicationSetService",
        "NotificationService",
        "RepositoryService",
        "RepoCredsService",
        "SessionService",
        "SettingsService",
        "ProjectService",
        "AccountService",
        "CertificateService",
        "GPGKeyService",
    ];
    assert_eq!(order.get(..expected.len()), Some(&expected[..]));
}

/// Depth of the deepest message; `None` when there is no end.
fn depth(schema: &Schema, id: MessageId, above: &mut Vec<MessageId>) -> Option<usize> {
    if above.contains(&id) {
        return None;
    }
    above.push(id);
    let mut deepest = 0;
    for field in &schema.message(id).fields {
        if let Kind::Message(inner) = field.kind {
            deepest = deepest.max(depth(schema, inner, above)? + 1);
        }
    }
    above.pop();
    Some(deepest)
}

#[test]
fn sec_07_no_message_is_within_itself_so_that_readers_are_no_deeper_than_the_tables() {
    let schema = schema();
    for (id, message) in schema.messages() {
        let depth = depth(schema, id, &mut Vec::new());
        assert!(depth.is_some_and(|depth| depth < 20), "{}: {depth:?}", message.name);
    }
}

#[test]
fn api_p4_every_line_of_the_tables_is_sound() {
    let schema = schema();
    for (id, message) in schema.messages() {
        let mut keys = BTreeSet::new();
        for field in &message.fields {
            let place = format!("{}.{}", message.name, field.name);
            if let (Arity::One, Kind::Message(_)) = (field.arity, field.kind) {
                // Only objects of Kubernetes have messages that are always there.
                let is_explicit = field.presence != Presence::Implicit;
                assert!(message.style == Style::Kube || is_explicit, "{place}");
            }
            assert!(!field.is_inline || matches!(field.kind, Kind::Message(_)), "{place}");
            assert!(message.style != Style::Proto3 || field.presence != Presence::Required, "{place}");
            if !field.is_inline {
                assert!(keys.insert(field.json), "{place}: key {} is there twice", field.json);
                let member = schema.member(id, &field.json.to_ascii_uppercase()).unwrap();
                assert!(member.json.eq_ignore_ascii_case(field.json), "{place}");
                assert_eq!(schema.member(id, field.json).map(|member| member.json), Some(field.json));
            }
        }
    }
    for (_, method) in schema.methods() {
        let request = schema.message(method.request);
        for binding in &method.bindings {
            for path in binding.template.fields() {
                let first = path.split('.').next().unwrap();
                assert!(request.by_name(first).is_some(), "{}: {path}", method.path);
            }
            if let Body::Field(field) = binding.body {
                assert!(request.by_name(field).is_some(), "{}: {field}", method.path);
            }
        }
    }
}

#[test]
fn api_172_fields_with_credentials_are_marked() {
    let schema = schema();
    let secret = |name: &str| {
        let message = schema.message(schema.find(name).unwrap());
        message.fields.iter().filter(|field| field.is_secret).map(|field| field.name).collect::<Vec<_>>()
    };
    let credentials = [
        "password",
        "sshPrivateKey",
        "tlsClientCertData",
        "tlsClientCertKey",
        "githubAppPrivateKey",
        "gcpServiceAccountKey",
        "bearerToken",
        "azureServicePrincipalClientSecret",
    ];
    for name in ["v1.Repository", "v1.RepoCreds", "repository.RepoAccessQuery"] {
        let mut found = secret(name);
        let mut expected = credentials.to_vec();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{name}");
    }
    assert_eq!(secret("v1.ClusterConfig"), ["username", "password", "bearerToken", "execProviderConfig"]);
    assert_eq!(secret("v1.TLSClientConfig"), ["certData", "keyData", "caData"]);
    assert_eq!(secret("session.SessionCreateRequest"), ["password", "token"]);
    assert_eq!(secret("account.UpdatePasswordRequest"), ["newPassword", "currentPassword"]);
}

#[test]
fn tables_that_cannot_be_read_are_refused_with_their_line() {
    let error = |text: &'static str| Schema::read(&[("t", text)]).unwrap_err().to_string();
    assert_eq!(error("message A:"), "table t line 1: no package was named");
    assert_eq!(error("package a a proto9"), "table t line 1: no style: \"proto9\"");
    for text in [
        "1 a",
        "x a string",
        "1 a Missing",
        "1 a string flag",
        "2 a string; 1 b string",
        "1 a string; 1 b string",
    ] {
        let text: &'static str = Box::leak(format!("package a a proto2\nmessage A: {text}").into_boxed_str());
        assert!(error(text).starts_with("table t line 2: "), "{text}");
    }
    let twice = "package a a proto2\nmessage A:\nmessage A:";
    assert_eq!(error(twice), "table t line 3: the message is there twice");
    for line in ["get: A -> B", "Get: A", "    GET /a", "    FETCH /a", "    GET a", "    GET /{a=**}/b"] {
        let text: &'static str = Box::leak(format!("package a a proto2\nservice S\n{line}").into_boxed_str());
        assert!(error(text).starts_with("table t line "), "{line}");
    }
}
