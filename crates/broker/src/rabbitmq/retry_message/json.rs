//! A `RetryMessage` in JSON, by protobuf's own mapping: field names as in the description or in
//! camelCase, bytes in base64, numbers as numbers or texts.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde_json::{Map, Value};

use super::{RetryMessage, RetryMessageError};

/// Base64 with or without padding.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// The largest whole number of which a float is sure.
const LARGEST_SURE: f64 = 9_007_199_254_740_992.0;

/// Reads a message.
pub(super) fn read(body: &[u8]) -> Result<RetryMessage, RetryMessageError> {
    let not_json = |error: serde_json::Error| RetryMessageError::NotJson(error.to_string());
    let mut fields = Fields(serde_json::from_slice(body).map_err(not_json)?);
    Ok(RetryMessage {
        message_id: fields.text("message_id")?.unwrap_or_default(),
        original_payload: fields.bytes("original_payload")?,
        original_queue: fields.text("original_queue")?.unwrap_or_default(),
        error_reason: fields.text("error_reason")?.unwrap_or_default(),
        retry_count: fields.whole("retry_count")?.unwrap_or_default(),
        max_retries: fields.whole("max_retries")?.unwrap_or_default(),
        next_retry_at_ms: fields.whole("next_retry_at_ms")?.unwrap_or_default(),
        content_type: fields.text("content_type")?,
        headers: fields.texts("headers")?,
        correlation_id: fields.text("correlation_id")?,
        priority: fields.whole("priority")?,
        content_encoding: fields.text("content_encoding")?,
        reply_to: fields.text("reply_to")?,
        r#type: fields.text("type")?,
    })
}

/// The fields of a JSON object.
struct Fields(Map<String, Value>);

impl Fields {
    /// A field under either of its names. `null` is as good as absent.
    fn take(&mut self, name: &str) -> Option<Value> {
        let value = self.0.remove(name);
        let value = value.or_else(|| self.0.remove(&camel_case(name)));
        value.filter(|value| !value.is_null())
    }

    fn text(&mut self, name: &'static str) -> Result<Option<String>, RetryMessageError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(RetryMessageError::field(name, "must be a text")),
        }
    }

    fn bytes(&mut self, name: &'static str) -> Result<Bytes, RetryMessageError> {
        let text = self.text(name)?.unwrap_or_default();
        let engine = match text.contains(['-', '_']) {
            true => &URL_SAFE,
            false => &STANDARD,
        };
        let bytes = engine.decode(text);
        let bytes = bytes.map_err(|_| RetryMessageError::field(name, "must be in base64"));
        Ok(bytes?.into())
    }

    fn whole<N: TryFrom<i64>>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<N>, RetryMessageError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let not_whole = || RetryMessageError::field(name, "must be a whole number");
        let number = whole_number(&value).ok_or_else(not_whole)?;
        let out_of_range = |_| RetryMessageError::field(name, format!("is out of range: {number}"));
        N::try_from(number).map(Some).map_err(out_of_range)
    }

    fn texts(&mut self, name: &'static str) -> Result<BTreeMap<String, String>, RetryMessageError> {
        let not_texts = || RetryMessageError::field(name, "must be an object with texts in it");
        let texts = match self.take(name) {
            None => return Ok(BTreeMap::new()),
            Some(Value::Object(texts)) => texts,
            Some(_) => return Err(not_texts()),
        };
        let text = |(name, value)| match value {
            Value::String(text) => Ok((name, text)),
            _ => Err(not_texts()),
        };
        texts.into_iter().map(text).collect()
    }
}

/// A whole number, also as a text, and as `3.0` or `1e3`.
fn whole_number(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| {
            let number = number.as_f64()?;
            let is_whole = number.fract() == 0.0 && number.abs() <= LARGEST_SURE;
            is_whole.then_some(number as i64)
        }),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (initial, rest) = word.split_at(1);
        name + &initial.to_ascii_uppercase() + rest
    })
}
