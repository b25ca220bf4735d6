//! Parsing command lines (RFC 5321 §4.1), strictly: a sender that gets away with
//! sloppiness here would fail elsewhere.

use crate::reply::Reply;

const BAD_ARGUMENTS: Reply = Reply::new(501, "5.5.4", "Syntax error in arguments");

/// A command and its arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command<'a> {
    Ehlo,
    Helo,
    Mail(Path<'a>),
    Rcpt(Path<'a>),
    Data,
    Rset,
    Noop,
    Vrfy,
    Help,
    Quit,
    StartTls,
    Auth {
        mechanism: &'a str,
        initial: Option<&'a str>,
    },
}

/// The argument of MAIL and RCPT.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Path<'a> {
    /// Without angle brackets and source route; empty for the null sender.
    pub(crate) address: &'a str,
    /// What follows the address, e.g. `SIZE=100 SMTPUTF8`.
    pub(crate) parameters: &'a str,
}

/// Reads one command line; the error is the answer to a bad one.
pub(crate) fn parse(line: &[u8]) -> Result<Command<'_>, Reply> {
    let line =
        str::from_utf8(line).map_err(|_| Reply::new(500, "5.5.2", "Command is not UTF-8"))?;
    let line = line.trim_end_matches([' ', '\t']);
    let (verb, arguments) = line.split_once(' ').unwrap_or((line, ""));
    let is = |name: &str| verb.eq_ignore_ascii_case(name);
    let alone = |command| match arguments {
        "" => Ok(command),
        _ => Err(BAD_ARGUMENTS),
    };
    let with_argument = |command| match arguments {
        "" => Err(BAD_ARGUMENTS),
        _ => Ok(command),
    };
    if is("MAIL") {
        sender(arguments).map(Command::Mail)
    } else if is("RCPT") {
        recipient(arguments).map(Command::Rcpt)
    } else if is("DATA") {
        alone(Command::Data)
    } else if is("RSET") {
        alone(Command::Rset)
    } else if is("EHLO") {
        with_argument(Command::Ehlo)
    } else if is("HELO") {
        with_argument(Command::Helo)
    } else if is("QUIT") {
        alone(Command::Quit)
    } else if is("NOOP") {
        Ok(Command::Noop)
    } else if is("STARTTLS") {
        alone(Command::StartTls)
    } else if is("AUTH") {
        authentication(arguments)
    } else if is("VRFY") {
        with_argument(Command::Vrfy)
    } else if is("HELP") {
        Ok(Command::Help)
    } else if is("EXPN") {
        Err(Reply::new(502, "5.5.1", "Command not implemented"))
    } else {
        Err(Reply::new(500, "5.5.1", "Command unrecognized"))
    }
}

fn authentication(arguments: &str) -> Result<Command<'_>, Reply> {
    let mut words = arguments.split(' ');
    match (words.next(), words.next(), words.next()) {
        (Some(mechanism), initial, None) if !mechanism.is_empty() => {
            Ok(Command::Auth { mechanism, initial })
        }
        _ => Err(BAD_ARGUMENTS),
    }
}

fn sender(arguments: &str) -> Result<Path<'_>, Reply> {
    let path = path(arguments, "FROM:")?;
    if path.address.is_empty() || is_mailbox(path.address) {
        Ok(path)
    } else {
        Err(Reply::new(501, "5.1.7", "Bad sender address syntax"))
    }
}

fn recipient(arguments: &str) -> Result<Path<'_>, Reply> {
    let path = path(arguments, "TO:")?;
    if path.address.eq_ignore_ascii_case("postmaster") || is_mailbox(path.address) {
        Ok(path)
    } else {
        Err(Reply::new(501, "5.1.3", "Bad recipient address syntax"))
    }
}

