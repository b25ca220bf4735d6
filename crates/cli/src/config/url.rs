//! URLs with credentials in them.

use super::load::ConfigError;

/// A character that ends a part of a URL must not stand in a password as it is: whatever follows
/// would be taken for the host.
pub(super) fn credentials_are_encoded(place: &str, url: &str) -> Result<(), ConfigError> {
    let (credentials, _) = url
        .split_once("://")
        .map_or(("", ""), |(_, rest)| split_credentials(rest));
    if credentials.contains(['@', '/', '?', '#']) {
        let message = "percent-encode these characters in user and password: @ as %40, / as %2F, ? as %3F, # as %23";
        return Err(ConfigError::new(place, message));
    }
    Ok(())
}

/// A URL with its password replaced, wherever it stands.
pub(crate) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (credentials, rest) = split_credentials(rest);
    let user = match credentials.split_once(':') {
        Some((user, _)) => format!("{user}:***@"),
        None if credentials.is_empty() => String::new(),
        None => format!("{credentials}@"),
    };
    let Some((address, query)) = rest.split_once('?') else {
        return format!("{scheme}://{user}{rest}");
    };
    let shown = query.split('&').map(|pair| match pair.split_once('=') {
        Some((key, _)) if is_secret(key) => format!("{key}=***"),
        _ => pair.to_owned(),
    });
    let query = shown.collect::<Vec<_>>().join("&");
    format!("{scheme}://{user}{address}?{query}")
}

/// What stands before the host, and the rest. A password may hold `@` and `?` as they are.
fn split_credentials(rest: &str) -> (&str, &str) {
    let address = rest.split('?').next().unwrap_or_default();
    if let Some((credentials, _)) = address.rsplit_once('@') {
        return (credentials, &rest[credentials.len() + 1..]);
    }
    let port = address
        .split(['/', '?'])
        .next()
        .and_then(|a| a.split_once(':'));
    let is_port = port.is_none_or(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
    match rest.rsplit_once('@') {
        Some((credentials, host)) if !is_port => (credentials, host),
        _ => ("", rest),
    }
}

/// Whether a key of a query names a secret, also when written in a roundabout way.
fn is_secret(key: &str) -> bool {
    key.contains('%') || key.to_lowercase().contains("pass")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_that_would_be_taken_for_a_host_is_refused() {
        for url in [
            "postgresql://u:hun@ter2@127.0.0.1/db",
            "amqp://u:hun#ter2@127.0.0.1",
            "postgresql://u:hun/ter2@127.0.0.1/db",
            "postgresql://u:hun?ter2@127.0.0.1/db",
        ] {
            let error = credentials_are_encoded("url", url).unwrap_err().to_string();
            assert!(error.contains("%40") && !error.contains("hun"), "{error}");
        }
        for url in [
            "",
            "sqlite:a@b/posthaste.db",
            "postgresql://u:hun%40ter2@127.0.0.1/db?application_name=a@b",
            "postgresql://127.0.0.1:5432/db?user=a@b",
            "amqp://127.0.0.1",
        ] {
            credentials_are_encoded("url", url).unwrap();
        }
    }
}
