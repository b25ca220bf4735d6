//! The operator's desk as pages of the application.

use std::net::IpAddr;
use std::sync::Arc;

use posthaste_core::admin::Role;
use posthaste_core::port::Actor;
use posthaste_engine::admin::AdminError;
use posthaste_server::{Limits, ServerParts};

use crate::{Error, Outbox};

/// Who may come to the desk, and how. See [`Outbox::desk`].
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct DeskOptions {
    opens_locally: bool,
    secure_cookies: bool,
    trusted_proxies: Vec<IpAddr>,
}

impl DeskOptions {
    /// Only those who log in may come.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets everyone in who comes from this machine, as long as there is no admin: for development.
    /// A proxy on this machine makes everyone come from there.
    pub fn open_on_this_machine(mut self) -> Self {
        self.opens_locally = true;
        self
    }

    /// Tells browsers to send logins over https only. For applications that are behind a proxy
    /// which speaks https.
    pub fn secure_cookies(mut self) -> Self {
        self.secure_cookies = true;
        self
    }

    /// Believes this proxy when it says whom a login comes from (`X-Forwarded-For`), so that wrong
    /// passwords are counted against that one.
    pub fn trusted_proxy(mut self, proxy: IpAddr) -> Self {
        self.trusted_proxies.push(proxy);
        self
    }
}

impl Outbox {
    /// The operator's desk, to be merged into a router of your own: pages below `/admin` that show
    /// what waits, what failed and why, with Retry and Discard, and the routes `/api/admin/outbox`
    /// and `/api/admin/dashboard` for a dashboard of your own.
    ///
    /// [`Outbox::create_admin`], or `posthaste admin create` on the same database, makes a login.
    /// The peer's address must be known: serve with
    /// `into_make_service_with_connect_info::<SocketAddr>()`. Open pages follow what happens by
    /// streams, which end with [`Outbox::close`].
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # let outbox = posthaste::Outbox::sqlite("app.db").smtp("smtp://localhost").open().await?;
    /// use std::net::SocketAddr;
    /// use posthaste::DeskOptions;
    ///
    /// let router = axum::Router::new()
    ///     .route("/", axum::routing::get(async || "Hello"))
    ///     .merge(outbox.desk(DeskOptions::new()));
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    /// axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn desk(&self, options: DeskOptions) -> axum::Router {
        let engine = self.engine();
        let parts = ServerParts {
            intake: Arc::clone(&engine.intake),
            operator: Arc::clone(&engine.operator),
            access: Arc::clone(&engine.access),
            admins: Arc::clone(&engine.admins),
            opens_locally: options.opens_locally,
            secure_cookies: options.secure_cookies,
            trusted_proxies: options.trusted_proxies,
            configuration: Vec::new(),
            metrics: Arc::clone(&engine.metrics),
            registry: self.registry(),
            ways: Arc::clone(&engine.ways),
            feedback: Arc::clone(&engine.feedback),
            broker: None,
            message_desk: Arc::clone(&engine.message_desk),
            message_metrics: Arc::clone(&engine.message_metrics),
            message_broker: None,
            serves_api: false,
            limits: Limits::default(),
            version: env!("CARGO_PKG_VERSION"),
        };
        posthaste_server::desk_until(parts, engine.stopping())
    }

    /// Makes a login for the desk that may retry and discard.
    ///
    /// # Errors
    ///
    /// If the name is taken or the password too short.
    pub async fn create_admin(&self, name: &str, password: &str) -> Result<(), Error> {
        let actor = Actor {
            name: "library".to_owned(),
            owner: None,
        };
        let created = self
            .engine()
            .admins
            .create(name, Role::Operator, password, &actor);
        created.await.map(drop).map_err(|error| match error {
            AdminError::Store(error) => error.into(),
            other => Error::NotPossible(other.to_string()),
        })
    }
}
