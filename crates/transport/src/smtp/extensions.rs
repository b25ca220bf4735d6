//! What a server says it can do, in its answer to EHLO.

use super::reply_reader::RawReply;

/// What a server offers. After HELO, nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Extensions {
    /// RFC 2920: several commands at once.
    pub(super) pipelining: bool,
    /// RFC 1870: the size can be announced.
    pub(super) size: bool,
    /// RFC 1870: the largest message, if there is a limit.
    pub(super) size_limit: Option<u64>,
    /// RFC 6152: bytes above 127.
    pub(super) eight_bit_mime: bool,
    /// RFC 6531: addresses that are not ASCII.
    pub(super) smtputf8: bool,
    /// RFC 3207: TLS.
    pub(super) starttls: bool,
    /// RFC 4954: whether AUTH is offered at all.
    pub(super) auth: bool,
    /// AUTH PLAIN.
    pub(super) auth_plain: bool,
    /// AUTH LOGIN.
    pub(super) auth_login: bool,
}

impl Extensions {
    /// Reads the answer to EHLO. Its first line is a greeting.
    pub(super) fn parse(reply: &RawReply) -> Self {
        let mut extensions = Self::default();
        for line in reply.lines().skip(1) {
            // `AUTH=LOGIN` is an old form that is still found.
            let mut words = line.split([' ', '=']).filter(|word| !word.is_empty());
            let Some(keyword) = words.next() else {
                continue;
            };
            match keyword.to_ascii_uppercase().as_str() {
                "PIPELINING" => extensions.pipelining = true,
                "8BITMIME" => extensions.eight_bit_mime = true,
                "SMTPUTF8" => extensions.smtputf8 = true,
                "STARTTLS" => extensions.starttls = true,
                "SIZE" => {
                    extensions.size = true;
                    let limit = words.next().and_then(|word| word.parse().ok());
                    // 0 says that there is no limit.
                    extensions.size_limit = limit.filter(|limit| *limit > 0);
                }
                "AUTH" => {
                    extensions.auth = true;
                    for mechanism in words {
                        extensions.auth_plain |= mechanism.eq_ignore_ascii_case("PLAIN");
                        extensions.auth_login |= mechanism.eq_ignore_ascii_case("LOGIN");
                    }
                }
                _ => {}
            }
        }
        extensions
    }
}

#[cfg(test)]
mod tests {
    use super::super::reply_reader::ReplyReader;
    use super::*;

    fn parse(text: &str) -> Extensions {
        let mut reader = ReplyReader::new();
        reader.room()[..text.len()].copy_from_slice(text.as_bytes());
        reader.filled(text.len());
        Extensions::parse(&reader.next().unwrap().unwrap())
    }

    #[test]
    fn what_a_server_offers_is_read_in_any_case_and_form() {
        let all = parse(
            "250-mx greets you\r\n250-pipelining\r\n250-SIZE 1000\r\n250-8BITMIME\r\n\
             250-SMTPUTF8\r\n250-StartTLS\r\n250-X-UNKNOWN 1 2\r\n250-\r\n250 AUTH CRAM-MD5 plain Login\r\n",
        );
        let expected = Extensions {
            pipelining: true,
            size: true,
            size_limit: Some(1000),
            eight_bit_mime: true,
            smtputf8: true,
            starttls: true,
            auth: true,
            auth_plain: true,
            auth_login: true,
        };
        assert_eq!(all, expected);
        let old = parse("250-mx\r\n250 AUTH=LOGIN\r\n");
        assert!(old.auth && old.auth_login && !old.auth_plain);
    }

    #[test]
    fn the_greeting_is_not_an_offer() {
        assert_eq!(parse("250 PIPELINING\r\n"), Extensions::default());
    }

    #[test]
    fn a_size_of_zero_or_none_is_no_limit() {
        for text in ["250-mx\r\n250 SIZE\r\n", "250-mx\r\n250 SIZE 0\r\n"] {
            let extensions = parse(text);
            assert!(extensions.size && extensions.size_limit.is_none());
        }
    }
}
