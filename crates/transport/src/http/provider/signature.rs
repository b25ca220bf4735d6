//! Signatures of Amazon's version 4, for requests without a query.

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

/// Who signs.
pub(super) struct Credentials {
    pub(super) access_key_id: String,
    pub(super) secret_access_key: SecretString,
    pub(super) session_token: Option<SecretString>,
}

/// What is signed, and for where.
pub(super) struct Signer<'a> {
    pub(super) credentials: &'a Credentials,
    pub(super) region: &'a str,
    pub(super) service: &'a str,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn keyed(key: &[u8], message: &str) -> Vec<u8> {
    // A key of any length will do: none is refused.
    Hmac::<Sha256>::new_from_slice(key).map_or_else(
        |_| Vec::new(),
        |mac| {
            mac.chain_update(message.as_bytes())
                .finalize()
                .into_bytes()
                .to_vec()
        },
    )
}

/// The value that the Host header of a request to this URL has.
fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

impl Signer<'_> {
    /// The headers that sign a request. `None` if one of them cannot be a header.
    pub(super) fn sign(
        &self,
        method: &Method,
        url: &Url,
        body: &[u8],
        now: Timestamp,
    ) -> Option<Vec<(HeaderName, HeaderValue)>> {
        let moment = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let day = &moment[..8];
        let token = self.credentials.session_token.as_ref();
        let mut signed = vec![("host", host(url)), ("x-amz-date", moment.clone())];
        let token = token.map(|token| ("x-amz-security-token", token.expose_secret().to_owned()));
        signed.extend(token);
        let canonical: String = signed
            .iter()
            .map(|(name, value)| format!("{name}:{}\n", value.trim()))
            .collect();
        let names: Vec<&str> = signed.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let request = format!(
            "{method}\n{}\n\n{canonical}\n{names}\n{}",
            url.path(),
            hex(&Sha256::digest(body))
        );
        let scope = format!("{day}/{}/{}/aws4_request", self.region, self.service);
        let to_sign = format!(
            "AWS4-HMAC-SHA256\n{moment}\n{scope}\n{}",
            hex(&Sha256::digest(request))
        );
        let signature = hex(&keyed(&self.key(day), &to_sign));
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
            self.credentials.access_key_id
        );
        let mut headers = vec![(AUTHORIZATION, authorization)];
        let others = signed.into_iter().filter(|(name, _)| *name != "host");
        headers.extend(others.map(|(name, value)| (HeaderName::from_static(name), value)));
        let header = |(name, value): (HeaderName, String)| {
            let mut value = HeaderValue::from_str(&value).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        };
        headers.into_iter().map(header).collect()
    }

    fn key(&self, day: &str) -> Vec<u8> {
        let secret = self.credentials.secret_access_key.expose_secret();
        let parts = [day, self.region, self.service, "aws4_request"];
        parts
            .iter()
            .fold(format!("AWS4{secret}").into_bytes(), |key, part| {
                keyed(&key, part)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(session_token: Option<&str>) -> Credentials {
        Credentials {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
            session_token: session_token.map(SecretString::from),
        }
    }

    fn authorization(credentials: &Credentials, method: Method) -> String {
        let signer = Signer {
            credentials,
            region: "us-east-1",
            service: "service",
        };
        let url = Url::parse("https://example.amazonaws.com/").unwrap();
        let now = "2015-08-30T12:36:00Z".parse().unwrap();
        let headers = signer.sign(&method, &url, b"", now).unwrap();
        assert_eq!(headers[1].0, "x-amz-date");
        assert_eq!(headers[1].1, "20150830T123600Z");
        headers[0].1.to_str().unwrap().to_owned()
    }

    /// Two cases of the suite that Amazon published for those who write signers.
    #[test]
    fn amazon_s_own_examples_are_signed_as_amazon_signs_them() {
        let cases = [
            (
                Method::GET,
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                Method::POST,
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
        ];
        for (method, signature) in cases {
            assert_eq!(
                authorization(&credentials(None), method),
                format!(
                    "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, Signature={signature}"
                )
            );
        }
    }

    #[test]
    fn a_session_s_token_is_signed_too() {
        let text = authorization(&credentials(Some("token")), Method::GET);
        assert!(text.contains("SignedHeaders=host;x-amz-date;x-amz-security-token, "));
        let other = authorization(&credentials(Some("other")), Method::GET);
        assert_ne!(text, other);
    }

    /// The derived key of Amazon's documentation.
    #[test]
    fn the_key_is_derived_as_documented() {
        let credentials = credentials(None);
        let signer = Signer {
            credentials: &credentials,
            region: "us-east-1",
            service: "iam",
        };
        assert_eq!(
            hex(&signer.key("20150830")),
            "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"
        );
    }
}
