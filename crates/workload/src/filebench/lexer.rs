//! From characters to tokens.
//!
//! Built from winnow parsers over a slice that knows its place. No lexeme fails: what cannot be a token
//! becomes a [`Problem`] and is skipped, so that one pass over a script reports every bad character.
//!
//! ```text
//! blank     blanks, line breaks, # to the end of the line
//! number    digits [k|m|g]
//! negative  - digits
//! word      (letter | / . _ : ; -) (letter | digit | / . _ : ; -)*
//! variable  $name   $(name)   ${name}
//! string    " … "   with \n \$ \" \\ and variables inside
//! sign      , = { } ( )
//! ```

use winnow::combinator::{alt, dispatch, empty, fail, opt, peek, preceded, repeat};
use winnow::prelude::*;
use winnow::stream::{Location, Stream};
use winnow::token::{any, one_of, take_till, take_while};
use winnow::{LocatingSlice, Result};

use super::ast::{Piece, Text};
use super::problem::Problem;
use super::span::Span;

/// Stands for a number that could not be read, so that one mistake is told once: it fits nearly everywhere.
pub(crate) const UNREADABLE: u64 = 16;

/// A token and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Span,
    /// Whether only blanks stand before it on its line: where the parser may resume after an error.
    pub(crate) first_on_line: bool,
}

/// The kinds of tokens.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    Word(String),
    Int(u64),
    Negative(u64),
    Text(Text),
    Variable(String),
    Comma,
    Equals,
    OpenBrace,
    CloseBrace,
    OpenParen,
    CloseParen,
    End,
}

impl std::fmt::Display for TokenKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Word(word) => write!(f, "\"{word}\""),
            Self::Int(value) => write!(f, "{value}"),
            Self::Negative(value) => write!(f, "-{value}"),
            Self::Text(_) => f.write_str("a string"),
            Self::Variable(name) => write!(f, "${name}"),
            Self::Comma => f.write_str("\",\""),
            Self::Equals => f.write_str("\"=\""),
            Self::OpenBrace => f.write_str("\"{\""),
            Self::CloseBrace => f.write_str("\"}\""),
            Self::OpenParen => f.write_str("\"(\""),
            Self::CloseParen => f.write_str("\")\""),
            Self::End => f.write_str("the end of the script"),
        }
    }
}

type Input<'s> = LocatingSlice<&'s str>;

/// A token, or what kept it from being one.
type Lexeme = std::result::Result<TokenKind, Bad>;

/// Why there is no token here; the place is added by the loop in [`tokens`].
#[derive(Clone, Debug, PartialEq)]
enum Bad {
    Character(char),
    Operator,
    UnclosedString,
    Number(String),
    VariableName,
}

impl Bad {
    /// What the parser sees instead, so that it does not stumble over the same place.
    fn stand_in(&self) -> Option<TokenKind> {
        match self {
            Self::Number(_) => Some(TokenKind::Int(UNREADABLE)),
            Self::UnclosedString => Some(TokenKind::Text(Text::default())),
            Self::VariableName | Self::Character(_) | Self::Operator => None,
        }
    }

    fn at(self, at: Span) -> Problem {
        match self {
            Self::Character(found) => Problem::Character { found, at },
            Self::Operator => Problem::Arithmetic { at },
            Self::UnclosedString => Problem::UnclosedString { at },
            Self::Number(text) => Problem::Number { help: number_help(&text), text, at },
            Self::VariableName => Problem::VariableName { at },
        }
    }
}

/// All tokens of `source`, the last of them [`TokenKind::End`], and what was skipped.
pub(crate) fn tokens(source: &str) -> (Vec<Token>, Vec<Problem>) {
    let mut input = LocatingSlice::new(source);
    let (mut tokens, mut problems) = (Vec::new(), Vec::new());
    let mut line_end = 0;
    loop {
        let _ = blank(&mut input);
        let start = input.current_token_start();
        let first_on_line = start == 0 || source[line_end..start].contains('\n') || tokens.is_empty();
        let Ok(lexeme) = lexeme(&mut input) else {
            tokens.push(Token { kind: TokenKind::End, span: Span::new(start, start), first_on_line: true });
            return (tokens, problems);
        };
        let span = Span::new(start, input.current_token_start());
        line_end = span.end;
        match lexeme {
            Ok(kind) => tokens.push(Token { kind, span, first_on_line }),
            Err(bad) => {
                tokens.extend(bad.stand_in().map(|kind| Token { kind, span, first_on_line }));
                problems.push(bad.at(span));
            }
        }
    }
}

