//! Whether a recipient's domain takes mail at all, asked of the DNS before a connection is spent.
//!
//! Only an answer is a verdict: that the domain does not exist, has neither MX nor address, or
//! says by a null MX (RFC 7505) that it takes no mail. A resolver that fails, refuses or stays
//! silent must never be the death of an email, and is asked again next time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use hickory_resolver::config::{NameServerConfig, ResolverConfig};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError, NoRecords};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::{ResolverBuilder, TokioResolver};
use moka::Expiry;
use moka::future::Cache;
use posthaste_core::port::{DomainVerdict, Domains};
use tokio::time::timeout;

/// The longest time for which a good answer is kept, whatever its TTL says.
const LONGEST_KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// The same for a bad one: a domain that was just set up must not stay dead for long.
const LONGEST_KEPT_NEGATIVE: Duration = Duration::from_secs(60 * 60);

/// Whom to ask, for how long, and how much to remember.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsOptions {
    /// The name servers. None for those of the system.
    pub servers: Vec<SocketAddr>,
    /// The time that one look-up may take with all its questions. Default 5 s.
    pub timeout: Duration,
    /// How many domains are remembered. Default 10,000.
    pub cache_size: u64,
}

impl Default for DnsOptions {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            timeout: Duration::from_secs(5),
            cache_size: 10_000,
        }
    }
}

/// Why domains cannot be looked up with these options.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDnsOptions {
    /// No time to ask in.
    #[error("`timeout` is zero; give a look-up some time, such as 5s")]
    NoTime,
    /// The system does not say whom to ask.
    #[error("`servers` is empty and the system names no name server ({0}); list them in `servers`")]
    NoSystemServers(String),
}

/// Looks domains up in the DNS, and remembers what it learned for as long as the answer allows.
pub struct DnsDomains {
    resolver: TokioResolver,
    known: Cache<String, Known>,
    timeout: Duration,
}

/// A verdict, and how long it holds.
#[derive(Debug, Clone, Copy)]
struct Known {
    verdict: DomainVerdict,
    lifetime: Duration,
}

/// A verdict, or the lack of one, that must not be remembered.
#[derive(Debug, Clone, Copy)]
struct Fleeting(DomainVerdict);

/// What was said to one question.
enum Answer {
    /// These, for so long.
    Records(Vec<RData>, Duration),
    /// There are none, for so long.
    Nothing(Duration),
}

impl DnsDomains {
    /// A resolver with these options. Asks nothing yet.
    pub fn new(options: DnsOptions) -> Result<Self, InvalidDnsOptions> {
        if options.timeout.is_zero() {
            return Err(InvalidDnsOptions::NoTime);
        }
        let no_servers = |error: NetError| InvalidDnsOptions::NoSystemServers(error.to_string());
        let mut builder = builder(&options.servers).map_err(no_servers)?;
        let settings = builder.options_mut();
        // One repetition has to fit, since a datagram may get lost.
        settings.timeout = options.timeout / 2;
        settings.attempts = 1;
        // Verdicts are remembered here; to remember the answers too would be twice the memory.
        settings.cache_size = 0;
        Ok(Self {
            resolver: builder.build().map_err(no_servers)?,
            known: Cache::builder()
                .max_capacity(options.cache_size)
                .expire_after(Lifetime)
                .build(),
            timeout: options.timeout,
        })
    }

    async fn ask(&self, domain: &str) -> Result<Known, Fleeting> {
        let no_verdict = Fleeting(DomainVerdict::Takes);
        let asked = timeout(self.timeout, self.inquire(domain)).await;
        let known = match asked {
            Ok(Ok(known)) => known,
            Ok(Err(error)) => {
                tracing::debug!(domain, %error, "a domain could not be looked up");
                return Err(no_verdict);
            }
            Err(_) => {
                tracing::debug!(domain, "looking up a domain took too long");
                return Err(no_verdict);
            }
        };
        if known.lifetime.is_zero() {
            return Err(Fleeting(known.verdict));
        }
        Ok(known)
    }

