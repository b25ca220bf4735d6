//! Headers, between RabbitMQ's types and ours.

use lapin::types::{AMQPValue, DecimalValue, FieldArray, FieldTable, ShortString};
use posthaste_core::message::{HeaderValue, Headers};

/// Headers by which RabbitMQ would route a message to more queues than one.
pub(super) const ROUTING: [&str; 2] = ["CC", "BCC"];

/// How deep lists and tables may be nested.
const DEEPEST: usize = 16;

/// Headers that are nested too deep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("are nested more than {DEEPEST} deep; make them flat")]
pub(super) struct TooDeep;

/// Reads headers.
pub(super) fn read(table: &FieldTable) -> Result<Headers, TooDeep> {
    read_table(table, DEEPEST)
}

fn read_table(table: &FieldTable, depth: usize) -> Result<Headers, TooDeep> {
    let read = |(name, value): (&ShortString, &AMQPValue)| {
        Ok((name.to_string(), read_value(value, depth)?))
    };
    table.into_iter().map(read).collect()
}

fn read_value(value: &AMQPValue, depth: usize) -> Result<HeaderValue, TooDeep> {
    Ok(match value {
        AMQPValue::Void => HeaderValue::Void,
        AMQPValue::Boolean(value) => HeaderValue::Boolean(*value),
        AMQPValue::ShortShortInt(value) => HeaderValue::Integer((*value).into()),
        AMQPValue::ShortShortUInt(value) => HeaderValue::Integer((*value).into()),
        AMQPValue::ShortInt(value) => HeaderValue::Integer((*value).into()),
        AMQPValue::ShortUInt(value) => HeaderValue::Integer((*value).into()),
        AMQPValue::LongInt(value) => HeaderValue::Integer((*value).into()),
        AMQPValue::LongUInt(value) => HeaderValue::Integer((*value).into()),
        AMQPValue::LongLongInt(value) => HeaderValue::Integer(*value),
        AMQPValue::Float(value) => read_number((*value).into()),
        AMQPValue::Double(value) => read_number(*value),
        AMQPValue::DecimalValue(value) => HeaderValue::Text(decimal_text(*value)),
        AMQPValue::ShortString(text) => text.as_str().into(),
        AMQPValue::LongString(text) => match str::from_utf8(text.as_bytes()) {
            Ok(text) => text.into(),
            Err(_) => HeaderValue::Bytes(text.as_bytes().to_vec()),
        },
        AMQPValue::ByteArray(bytes) => HeaderValue::Bytes(bytes.as_slice().to_vec()),
        AMQPValue::Timestamp(seconds) => HeaderValue::Timestamp(*seconds),
        AMQPValue::FieldArray(values) => {
            let depth = depth.checked_sub(1).ok_or(TooDeep)?;
            let values = values.as_slice().iter();
            let values: Result<_, _> = values.map(|value| read_value(value, depth)).collect();
            HeaderValue::List(values?)
        }
        AMQPValue::FieldTable(table) => {
            let depth = depth.checked_sub(1).ok_or(TooDeep)?;
            HeaderValue::Table(read_table(table, depth)?)
        }
    })
}

/// What is no number is kept as a text, because stores cannot keep it as a number.
fn read_number(number: f64) -> HeaderValue {
    if number.is_finite() {
        HeaderValue::Double(number)
    } else {
        HeaderValue::Text(number.to_string())
    }
}

/// A decimal without loss, such as `12.50`.
fn decimal_text(DecimalValue { scale, value }: DecimalValue) -> String {
    let scale = usize::from(scale);
    let mut digits = format!("{value:0>width$}", width = scale + 1);
    if scale > 0 {
        digits.insert(digits.len() - scale, '.');
    }
    digits
}

/// Writes headers. A name that AMQP cannot carry is left out.
pub(super) fn write(headers: &Headers) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in headers {
        if let Ok(name) = ShortString::try_new(name.as_str()) {
            table.insert(name, write_value(value));
        }
    }
    table
}

