//! Writes HTML: all tags are closed, text is escaped.

use crate::figure::escaped;

/// A page, written from top to bottom.
#[derive(Default)]
pub struct Page {
    html: String,
    open: Vec<&'static str>,
}

impl Page {
    /// Returns the page.
    ///
    /// # Panics
    /// If an element is still open.
    pub fn finish(self) -> String {
        assert!(self.open.is_empty(), "{:?} never end", self.open);
        self.html
    }

    /// Appends markup unchanged.
    pub fn raw(&mut self, markup: &str) {
        self.html.push_str(markup);
    }

    /// Appends text, escaped.
    pub fn text(&mut self, text: &str) {
        self.html.push_str(&escaped(text));
    }

    /// Opens an element; `class` may be empty.
    pub fn open(&mut self, tag: &'static str, class: &str) {
        let attributes = match class {
            "" => String::new(),
            class => format!(" class=\"{class}\""),
        };
        self.open_with(tag, &attributes);
    }

    /// Opens an element with attributes, each preceded by a space.
    pub fn open_with(&mut self, tag: &'static str, attributes: &str) {
        self.html.push_str(&format!("<{tag}{attributes}>"));
        self.open.push(tag);
    }

    /// Closes the element that was opened last.
    ///
    /// # Panics
    /// If that element has another tag.
    pub fn close(&mut self, tag: &'static str) {
        assert_eq!(self.open.pop(), Some(tag), "it was opened last");
        self.html.push_str(&format!("</{tag}>\n"));
    }

    /// An element that contains text.
    pub fn element(&mut self, tag: &'static str, class: &str, text: &str) {
        self.open(tag, class);
        self.text(text);
        self.open.pop();
        self.html.push_str(&format!("</{tag}>"));
        if !matches!(tag, "code" | "strong" | "a" | "span") {
            self.html.push('\n');
        }
    }

    /// A paragraph.
    pub fn paragraph(&mut self, text: &str) {
        self.element("p", "", text);
    }

    /// An element whose text begins with words in bold.
    pub fn reported(&mut self, tag: &'static str, class: &str, bold: &str, text: &str) {
        self.open(tag, class);
        self.element("strong", "", bold);
        self.text(text);
        self.close(tag);
    }

    /// A list whose items begin with words in bold.
    pub fn list(&mut self, class: &str, items: impl IntoIterator<Item = (String, String)>) {
        self.open("ul", class);
        for (bold, text) in items {
            self.reported("li", "", &bold, &text);
        }
        self.close("ul");
    }

    /// A link within the page.
    pub fn link(&mut self, target: &str, text: &str) {
        let attributes = format!(" href=\"#{}\"", escaped(target));
        self.open_with("a", &attributes);
        self.text(text);
        self.open.pop();
        self.html.push_str("</a>");
    }

    /// Opens a table with these heads (class and text); a table that is too wide scrolls.
    pub fn table(&mut self, class: &str, heads: &[(&str, &str)]) {
        self.open("div", "scroll");
        self.open("table", class);
        self.open("thead", "");
        self.open("tr", "");
        for (class, head) in heads {
            self.element("th", class, head);
        }
        self.close("tr");
        self.close("thead");
        self.open("tbody", "");
    }

    /// Closes the table.
    pub fn table_end(&mut self) {
        self.close("tbody");
        self.close("table");
        self.close("div");
    }
}
