//! Reads JSON quickly, or not at all.
//!
//! A mail's body is one long text with an escape or two at the end of every line. Reading it takes two
//! thirds of the steps here that it takes `serde_json`, and no room that has to grow. In return
//! nothing is explained: whatever is not in order, or out of the ordinary, is refused, and
//! `serde_json` has the last word. So this may refuse anything; it must never take what `serde_json`
//! refuses, nor read it otherwise.

use std::borrow::Cow;
use std::fmt;

use memchr::{memchr, memchr_iter};
use serde::de::value::{CowStrDeserializer, StrDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde_json::Number;

/// So deep values may be nested; `serde_json` goes deeper.
const DEEPEST: u8 = 64;

/// The whole text as a value, if there is nothing about it that has to be explained.
pub(super) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    let mut reader = Reader {
        rest: std::str::from_utf8(bytes).ok()?,
        depth: 0,
    };
    let value = T::deserialize(&mut reader).ok()?;
    reader.peek().is_none().then_some(value)
}

/// Not read. Why is for others to say.
#[derive(Debug)]
struct Refused;

type Result<T> = std::result::Result<T, Refused>;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not read")
    }
}

impl std::error::Error for Refused {}

impl serde::de::Error for Refused {
    fn custom<T: fmt::Display>(_why: T) -> Self {
        Self
    }
}

/// What is not read yet.
struct Reader<'de> {
    rest: &'de str,
    depth: u8,
}

impl<'de> Reader<'de> {
    /// The next character that is not white space.
    fn peek(&mut self) -> Option<u8> {
        self.rest = self.rest.trim_start_matches([' ', '\n', '\r', '\t']);
        self.rest.bytes().next()
    }

    /// Takes what must come next.
    fn expect(&mut self, word: &str) -> Result<()> {
        self.rest = self.rest.strip_prefix(word).ok_or(Refused)?;
        Ok(())
    }

    /// Goes on only if a value of this kind comes next.
    fn only(&mut self, is_of_kind: impl Fn(u8) -> bool) -> Result<&mut Self> {
        self.peek()
            .filter(|&next| is_of_kind(next))
            .ok_or(Refused)?;
        Ok(self)
    }

    /// A text, whose opening quote comes next.
    fn text(&mut self) -> Result<Cow<'de, str>> {
        self.expect("\"")?;
        let is_end = |at: &usize| {
            let before = self.rest.as_bytes()[..*at].iter().rev();
            before.take_while(|&&byte| byte == b'\\').count() % 2 == 0
        };
        let end = memchr_iter(b'"', self.rest.as_bytes()).find(is_end);
        let (text, rest) = self.rest.split_at(end.ok_or(Refused)?);
        self.rest = &rest[1..];
        // Without a way out of the middle, so that it can be vectorised.
        let has_control = |found, byte: u8| found | (byte < b' ');
        if text.bytes().fold(false, has_control) {
            return Err(Refused);
        }
        match memchr(b'\\', text.as_bytes()) {
            None => Ok(Cow::Borrowed(text)),
            Some(at) => unescaped(text, at).map(Cow::Owned),
        }
    }

    fn number(&mut self) -> Result<Number> {
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let length = self.rest.bytes().take_while(|byte| is_part(byte)).count();
        let (number, rest) = self.rest.split_at(length);
        self.rest = rest;
        serde_json::from_str(number).map_err(|_| Refused)
    }

    /// What is inside of a pair of brackets.
    fn inside<T>(
        &mut self,
        (open, close): (&str, &str),
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        self.expect(open)?;
        if self.depth == DEEPEST {
            return Err(Refused);
        }
        self.depth += 1;
        let value = read(self)?;
        self.depth -= 1;
        self.peek();
        self.expect(close)?;
        Ok(value)
    }
}

/// What is meant by a text without its quotes. The first escape is at `at`.
fn unescaped(text: &str, mut at: usize) -> Result<String> {
    let mut meant = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        meant.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let (character, length) = escaped(rest)?;
        meant.push(character);
        rest = &rest[length..];
        // The ends of lines are escapes next to each other.
        at = match rest.as_bytes() {
            [b'\\', ..] => 0,
            bytes => match memchr(b'\\', bytes) {
                Some(at) => at,
                None => break,
            },
        };
    }
    meant.push_str(rest);
    Ok(meant)
}