    /// MX, and if there is none, the addresses. Some servers say that a name does not exist when
    /// only its MX does not, so the addresses are asked for then, too.
    async fn inquire(&self, domain: &str) -> Result<Known, NetError> {
        let mut name = Name::from_ascii(domain)?;
        name.set_fqdn(true);
        let mut lifetime = match self.question(&name, RecordType::MX).await? {
            Answer::Records(records, lifetime) => return Ok(by_mx(&records, lifetime)),
            Answer::Nothing(lifetime) => lifetime,
        };
        for kind in [RecordType::A, RecordType::AAAA] {
            match self.question(&name, kind).await? {
                Answer::Records(_, other) => return Ok(takes(lifetime.min(other))),
                Answer::Nothing(other) => lifetime = lifetime.min(other),
            }
        }
        Ok(takes_none(lifetime))
    }

    async fn question(&self, name: &Name, kind: RecordType) -> Result<Answer, NetError> {
        match self.resolver.lookup(name.clone(), kind).await {
            Ok(lookup) => Ok(records(&lookup, kind)),
            Err(NetError::Dns(DnsError::NoRecordsFound(none))) if is_an_answer(&none) => {
                let seconds = none.negative_ttl.unwrap_or(0);
                Ok(Answer::Nothing(Duration::from_secs(seconds.into())))
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether "no records" is what the DNS says, not a server that passes the question on.
fn is_an_answer(none: &NoRecords) -> bool {
    match none.response_code {
        ResponseCode::NXDomain => true,
        ResponseCode::NoError => none.soa.is_some() || none.ns.is_none(),
        _ => false,
    }
}

fn records(lookup: &Lookup, kind: RecordType) -> Answer {
    let lifetime = lookup
        .valid_until()
        .saturating_duration_since(Instant::now());
    let of_kind = |data: &&RData| data.record_type() == kind;
    let data = lookup.answers().iter().map(|record| &record.data);
    let records: Vec<RData> = data.filter(of_kind).cloned().collect();
    if records.is_empty() {
        Answer::Nothing(lifetime)
    } else {
        Answer::Records(records, lifetime)
    }
}

/// A null MX counts only when it stands alone.
fn by_mx(records: &[RData], lifetime: Duration) -> Known {
    match records {
        [RData::MX(mx)] if mx.exchange.is_root() => takes_none(lifetime),
        _ => takes(lifetime),
    }
}

fn takes(lifetime: Duration) -> Known {
    Known {
        verdict: DomainVerdict::Takes,
        lifetime: lifetime.min(LONGEST_KEPT),
    }
}

fn takes_none(lifetime: Duration) -> Known {
    Known {
        verdict: DomainVerdict::TakesNone,
        lifetime: lifetime.min(LONGEST_KEPT_NEGATIVE),
    }
}

fn builder(servers: &[SocketAddr]) -> Result<ResolverBuilder<TokioRuntimeProvider>, NetError> {
    if servers.is_empty() {
        return TokioResolver::builder_tokio();
    }
    let server = |address: &SocketAddr| {
        let mut server = NameServerConfig::udp_and_tcp(address.ip());
        for connection in &mut server.connections {
            connection.port = address.port();
        }
        server
    };
    let config = ResolverConfig::from_name_servers(servers.iter().map(server).collect());
    let provider = TokioRuntimeProvider::default();
    Ok(TokioResolver::builder_with_config(config, provider))
}

/// Each verdict has its own lifetime.
struct Lifetime;

impl Expiry<String, Known> for Lifetime {
    fn expire_after_create(&self, _: &String, known: &Known, _: Instant) -> Option<Duration> {
        Some(known.lifetime)
    }
}

#[async_trait]
impl Domains for DnsDomains {
    async fn look_up(&self, domain: &str) -> DomainVerdict {
        // An address literal names a host: there is nothing to look up.
        if domain.starts_with('[') {
            return DomainVerdict::Takes;
        }
        let key = domain.trim_end_matches('.').to_ascii_lowercase();
        if key.is_empty() {
            return DomainVerdict::Takes;
        }
        // Whoever comes while another asks for the same domain waits for that answer. The second
        // limit is for those who take over because the first one was dropped.
        let asked = self.known.try_get_with(key.clone(), self.ask(&key));
        let answer: Result<Known, Arc<Fleeting>> = match timeout(self.timeout, asked).await {
            Ok(answer) => answer,
            Err(_) => return DomainVerdict::Takes,
        };
        match answer {
            Ok(known) => known.verdict,
            Err(fleeting) => fleeting.0,
        }
    }
}
