//! The drawing of a badge (API-216..219).

use crate::pages::html::escape;

/// Where the second field begins.
const LEFT: u32 = 77;
/// Where the third field begins, and the width without one.
const WIDTH: u32 = 131;
/// The width with a short revision.
const WIDTH_SHORT: u32 = 192;
/// The width with a whole one.
const WIDTH_FULL: u32 = 400;
/// The height of a row.
const ROW: u32 = 20;
/// Space of a letter in a name above the badge.
const LETTER: u32 = 6;

/// A colour of the palette.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Colour(&'static str);

const GREEN: Colour = Colour("rgb(11, 97, 42)");
const RED: Colour = Colour("rgb(167, 46, 38)");
const BLUE: Colour = Colour("rgb(16, 61, 102)");
const PURPLE: Colour = Colour("rgb(115, 31, 77)");
const ORANGE: Colour = Colour("rgb(189, 115, 0)");
const GREY: Colour = Colour("rgb(41, 52, 61)");

impl Colour {
    /// The colour of a health (API-216).
    pub(super) fn of_health(health: &str) -> Self {
        match health {
            "Healthy" => GREEN,
            "Degraded" => RED,
            "Progressing" => BLUE,
            "Missing" | "Unknown" => PURPLE,
            _ => GREY,
        }
    }

    /// The colour of a sync status (API-216).
    pub(super) fn of_sync(sync: &str) -> Self {
        match sync {
            "Synced" => GREEN,
            "OutOfSync" => ORANGE,
            "Unknown" => PURPLE,
            _ => GREY,
        }
    }
}

/// A revision as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Revision {
    /// Its letters.
    pub(super) text: String,
    /// Whether it was cut.
    pub(super) is_short: bool,
}

/// What a badge says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Badge {
    pub(super) left: String,
    pub(super) left_colour: Colour,
    pub(super) right: String,
    pub(super) right_colour: Colour,
    /// The third field.
    pub(super) revision: Option<Revision>,
    /// The row above.
    pub(super) title: Option<String>,
    /// The width that somebody wants.
    pub(super) width: Option<u32>,
}

/// Draws a badge.
pub(super) fn draw(badge: &Badge) -> String {
    let revision = badge.revision.as_ref();
    let width = badge.width.unwrap_or(match revision {
        None => WIDTH,
        Some(revision) if revision.is_short => WIDTH_SHORT,
        Some(_) => WIDTH_FULL,
    });
    let title_letters = badge.title.as_ref().map_or(0, |title| length(title));
    let total = width.max(LETTER.saturating_mul(title_letters));
    // Everything moves down where there is a name above it.
    let (height, top, text_y, logo_y) =
        if badge.title.is_some() { (2 * ROW, ROW, 330, 22) } else { (ROW, 0, 130, 2) };
    let right_width = if revision.is_none() { width.saturating_sub(LEFT) } else { WIDTH - LEFT };
    let shown = revision.map(|revision| format!("({})", revision.text)).unwrap_or_default();
    let revision_width = if revision.is_some() { width.saturating_sub(WIDTH) } else { 0 };
    let revision_x = 10 * WIDTH + (length(&shown) + 1) * 62 / 2;
    let display = |is_shown: bool| if is_shown { "inline" } else { "none" };
    let (title_display, revision_display) = (display(badge.title.is_some()), display(revision.is_some()));
    let title = badge.title.as_deref().unwrap_or_default();
    let said: Vec<&str> = [title, badge.left.as_str(), badge.right.as_str(), shown.as_str()]
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect();
    let label = escape(&said.join(" "));
    let (left, right) = (escape(&badge.left), escape(&badge.right));
    let (left_fit, right_fit) =
        (fit(&badge.left, LEFT - 22), fit(&badge.right, right_width.saturating_sub(4)));
    let (title, shown) = (escape(title), escape(&shown));
    let (Colour(left_colour), Colour(right_colour), Colour(grey)) =
        (badge.left_colour, badge.right_colour, GREY);
    let (title_x, right_x) = (total * 5, 10 * LEFT + right_width * 5);
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{height}" role="img" aria-label="{label}">
<title>{label}</title>
<rect id="titleRect" x="0" y="0" width="{total}" height="{ROW}" fill="{grey}" display="{title_display}"/>
<rect id="leftRect" x="0" y="{top}" width="{LEFT}" height="{ROW}" fill="{left_colour}"/>
<rect id="rightRect" x="{LEFT}" y="{top}" width="{right_width}" height="{ROW}" fill="{right_colour}"/>
<rect id="revisionRect" x="{WIDTH}" y="{top}" width="{revision_width}" height="{ROW}" fill="{grey}" display="{revision_display}"/>
<svg id="logo" x="3" y="{logo_y}" width="16" height="16" viewBox="-8 -8 16 16"><g fill="none" stroke="#fff" stroke-width="1.4" stroke-linecap="round"><circle r="4.2"/><path d="M0-7V7M-7 0H7M-5-5 5 5M-5 5 5-5"/></g></svg>
<g fill="#fff" text-anchor="middle" font-family="DejaVu Sans,Verdana,Geneva,sans-serif" font-size="90">
<text id="titleText" x="{title_x}" y="130" transform="scale(.1)" display="{title_display}">{title}</text>
<text id="leftText" x="475" y="{text_y}" transform="scale(.1)"{left_fit}>{left}</text>
<text id="rightText" x="{right_x}" y="{text_y}" transform="scale(.1)"{right_fit}>{right}</text>
<text id="revisionText" x="{revision_x}" y="{text_y}" transform="scale(.1)" display="{revision_display}">{shown}</text>
</g>
</svg>
"##
    )
}

