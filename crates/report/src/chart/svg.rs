//! The element writer: rounds coordinates to a tenth of a pixel and escapes text.

use super::Size;
use std::fmt::Write as _;

/// An SVG element being written.
pub(super) struct Svg {
    pub(super) size: Size,
    body: String,
}

/// Which end of a text stands at its position.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    pub(super) fn new(size: Size) -> Self {
        Self { size, body: String::new() }
    }

    pub(super) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let (x1, y1, x2, y2) = (n(x1), n(y1), n(x2), n(y2));
        self.push(&format!(r#"<line class="{class}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>"#));
    }

    /// A rectangle with a tooltip; one without text has none.
    pub(super) fn rect(&mut self, class: &str, (x, y): (f64, f64), (w, h): (f64, f64), title: &str) {
        let (x, y, w, h) = (n(x), n(y), n(w.max(0.0)), n(h.max(0.0)));
        self.push(&format!(r#"<rect class="{class}" x="{x}" y="{y}" width="{w}" height="{h}""#));
        self.close("rect", title);
    }

    /// A rectangle whose colour is only as dense as `shade`, from 0 to 1.
    pub(super) fn shaded(
        &mut self,
        class: &str,
        (x, y): (f64, f64),
        (w, h): (f64, f64),
        shade: f64,
        title: &str,
    ) {
        let (x, y, w, h) = (n(x), n(y), n(w.max(0.0)), n(h.max(0.0)));
        let shade = (shade * 100.0).round() / 100.0;
        self.push(&format!(
            r#"<rect class="{class}" x="{x}" y="{y}" width="{w}" height="{h}" fill-opacity="{shade}""#
        ));
        self.close("rect", title);
    }

    pub(super) fn path(&mut self, class: &str, d: &str, title: &str) {
        self.push(&format!(r#"<path class="{class}" d="{d}""#));
        self.close("path", title);
    }

    fn close(&mut self, element: &str, title: &str) {
        if title.is_empty() {
            self.body.push_str("/>\n");
        } else {
            self.push(&format!("><title>{}</title></{element}>", escape(title)));
        }
    }

    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = anchor.name();
        let (x, y, text) = (n(x), n(y), escape(text));
        self.push(&format!(r#"<text class="{class}" x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>"#));
    }

    /// A text that ends at its position and rises to it.
    pub(super) fn slanted(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let (x, y, text) = (n(x), n(y), escape(text));
        let place = format!("translate({x} {y}) rotate(-35)");
        self.push(&format!(r#"<text class="{class}" transform="{place}" text-anchor="end">{text}</text>"#));
    }

    /// A text that rises from its position.
    pub(super) fn upright(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let (x, y, text) = (n(x), n(y), escape(text));
        self.push(&format!(
            r#"<text class="{class}" transform="translate({x} {y}) rotate(-90)">{text}</text>"#
        ));
    }

    fn push(&mut self, element: &str) {
        self.body.push_str(element);
        if element.ends_with('>') {
            self.body.push('\n');
        }
    }

    /// The element, with `description` as its text alternative.
    pub(super) fn finish(self, description: &str) -> String {
        let Size { class, width, height, font } = self.size;
        let mut svg = String::new();
        writeln!(
            svg,
            "<svg class=\"chart {class}\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {} {}\" \
             width=\"{}\" height=\"{}\" font-size=\"{}\">",
            escape(description),
            n(width),
            n(height),
            n(width),
            n(height),
            n(font)
        )
        .expect("a string takes every byte");
        svg + &self.body + "</svg>"
    }

    /// The width that `text` takes, near enough to keep labels apart.
    pub(super) fn text_width(&self, text: &str) -> f64 {
        text.chars().count() as f64 * self.size.font * 0.58
    }
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// A coordinate. One that is no number would void the drawing, so it is drawn at 0.
pub(super) fn n(value: f64) -> String {
    let rounded = if value.is_finite() { (value * 10.0).round() / 10.0 } else { 0.0 };
    if rounded == 0.0 { "0".to_owned() } else { format!("{rounded}") }
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short_and_finite() {
        assert_eq!([n(1.0), n(1.26), n(-0.04), n(f64::NAN)], ["1", "1.3", "0", "0"]);
    }

    #[test]
    fn text_cannot_end_its_element() {
        let mut svg = Svg::new(super::super::SMALL);
        svg.rect("b", (0.0, 0.0), (1.0, 1.0), "a<b> \"c\" & d");
        assert!(svg.finish("x").contains("<title>a&lt;b&gt; &quot;c&quot; &amp; d</title>"));
    }
}