fn blank(input: &mut Input<'_>) -> Result<()> {
    let space = take_while(1.., |letter: char| letter.is_ascii_whitespace()).void();
    let comment = preceded('#', take_till(0.., '\n')).void();
    repeat::<_, _, (), _, _>(0.., alt((space, comment))).parse_next(input)
}

/// One lexeme; fails only at the end of the input.
fn lexeme(input: &mut Input<'_>) -> Result<Lexeme> {
    dispatch! { peek(any);
        ',' => any.value(Ok(TokenKind::Comma)),
        '=' => any.value(Ok(TokenKind::Equals)),
        '{' => any.value(Ok(TokenKind::OpenBrace)),
        '}' => any.value(Ok(TokenKind::CloseBrace)),
        '(' => any.value(Ok(TokenKind::OpenParen)),
        ')' => any.value(Ok(TokenKind::CloseParen)),
        '+' | '*' => any.value(Err(Bad::Operator)),
        '$' => variable.map(|name| name.map(TokenKind::Variable)),
        '"' => string,
        '0'..='9' => number,
        letter if is_word(letter) => word,
        _ => any.map(|letter| Err(Bad::Character(letter))),
    }
    .parse_next(input)
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "/._:;-".contains(letter)
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// A word, or a negative number.
fn word(input: &mut Input<'_>) -> Result<Lexeme> {
    let text = take_while(1.., is_word).parse_next(input)?;
    let digits = text.strip_prefix('-').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    Ok(match digits {
        Some(digits) => match value_of(digits) {
            Some(value) => Ok(TokenKind::Negative(value)),
            None => Err(Bad::Number(text.to_owned())),
        },
        None if text == "-" || text == "/" => Err(Bad::Operator),
        None => Ok(TokenKind::Word(text.to_owned())),
    })
}

/// A number; anything stuck to it is part of the mistake.
fn number(input: &mut Input<'_>) -> Result<Lexeme> {
    let text = take_while(1.., is_word).parse_next(input)?;
    Ok(value_of(text).map(TokenKind::Int).ok_or_else(|| Bad::Number(text.to_owned())))
}

/// The value of digits with at most one suffix; none when it is not that, or does not fit.
fn value_of(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], 10),
        b'm' => (&text[..text.len() - 1], 20),
        b'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << shift).filter(|&value| i64::try_from(value).is_ok())
}

fn number_help(text: &str) -> String {
    let text = text.trim_start_matches('-');
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, suffix) = text.split_at(digits);
    let lower = |letter: char| format!("suffixes are one lower-case letter: {digits}{letter}");
    match suffix.to_ascii_lowercase().as_str() {
        _ if matches!(suffix, "" | "k" | "m" | "g") => "it does not fit into 63 bits".to_owned(),
        "k" | "kb" | "ki" | "kib" => lower('k'),
        "m" | "mb" | "mi" | "mib" => lower('m'),
        "g" | "gb" | "gi" | "gib" => lower('g'),
        "t" | "tb" | "ti" | "tib" => "there is no suffix for 2^40; 1024g is that".to_owned(),
        fraction if fraction.starts_with('.') => {
            "there are no fractions; a gamma is written in thousandths (1500 for 1.5)".to_owned()
        }
        _ => "a bare word cannot start with a digit; quote it".to_owned(),
    }
}

/// `$name`, `$(name)` or `${name}`.
fn variable(input: &mut Input<'_>) -> Result<std::result::Result<String, Bad>> {
    '$'.parse_next(input)?;
    let before = input.checkpoint();
    if let Ok(name) = named(input) {
        return Ok(Ok(name.to_owned()));
    }
    input.reset(&before);
    Ok(Err(Bad::VariableName))
}

fn named<'s>(input: &mut Input<'s>) -> Result<&'s str> {
    let open = opt(one_of(['(', '{'])).parse_next(input)?;
    let name =
        (one_of(|c: char| c.is_ascii_alphabetic()), take_while(0.., is_name)).take().parse_next(input)?;
    match open {
        Some('(') => ')'.void().parse_next(input)?,
        Some('{') => '}'.void().parse_next(input)?,
        _ => {}
    }
    Ok(name)
}

/// A quoted string; without its closing quote the rest of the line is lost.
fn string(input: &mut Input<'_>) -> Result<Lexeme> {
    '"'.parse_next(input)?;
    let mut text = Text::default();
    loop {
        if opt('"').parse_next(input)?.is_some() {
            return Ok(Ok(TokenKind::Text(text)));
        }
        let before = input.checkpoint();
        match piece(input) {
            Ok(Piece::Literal(letters)) => text.push_str(&letters),
            Ok(variable @ Piece::Variable(_)) => text.pieces.push(variable),
            Err(_) => {
                input.reset(&before);
                take_till(0.., '\n').parse_next(input)?;
                return Ok(Err(Bad::UnclosedString));
            }
        }
    }
}

