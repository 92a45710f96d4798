//! Pages of our own: HTML without scripts, and a policy that lets a browser load nothing for them.

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// How pages look.
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;\
color:#1d2733;background:#fff}h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2rem}a{color:#0b5394}\
code{font:.9em ui-monospace,monospace;overflow-wrap:anywhere}details{border-bottom:1px solid #d7dde4;padding:.3rem 0}\
summary{cursor:pointer}summary b{display:inline-block;min-width:4.5rem}table{border-collapse:collapse;width:100%}\
th,td{text-align:left;padding:.2rem .6rem;border-top:1px solid #e6eaee;vertical-align:top;font-size:.9rem}\
@media(prefers-color-scheme:dark){body{color:#dfe6ee;background:#141a21}a{color:#8ec3ff}details,th,td\
{border-color:#2c3743}}";

/// A text in a page, between tags or in an attribute with double quotes (SEC-23). What XML does not know as a character
/// is left out.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' | '\r' => escaped.push(character),
            '\u{fffe}' | '\u{ffff}' => {}
            character if character.is_control() => {}
            character => escaped.push(character),
        }
    }
    escaped
}

/// A page. `title` is a text, `content` is markup.
pub(super) fn page(title: &str, content: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body>\n{content}</body></html>\n"
    )
}

/// What a page of ours may load: its style.
pub(super) fn policy() -> String {
    let digest = STANDARD.encode(digest::digest(&digest::SHA256, STYLE.as_bytes()));
    format!("default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_23_a_text_is_no_markup() {
        assert_eq!(
            escape("<a b=\"c\" d='e'>&\u{0}\u{7}\n</a>ä"),
            "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;\n&lt;/a&gt;ä"
        );
        assert!(page("</title><script>", "").contains("<title>&lt;/title&gt;&lt;script&gt;</title>"));
    }
}