fn length(text: &str) -> u32 {
    u32::try_from(text.chars().count()).unwrap_or(u32::MAX / 1_000).min(u32::MAX / 1_000)
}

/// Presses a text together that would need more space than there is.
fn fit(text: &str, pixels: u32) -> String {
    let (needed, there) = (length(text).saturating_mul(58), pixels.saturating_mul(10));
    if needed <= there || there == 0 {
        return String::new();
    }
    format!(" textLength=\"{there}\" lengthAdjust=\"spacingAndGlyphs\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn badge() -> Badge {
        Badge {
            left: "Healthy".to_owned(),
            left_colour: Colour::of_health("Healthy"),
            right: "OutOfSync".to_owned(),
            right_colour: Colour::of_sync("OutOfSync"),
            revision: None,
            title: None,
            width: None,
        }
    }

    /// An attribute of an element.
    fn attribute(svg: &str, id: &str, name: &str) -> String {
        let element = svg.split('<').find(|it| it.contains(&format!("id=\"{id}\""))).unwrap();
        let element = element.split('>').next().unwrap();
        let found = element.split(&format!(" {name}=\"")).nth(1);
        found.map_or(String::new(), |rest| rest.split('"').next().unwrap().to_owned())
    }

    fn size(svg: &str) -> (String, String) {
        let root = svg.split('>').next().unwrap().replace("<svg", "<svg id=\"root\"");
        (attribute(&root, "root", "width"), attribute(&root, "root", "height"))
    }

    fn revised(text: &str, is_short: bool) -> Badge {
        Badge { revision: Some(Revision { text: text.to_owned(), is_short }), ..badge() }
    }

    #[test]
    fn api_217_a_badge_is_as_wide_as_what_it_shows() {
        let plain = draw(&badge());
        assert_eq!(size(&plain), ("131".to_owned(), "20".to_owned()));
        assert_eq!(attribute(&plain, "leftRect", "width"), "77");
        assert_eq!(attribute(&plain, "rightRect", "width"), "54");
        for id in ["revisionRect", "revisionText", "titleRect", "titleText"] {
            assert_eq!(attribute(&plain, id, "display"), "none", "{id}");
        }
        let wide = draw(&Badge { width: Some(500), ..badge() });
        assert_eq!((size(&wide).0.as_str(), attribute(&wide, "rightRect", "width").as_str()), ("500", "423"));
        let narrow = draw(&Badge { width: Some(1), ..badge() });
        assert_eq!((size(&narrow).0.as_str(), attribute(&narrow, "rightRect", "width").as_str()), ("1", "0"));
        let short = draw(&revised("aa29b85", true));
        assert_eq!(size(&short).0, "192");
        assert_eq!(attribute(&short, "revisionRect", "width"), "61");
        assert_eq!(attribute(&short, "revisionText", "x"), "1620");
        assert_eq!(attribute(&short, "revisionText", "display"), "inline");
        assert!(short.contains(">(aa29b85)</text>"));
        assert_eq!(size(&draw(&revised("v1.2", false))).0, "400");
        let set = draw(&Badge { width: Some(250), ..revised("aa29b85", true) });
        assert_eq!(
            (size(&set).0.as_str(), attribute(&set, "revisionRect", "width").as_str()),
            ("250", "119")
        );
        assert_eq!(attribute(&set, "rightRect", "width"), "54");
    }

    #[test]
    fn api_218_a_name_stands_above_and_moves_the_rest_down() {
        let named = draw(&Badge { title: Some("guestbook".to_owned()), ..badge() });
        assert_eq!(size(&named), ("131".to_owned(), "40".to_owned()));
        assert_eq!(
            (attribute(&named, "leftRect", "y"), attribute(&named, "leftText", "y")),
            ("20".into(), "330".into())
        );
        assert_eq!(attribute(&named, "logo", "y"), "22");
        assert_eq!(attribute(&named, "titleRect", "display"), "inline");
        let long = draw(&Badge { title: Some("a".repeat(50)), ..badge() });
        assert_eq!(size(&long).0, "300");
    }

    #[test]
    fn api_216_colours_say_how_it_is() {
        for (health, colour) in [
            ("Healthy", GREEN),
            ("Degraded", RED),
            ("Progressing", BLUE),
            ("Missing", PURPLE),
            ("Unknown", PURPLE),
            ("Suspended", GREY),
            ("?", GREY),
        ] {
            assert_eq!(Colour::of_health(health), colour, "{health}");
        }
        for (sync, colour) in [("Synced", GREEN), ("OutOfSync", ORANGE), ("Unknown", PURPLE), ("?", GREY)] {
            assert_eq!(Colour::of_sync(sync), colour, "{sync}");
        }
        let drawn = draw(&badge());
        assert_eq!(attribute(&drawn, "leftRect", "fill"), "rgb(11, 97, 42)");
        assert_eq!(attribute(&drawn, "rightRect", "fill"), "rgb(189, 115, 0)");
    }

    #[test]
    fn api_219_texts_are_no_markup() {
        let evil = "\"/><script>alert(1)</script>".to_owned();
        let drawn = draw(&Badge {
            left: evil.clone(),
            right: evil.clone(),
            title: Some(evil.clone()),
            ..revised(&evil, false)
        });
        assert!(!drawn.contains("<script"), "{drawn}");
        assert_eq!(
            drawn.matches("&lt;script&gt;").count(),
            12,
            "four texts, in the label, the title and their places"
        );
    }
}
