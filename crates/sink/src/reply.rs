//! A reply and its form on the wire.

use std::borrow::Cow;

/// One SMTP reply. A line feed in the text makes it a reply of several lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    enhanced: &'static str,
    text: Cow<'static, str>,
}

impl Reply {
    /// A reply with a fixed text; `enhanced` is empty where RFC 2034 wants none.
    pub(crate) const fn new(code: u16, enhanced: &'static str, text: &'static str) -> Self {
        Self {
            code,
            enhanced,
            text: Cow::Borrowed(text),
        }
    }

    /// A reply with a text made for the occasion.
    pub(crate) const fn owned(code: u16, enhanced: &'static str, text: String) -> Self {
        Self {
            code,
            enhanced,
            text: Cow::Owned(text),
        }
    }

    /// Appends the reply, with its enhanced code only if that extension is on.
    pub(crate) fn write_to(&self, output: &mut Vec<u8>, enhanced_status_codes: bool) {
        let digit = |divisor: u16| b'0' + u8::try_from(self.code / divisor % 10).unwrap_or(0);
        let code = [digit(100), digit(10), digit(1)];
        let mut lines = self.text.split('\n').peekable();
        while let Some(line) = lines.next() {
            output.extend_from_slice(&code);
            output.push(if lines.peek().is_some() { b'-' } else { b' ' });
            if enhanced_status_codes && !self.enhanced.is_empty() {
                output.extend_from_slice(self.enhanced.as_bytes());
                output.push(b' ');
            }
            output.extend_from_slice(line.as_bytes());
            output.extend_from_slice(b"\r\n");
        }
    }
}