fn write_value(value: &HeaderValue) -> AMQPValue {
    match value {
        HeaderValue::Void => AMQPValue::Void,
        HeaderValue::Boolean(value) => AMQPValue::Boolean(*value),
        // What most programs expect of a small number, and all can read.
        HeaderValue::Integer(value) => match i32::try_from(*value) {
            Ok(value) => AMQPValue::LongInt(value),
            Err(_) => AMQPValue::LongLongInt(*value),
        },
        HeaderValue::Double(value) => AMQPValue::Double(*value),
        HeaderValue::Text(text) => AMQPValue::LongString(text.as_str().into()),
        HeaderValue::Bytes(bytes) => AMQPValue::ByteArray(bytes.as_slice().into()),
        HeaderValue::Timestamp(seconds) => AMQPValue::Timestamp(*seconds),
        HeaderValue::List(values) => {
            let values: Vec<_> = values.iter().map(write_value).collect();
            AMQPValue::FieldArray(FieldArray::from(values))
        }
        HeaderValue::Table(headers) => AMQPValue::FieldTable(write(headers)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(value: AMQPValue) -> FieldTable {
        let mut table = FieldTable::default();
        table.insert("h".into(), value);
        table
    }

    fn read_one(value: AMQPValue) -> HeaderValue {
        read(&table(value)).unwrap().remove("h").unwrap()
    }

    #[test]
    fn every_kind_of_value_is_read() {
        let decimal = |scale, value| AMQPValue::DecimalValue(DecimalValue { scale, value });
        let cases = [
            (AMQPValue::Void, HeaderValue::Void),
            (AMQPValue::Boolean(true), HeaderValue::Boolean(true)),
            (AMQPValue::ShortShortInt(-128), HeaderValue::Integer(-128)),
            (AMQPValue::ShortShortUInt(255), HeaderValue::Integer(255)),
            (AMQPValue::ShortInt(-32_768), HeaderValue::Integer(-32_768)),
            (AMQPValue::ShortUInt(65_535), HeaderValue::Integer(65_535)),
            (
                AMQPValue::LongInt(i32::MIN),
                HeaderValue::Integer(i32::MIN.into()),
            ),
            (
                AMQPValue::LongUInt(u32::MAX),
                HeaderValue::Integer(u32::MAX.into()),
            ),
            (
                AMQPValue::LongLongInt(i64::MIN),
                HeaderValue::Integer(i64::MIN),
            ),
            (AMQPValue::Float(1.5), HeaderValue::Double(1.5)),
            (AMQPValue::Double(-0.1), HeaderValue::Double(-0.1)),
            (AMQPValue::Double(f64::NAN), "NaN".into()),
            (AMQPValue::Float(f32::NEG_INFINITY), "-inf".into()),
            (decimal(2, 1250), "12.50".into()),
            (decimal(3, 7), "0.007".into()),
            (decimal(0, 7), "7".into()),
            (AMQPValue::ShortString("short".into()), "short".into()),
            (
                AMQPValue::LongString("long \0 ü".into()),
                "long \0 ü".into(),
            ),
            (
                AMQPValue::LongString(vec![0xff].into()),
                HeaderValue::Bytes(vec![0xff]),
            ),
            (
                AMQPValue::ByteArray(b"text".to_vec().into()),
                HeaderValue::Bytes(b"text".to_vec()),
            ),
            (AMQPValue::Timestamp(7), HeaderValue::Timestamp(7)),
            (
                AMQPValue::FieldArray(vec![AMQPValue::Void, AMQPValue::Boolean(false)].into()),
                HeaderValue::List(vec![HeaderValue::Void, HeaderValue::Boolean(false)]),
            ),
            (
                AMQPValue::FieldTable(table(AMQPValue::LongInt(1))),
                HeaderValue::Table([("h".to_owned(), HeaderValue::Integer(1))].into()),
            ),
        ];
        for (value, expected) in cases {
            assert_eq!(read_one(value.clone()), expected, "{value:?}");
        }
    }

    #[test]
    fn what_was_written_is_read_as_it_was() {
        let values = [
            HeaderValue::Void,
            HeaderValue::Boolean(true),
            HeaderValue::Integer(7),
            HeaderValue::Integer(i64::MAX),
            HeaderValue::Double(0.1),
            "text ü \0".into(),
            HeaderValue::Bytes(vec![0, 255]),
            HeaderValue::Timestamp(u64::MAX),
        ];
        let list = HeaderValue::List(values.to_vec());
        let mut headers = Headers::from([("list".to_owned(), list)]);
        for (number, value) in values.into_iter().enumerate() {
            headers.insert(number.to_string(), value);
        }
        headers.insert("table".into(), HeaderValue::Table(headers.clone()));
        assert_eq!(read(&write(&headers)), Ok(headers));
    }

    #[test]
    fn a_small_number_is_written_as_most_programs_expect_it() {
        let number = HeaderValue::Integer(3);
        assert_eq!(write_value(&number), AMQPValue::LongInt(3));
        let number = HeaderValue::Integer(1 << 40);
        assert_eq!(write_value(&number), AMQPValue::LongLongInt(1 << 40));
    }

    #[test]
    fn a_name_that_amqp_cannot_carry_is_left_out() {
        let headers = Headers::from([("n".repeat(256), HeaderValue::Void)]);
        assert_eq!(write(&headers), FieldTable::default());
    }

    #[test]
    fn headers_may_be_nested_but_not_for_ever() {
        let nested = |depth| {
            let wrap = |inner, n| match n % 2 {
                0 => AMQPValue::FieldArray(vec![inner].into()),
                _ => AMQPValue::FieldTable(table(inner)),
            };
            table((0..depth).fold(AMQPValue::Void, wrap))
        };
        assert!(read(&nested(DEEPEST)).is_ok());
        assert_eq!(read(&nested(DEEPEST + 1)), Err(TooDeep));
    }
}
