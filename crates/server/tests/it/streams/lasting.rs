//! Table of all streams with the tests that prove their end.

use tiphys_wire::schema;

use super::{HEALTH, LOGS, REFLECTION, SETS, TREE, UPLOAD, WATCH};

/// Every streaming method and every other long-lived response, with the test that it ends.
const LASTING: [(&str, &str); 12] = [
    (WATCH, "sec_32_streams_end_with_the_session"),
    (SETS, "sec_32_streams_end_with_the_session"),
    (TREE, "sec_32_streams_end_with_the_session"),
    (LOGS, "sec_32_streams_end_with_the_session"),
    (HEALTH, "sec_32_streams_end_with_the_session"),
    (REFLECTION[0], "sec_32_reflection_ends_with_the_session"),
    (REFLECTION[1], "sec_32_reflection_ends_with_the_session"),
    (UPLOAD, "sec_32_an_upload_is_rendered_for_callers_who_still_may"),
    ("GET /api/v1/applications/{name}?refresh", "sec_32_a_refresh_answers_callers_who_still_may"),
    ("/terminal", "api_193_who_lost_the_right_does_not_type_any_more"),
    ("/extensions/ (WebSocket)", "api_223_a_websocket_ends_with_the_rights_to_it_and_with_the_server"),
    ("/extensions/ (answer)", "sec_32_an_answer_of_an_extension_ends_with_the_session"),
];

/// The table has a row for every streaming method, and each row names an existing test.
#[test]
fn sec_32_every_stream_has_a_test_that_it_ends() {
    let files =
        [include_str!("../streams.rs"), include_str!("../terminal.rs"), include_str!("../extensions.rs")];
    for (path, test) in LASTING {
        let is_there = files.iter().any(|text| text.contains(&format!("async fn {test}()")));
        assert!(is_there, "{path}: there is no test {test}");
    }
    for (_, method) in schema().methods().filter(|(_, method)| method.client_streams || method.server_streams)
    {
        let is_known = LASTING.iter().any(|(path, _)| *path == method.path);
        assert!(
            is_known,
            "{} streams: test that it ends with its caller's rights, and add a row",
            method.path
        );
    }
}
