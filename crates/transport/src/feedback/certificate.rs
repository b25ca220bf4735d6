//! The certificates with which Amazon signs, and the way to fetch them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_lc_rs::signature::{
    ParsedPublicKey, RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, RSA_PKCS1_2048_8192_SHA256,
};
use moka::future::Cache;
use posthaste_core::port::CallbackError;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::ParsedCertificate;

use super::FeedbackConfigError;

/// How long a certificate is kept. Amazon names a new one anew, so this only bounds the harm of
/// one that was withdrawn.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// How many certificates are kept.
const CERTIFICATES: u64 = 16;
/// The largest body that is read.
const LARGEST_BODY: usize = 64 * 1024;
/// How long a request may take as a whole.
const PATIENCE: Duration = Duration::from_secs(10);

/// Fetches what stands at an address of Amazon's: certificates, and the confirmation of a
/// subscription. The address was checked before; a source must not follow it elsewhere.
#[async_trait]
pub trait CertificateSource: Send + Sync {
    /// The body of the answer, or why there is none. It always ends.
    async fn get(&self, url: &str) -> Result<Vec<u8>, String>;
}

/// The web: HTTPS only, no redirects, bounded in time and size.
pub struct WebSource(reqwest::Client);

impl WebSource {
    /// A client of its own.
    pub fn new() -> Result<Self, FeedbackConfigError> {
        reqwest::Client::builder()
            .https_only(true)
            .redirect(reqwest::redirect::Policy::none())
            .timeout(PATIENCE)
            .build()
            .map(Self)
            .map_err(|error| FeedbackConfigError::Web(error.to_string()))
    }
}

#[async_trait]
impl CertificateSource for WebSource {
    async fn get(&self, url: &str) -> Result<Vec<u8>, String> {
        // The address may carry a token, so it is left out of what is said.
        let said = |error: reqwest::Error| error.without_url().to_string();
        let mut answer = self.0.get(url).send().await.map_err(said)?;
        if !answer.status().is_success() {
            return Err(format!("the answer was {}", answer.status()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(said)? {
            if body.len() + chunk.len() > LARGEST_BODY {
                return Err(format!("the answer is longer than {LARGEST_BODY} bytes"));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// For readers that need no certificates.
pub(super) struct NoSource;

#[async_trait]
impl CertificateSource for NoSource {
    async fn get(&self, _: &str) -> Result<Vec<u8>, String> {
        Err("nothing is fetched here".to_owned())
    }
}

/// The key of a certificate, for either version of signatures.
pub(super) struct SigningKey {
    sha1: ParsedPublicKey,
    sha256: ParsedPublicKey,
}

/// How a message was signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignatureVersion {
    /// SHA-1, which Amazon still uses unless a topic asks for better.
    V1,
    /// SHA-256.
    V2,
}

impl SigningKey {
    /// The key in a PEM file. That the file came over HTTPS from Amazon's host is what vouches
    /// for it: the file holds no chain to follow.
    fn read(pem: &[u8]) -> Option<Self> {
        let certificate = CertificateDer::from_pem_slice(pem).ok()?;
        let parsed = ParsedCertificate::try_from(&certificate).ok()?;
        let info = parsed.subject_public_key_info();
        Some(Self {
            sha1: ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, &info)
                .ok()?,
            sha256: ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &info).ok()?,
        })
    }

    pub(super) fn has_signed(
        &self,
        version: SignatureVersion,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        let key = match version {
            SignatureVersion::V1 => &self.sha1,
            SignatureVersion::V2 => &self.sha256,
        };
        key.verify_sig(message, signature).is_ok()
    }
}

/// Fetches each certificate once, also for those who need it at the same time.
pub(super) struct Certificates {
    source: Arc<dyn CertificateSource>,
    known: Cache<String, Arc<SigningKey>>,
}

impl Certificates {
    pub(super) fn new(source: Arc<dyn CertificateSource>) -> Self {
        Self {
            source,
            known: Cache::builder()
                .max_capacity(CERTIFICATES)
                .time_to_live(KEPT)
                .build(),
        }
    }

    /// The key of the certificate at this address. A failure is not remembered.
    pub(super) async fn key(&self, url: &str) -> Result<Arc<SigningKey>, CallbackError> {
        let fetch = async {
            let later = |why| CallbackError::TryLater(format!("no certificate from Amazon: {why}"));
            let pem = self.source.get(url).await.map_err(later)?;
            let key = SigningKey::read(&pem);
            key.map(Arc::new)
                .ok_or_else(|| later("it is not an RSA certificate in PEM".to_owned()))
        };
        let known = self.known.try_get_with(url.to_owned(), fetch).await;
        known.map_err(|error: Arc<CallbackError>| (*error).clone())
    }

    /// Calls an address for its effect.
    pub(super) async fn visit(&self, url: &str) -> Result<(), String> {
        self.source.get(url).await.map(|_| ())
    }
}