/// Part of a string; fails at the end of the line.
fn piece(input: &mut Input<'_>) -> Result<Piece> {
    dispatch! { peek(any);
        '\n' => fail,
        '$' => variable.map(|name| name.map_or_else(|_| Piece::Literal("$".to_owned()), Piece::Variable)),
        '\\' => escape.map(Piece::Literal),
        _ => plain.map(Piece::Literal),
    }
    .parse_next(input)
}

fn plain(input: &mut Input<'_>) -> Result<String> {
    take_till(1.., ['"', '\\', '$', '\n']).map(str::to_owned).parse_next(input)
}

/// `\n`, `\$`, `\"` or `\\`; any other backslash is itself.
fn escape(input: &mut Input<'_>) -> Result<String> {
    let line_break = 'n'.value("\n".to_owned());
    let letter = one_of(['$', '"', '\\']).map(String::from);
    preceded('\\', alt((line_break, letter, empty.value("\\".to_owned())))).parse_next(input)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(source: &str) -> Vec<TokenKind> {
        let (tokens, problems) = tokens(source);
        assert_eq!(problems, [], "{source}");
        tokens.into_iter().map(|token| token.kind).collect()
    }

    fn problem(source: &str) -> String {
        let (_, problems) = tokens(source);
        assert_eq!(problems.len(), 1, "{source}: {problems:?}");
        format!("{}; {}", problems[0], problems[0].help().unwrap_or_default())
    }

    #[test]
    fn numbers_take_the_suffixes_k_m_g_as_powers_of_1024() {
        use TokenKind::{End, Int, Negative};
        assert_eq!(
            kinds("7 3k 2m 1g -10"),
            [Int(7), Int(3072), Int(2 << 20), Int(1 << 30), Negative(10), End]
        );
    }

    #[test]
    fn every_form_of_a_variable_is_its_name() {
        let name = TokenKind::Variable("dir".into());
        assert_eq!(kinds("$dir $(dir) ${dir}"), [name.clone(), name.clone(), name, TokenKind::End]);
        assert_eq!(kinds("$(x)"), [TokenKind::Variable("x".into()), TokenKind::End]);
    }

    #[test]
    fn bare_words_hold_paths_and_parameter_lists() {
        let word = |text: &str| TokenKind::Word(text.into());
        assert_eq!(
            kinds("/tmp/a-b.c mean:16384;gamma:1.5"),
            [word("/tmp/a-b.c"), word("mean:16384;gamma:1.5"), TokenKind::End]
        );
    }

    #[test]
    fn strings_resolve_escapes_and_keep_variables_apart() {
        let tokens = kinds(r#""a\n\$b $dir!""#);
        let TokenKind::Text(text) = &tokens[0] else { panic!("{tokens:?}") };
        let pieces =
            [Piece::Literal("a\n$b ".into()), Piece::Variable("dir".into()), Piece::Literal("!".into())];
        assert_eq!(text.pieces, pieces);
    }

    #[test]
    fn comments_and_line_breaks_are_blank() {
        assert_eq!(kinds("# one\n\n , # two"), [TokenKind::Comma, TokenKind::End]);
        assert_eq!(kinds(""), [TokenKind::End]);
    }

    #[test]
    fn bad_numbers_say_how_to_write_them() {
        assert!(problem("5K").contains("5k"));
        assert!(problem("16KiB").contains("16k"));
        assert!(problem("2t").contains("1024g"));
        assert!(problem("1.5").contains("thousandths"));
        assert!(problem("99999999999999999999").contains("63 bits"));
        assert!(problem("9223372036854775807g").contains("63 bits"));
        assert!(problem("2files").contains("quote"));
    }

    #[test]
    fn bad_characters_do_not_hide_later_ones() {
        let (tokens, problems) = tokens("a ! b @ \"open\nc $ d");
        assert_eq!(problems.len(), 4, "{problems:?}");
        assert_eq!(tokens.len(), 6, "four words, the unclosed string, the end");
    }

    #[test]
    fn only_the_first_token_of_a_line_is_marked() {
        let (tokens, _) = tokens("a b\n  c # x\nd");
        let marks: Vec<bool> = tokens.iter().map(|token| token.first_on_line).collect();
        assert_eq!(marks, [true, false, true, true, true]);
    }
}
