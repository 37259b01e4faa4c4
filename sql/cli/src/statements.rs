//! Splits a text into SQL statements at the semicolons that end them.

/// The statements of a text, without the semicolons; `rest` is what follows the last one.
#[derive(Debug, PartialEq, Eq)]
pub struct Split<'a> {
    /// Statements that end with a semicolon. None of them is blank.
    pub complete: Vec<&'a str>,
    /// Text after the last semicolon, trimmed; comments alone count as nothing.
    pub rest: &'a str,
}

/// Splits `text`. A semicolon in a string, a quoted name or a comment ends nothing.
pub fn split(text: &str) -> Split<'_> {
    let mut complete = Vec::new();
    let mut start = 0;
    let mut blank = true;
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let next = characters.peek().map(|&(_, next)| next);
        match (character, next) {
            ('-', Some('-')) => skip_while(&mut characters, |c| c != '\n'),
            ('/', Some('*')) => skip_block_comment(&mut characters),
            ('\'' | '"', _) => {
                blank = false;
                // A doubled quote is two strings next to each other for this purpose.
                skip_while(&mut characters, |c| c != character);
                characters.next();
            }
            (';', _) => {
                if !blank {
                    complete.push(text[start..at].trim());
                }
                start = at + 1;
                blank = true;
            }
            _ => blank &= character.is_whitespace(),
        }
    }
    Split {
        complete,
        rest: if blank { "" } else { text[start..].trim() },
    }
}

/// The statements of a text; the last one needs no semicolon.
pub fn statements(text: &str) -> Vec<&str> {
    let Split { mut complete, rest } = split(text);
    if !rest.is_empty() {
        complete.push(rest);
    }
    complete
}

type Characters<'a> = std::iter::Peekable<std::str::CharIndices<'a>>;

fn skip_while(characters: &mut Characters<'_>, condition: impl Fn(char) -> bool) {
    while characters.next_if(|&(_, c)| condition(c)).is_some() {}
}

fn skip_block_comment(characters: &mut Characters<'_>) {
    characters.next();
    while let Some((_, character)) = characters.next() {
        if character == '*' && characters.next_if(|&(_, c)| c == '/').is_some() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Split, split, statements};

    fn check(text: &str, expect: &[&str]) {
        assert_eq!(statements(text), expect, "{text:?}");
    }

    #[test]
    fn splits_at_semicolons() {
        check("select 1; select 2", &["select 1", "select 2"]);
        check("select 1;\n\n;;\n", &["select 1"]);
        check("", &[]);
    }

    #[test]
    fn strings_names_and_comments_hide_semicolons() {
        check(
            "select ';', \";\"; select 'it''s;'",
            &["select ';', \";\"", "select 'it''s;'"],
        );
        check("-- a; b\nselect 1 /* ; */;", &["-- a; b\nselect 1 /* ; */"]);
        check("-- only; a comment\n", &[]);
        check("/* open ;", &[]);
    }

    #[test]
    fn an_open_statement_is_the_rest() {
        let expect = Split {
            complete: vec!["select 1"],
            rest: "select 'a;",
        };
        assert_eq!(split("select 1; select 'a;"), expect);
    }
}