/// The character that is written behind a backslash, and how long it is there.
fn escaped(rest: &str) -> Result<(char, usize)> {
    let character = match rest.bytes().next().ok_or(Refused)? {
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        byte @ (b'"' | b'\\' | b'/') => byte.into(),
        b'u' => return numbered(rest),
        _ => return Err(Refused),
    };
    Ok((character, 1))
}

/// The same by its number in UTF-16, of which it may take two.
fn numbered(rest: &str) -> Result<(char, usize)> {
    let unit = |at: usize| {
        let digits = rest.get(at..at + 4).ok_or(Refused)?;
        // `from_str_radix` would take a sign.
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Refused);
        }
        u16::from_str_radix(digits, 16).map_err(|_| Refused)
    };
    let first = unit(1)?;
    if let Some(character) = char::from_u32(first.into()) {
        return Ok((character, 5));
    }
    if rest.get(5..7) != Some("\\u") {
        return Err(Refused);
    }
    match char::decode_utf16([first, unit(7)?]).next() {
        Some(Ok(character)) => Ok((character, 11)),
        _ => Err(Refused),
    }
}

fn begins_number(byte: u8) -> bool {
    byte == b'-' || byte.is_ascii_digit()
}

/// What a caller asks for is read only if it is of that kind.
macro_rules! only {
    ($is_of_kind:expr => $($name:ident)*) => {$(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            self.only($is_of_kind)?.deserialize_any(visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Refused;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.peek().ok_or(Refused)? {
            b'"' => match self.text()? {
                Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
                Cow::Owned(text) => visitor.visit_string(text),
            },
            b'{' => self.inside(("{", "}"), |reader| visitor.visit_map(Entries::of(reader))),
            b'[' => self.inside(("[", "]"), |reader| visitor.visit_seq(Entries::of(reader))),
            b'n' => self.expect("null").and_then(|()| visitor.visit_unit()),
            b't' => self.expect("true").and_then(|()| visitor.visit_bool(true)),
            b'f' => self
                .expect("false")
                .and_then(|()| visitor.visit_bool(false)),
            next if begins_number(next) => {
                let number = self.number()?;
                if let Some(number) = number.as_u64() {
                    visitor.visit_u64(number)
                } else if let Some(number) = number.as_i64() {
                    visitor.visit_i64(number)
                } else {
                    visitor.visit_f64(number.as_f64().ok_or(Refused)?)
                }
            }
            _ => Err(Refused),
        }
    }

    only!(|next| next == b'"' => deserialize_str deserialize_string deserialize_char deserialize_identifier);
    only!(|next| next == b'{' => deserialize_map);
    only!(|next| next == b'[' => deserialize_seq);
    only!(|next| next == b'n' => deserialize_unit);
    only!(|next| next == b't' || next == b'f' => deserialize_bool);
    only!(begins_number => deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_f64);
    // Hardly anyone asks for these.
    only!(|_| false => deserialize_u128 deserialize_i128 deserialize_f32 deserialize_bytes deserialize_byte_buf);

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.peek() {
            Some(b'n') => self.expect("null").and_then(|()| visitor.visit_none()),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        let name = self.only(|next| next == b'"')?.text()?;
        visitor.visit_enum(IntoDeserializer::<Refused>::into_deserializer(&*name))
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value> {
        self.deserialize_seq(visitor)
    }
}

/// The entries of a list or an object.
struct Entries<'r, 'de> {
    reader: &'r mut Reader<'de>,
    is_first: bool,
}

impl<'r, 'de> Entries<'r, 'de> {
    const fn of(reader: &'r mut Reader<'de>) -> Self {
        Self {
            reader,
            is_first: true,
        }
    }

    /// Whether there is another one, which then comes next.
    fn goes_on(&mut self, close: u8) -> Result<bool> {
        let next = self.reader.peek().ok_or(Refused)?;
        if next == close {
            return Ok(false);
        }
        if !std::mem::take(&mut self.is_first) {
            self.reader.expect(",")?;
            self.reader.peek();
        }
        Ok(true)
    }
}

impl<'de> SeqAccess<'de> for Entries<'_, 'de> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        match self.goes_on(b']')? {
            true => seed.deserialize(&mut *self.reader).map(Some),
            false => Ok(None),
        }
    }
}

impl<'de> MapAccess<'de> for Entries<'_, 'de> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        if !self.goes_on(b'}')? {
            return Ok(None);
        }
        match self.reader.text()? {
            Cow::Borrowed(key) => seed.deserialize(StrDeserializer::new(key)),
            Cow::Owned(key) => seed.deserialize(CowStrDeserializer::new(key.into())),
        }
        .map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        self.reader.peek();
        self.reader.expect(":")?;
        seed.deserialize(&mut *self.reader)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::*;

    /// What JSON is made of, and what only looks like it.
    #[rustfmt::skip]
    const PIECES: [&str; 54] = [
        "{", "}", "[", "]", ",", ":", "\"", "\"\"", "\"a\"", "\"b\":", "{\"a\":", "\\", "\\\\", "\\\"", "\\n", "\\r\\n",
        "\\u", "\\u0041", "\\u+041", "\\ud83d\\ude00", "\\ud83d", "\\udc00", "\\uD800\\u0041", "\\u00e", "\\/", "\\x", "é", "😀",
        " ", "\n", "\t", "\u{b}", "\u{7f}", "\0", "0", "-0", "-", "01", "1.5", "1.", ".5", "1e3", "1E+2", "1e999", "1e",
        "18446744073709551615", "18446744073709551616", "-9223372036854775809", "true", "tru", "false", "null", "nul", "NaN",
    ];

    /// Reads as `serde_json` does, or leaves it to it.
    fn agrees(bytes: &[u8]) {
        if let Some(value) = read::<Value>(bytes) {
            let theirs: Value = serde_json::from_slice(bytes)
                .unwrap_or_else(|error| panic!("{error}: {}", bytes.escape_ascii()));
            assert_eq!(value, theirs, "{}", bytes.escape_ascii());
            assert_eq!(value.to_string(), theirs.to_string());
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let plain = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        plain.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..6).prop_map(Value::from),
                vec((any::<String>(), inner), 0..6)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn what_is_in_order_is_read(value in any_value(), is_pretty in any::<bool>()) {
            let text = if is_pretty { format!("{value:#}") } else { value.to_string() };
            let theirs: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(read::<Value>(text.as_bytes()), Some(theirs));
        }

        #[test]
        fn whatever_comes_is_read_as_serde_json_does_or_left_to_it(
            pieces in vec(select(&PIECES[..]), 0..12),
        ) {
            agrees(pieces.concat().as_bytes());
            agrees(format!("\"{}\"", pieces.concat()).as_bytes());
            agrees(format!("[{}]", pieces.concat()).as_bytes());
        }

        #[test]
        fn a_text_with_an_octet_changed_is_read_as_serde_json_does_or_left_to_it(
            value in any_value(), at in any::<prop::sample::Index>(), octet in any::<u8>(),
        ) {
            let mut bytes = value.to_string().into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = octet;
            agrees(&bytes);
        }
    }

    #[test]
    fn what_has_to_be_explained_is_left_to_others() {
        for text in [
            "",
            " ",
            "1 2",
            "{\"a\":1}}",
            "\"\t\"",
            "[1,]",
            "{\"a\":1,}",
            "{a:1}",
            "\"\\ud800\"",
            "\"\\",
            "\"",
            "{\"a\" 1}",
            "nullx",
        ] {
            assert!(read::<Value>(text.as_bytes()).is_none(), "{text}");
        }
        assert!(read::<Value>(b"\"\xff\"").is_none());
        assert!(read::<&RawValue>(b"1").is_none());
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(read::<Value>(deep(64).as_bytes()).is_some());
        assert!(read::<Value>(deep(65).as_bytes()).is_none());
    }

    #[test]
    fn a_kind_that_was_not_asked_for_is_left_to_others() {
        assert!(read::<String>(b"1").is_none());
        assert!(read::<u32>(b"\"1\"").is_none());
        assert!(read::<u32>(b"4294967296").is_none());
        assert!(read::<u32>(b"1.0").is_none());
        assert!(read::<Vec<u32>>(b"{}").is_none());
        assert!(read::<(u32,)>(b"[1,2]").is_none());
        assert!(read::<bool>(b"null").is_none());
        assert_eq!(read::<Option<bool>>(b" null "), Some(None));
        assert_eq!(
            read::<(u32, Option<String>)>(b"[1,\"a\"]"),
            Some((1, Some("a".into())))
        );
    }

    #[test]
    fn an_email_is_read() {
        let text = "line\r\n\u{1F600} \"quoted\" \\ \u{1}\r\n".repeat(50);
        let email = json!({"from": "a@example.org", "to": ["b@example.org"], "text": text});
        let email = email.to_string();
        let read = read::<super::super::Object<crate::body::NewEmailBody>>(email.as_bytes());
        assert!(read.is_some());
    }
}