/// Splits `KEYWORD:<address> parameters`.
fn path<'a>(arguments: &'a str, keyword: &str) -> Result<Path<'a>, Reply> {
    let after_keyword = arguments
        .split_at_checked(keyword.len())
        .filter(|(start, _)| start.eq_ignore_ascii_case(keyword))
        .map(|(_, rest)| rest)
        .ok_or(BAD_ARGUMENTS)?;
    let inside = after_keyword.strip_prefix('<').ok_or(BAD_ARGUMENTS)?;
    let end = closing_bracket(inside).ok_or(BAD_ARGUMENTS)?;
    let parameters = match &inside[end + 1..] {
        "" => "",
        rest => rest.strip_prefix(' ').ok_or(BAD_ARGUMENTS)?,
    };
    let routed = &inside[..end];
    // A source route (`@a,@b:user@c`) must be accepted and should be ignored.
    let address = match routed.starts_with('@') {
        true => routed.split_once(':').ok_or(BAD_ARGUMENTS)?.1,
        false => routed,
    };
    Ok(Path {
        address,
        parameters,
    })
}

/// The position of the first `>` outside quotes.
fn closing_bracket(text: &str) -> Option<usize> {
    let mut quoted = false;
    let mut escaped = false;
    text.bytes().position(|byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ => return byte == b'>' && !quoted,
        }
        false
    })
}

/// Whether it has the form and the lengths of a mailbox; not whether anybody is there.
fn is_mailbox(address: &str) -> bool {
    let Some((local_part, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let quoted = local_part.len() > 2 && local_part.starts_with('"') && local_part.ends_with('"');
    let plain = |text: &str| !text.contains([' ', '<', '>', '(', ')', ',', ';', '"', '@', '\\']);
    (1..=64).contains(&local_part.len())
        && (1..=255).contains(&domain.len())
        && (quoted || plain(local_part))
        && plain(domain)
        && !address.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipient_of(line: &str) -> Result<(&str, &str), u16> {
        match parse(line.as_bytes()) {
            Ok(Command::Rcpt(path)) => Ok((path.address, path.parameters)),
            Ok(other) => panic!("{line} is {other:?}"),
            Err(reply) => Err(reply.code),
        }
    }

    #[test]
    fn an_address_is_taken_out_of_its_brackets() {
        assert_eq!(recipient_of("RCPT TO:<a@b>"), Ok(("a@b", "")));
        assert_eq!(recipient_of("rcpt to:<a@b> X=1 Y"), Ok(("a@b", "X=1 Y")));
        assert_eq!(recipient_of("RCPT TO:<@x,@y:a@b>"), Ok(("a@b", "")));
        assert_eq!(recipient_of("RCPT TO:<Postmaster>"), Ok(("Postmaster", "")));
        assert_eq!(
            recipient_of(r#"RCPT TO:<"a>\" @"@b> X"#),
            Ok((r#""a>\" @"@b"#, "X"))
        );
    }

    #[test]
    fn a_sloppy_address_is_refused() {
        let long_local_part = format!("RCPT TO:<{}@b>", "a".repeat(65));
        let long_domain = format!("RCPT TO:<a@{}>", "b".repeat(256));
        for line in [
            "RCPT",
            "RCPT TO",
            "RCPT TO:",
            "RCPT TO:a@b",
            "RCPT TO: <a@b>",
            "RCPT TO:<a@b",
            "RCPT TO:<a@b>X",
            "RCPT TO:<>",
            "RCPT TO:<a>",
            "RCPT TO:<@b>",
            "RCPT TO:<a@>",
            "RCPT TO:<a@b@c>",
            "RCPT TO:<a b@c>",
            "RCPT TO:<a\u{0}@c>",
            "RCPT FROM:<a@b>",
            &long_local_part,
            &long_domain,
        ] {
            assert_eq!(recipient_of(line), Err(501), "{line}");
        }
    }

    #[test]
    fn only_a_sender_may_be_null() {
        assert!(matches!(
            parse(b"MAIL FROM:<>"),
            Ok(Command::Mail(Path { address: "", .. }))
        ));
    }
}
