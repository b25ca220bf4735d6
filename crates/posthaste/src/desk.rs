//! The operator's desk as pages of the application.

use std::sync::Arc;

use posthaste_server::{Limits, ServerParts};

use crate::Outbox;

impl Outbox {
    /// The operator's desk, to be merged into a router of your own: pages below `/admin` that show
    /// what waits, what failed and why, with Retry and Discard, and the routes `/api/admin/outbox`
    /// and `/api/admin/dashboard` for a dashboard of your own.
    ///
    /// While there is no admin, it answers on this machine only. `posthaste admin create` on the
    /// same database makes one; from then on everyone logs in. The peer's address must be known:
    /// serve with `into_make_service_with_connect_info::<SocketAddr>()`.
    ///
    /// Open pages follow what happens by streams, which end with [`Outbox::close`].
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # let outbox = posthaste::Outbox::sqlite("app.db").smtp("smtp://localhost").open().await?;
    /// use std::net::SocketAddr;
    ///
    /// let router = axum::Router::new()
    ///     .route("/", axum::routing::get(async || "Hello"))
    ///     .merge(outbox.desk());
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    /// axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn desk(&self) -> axum::Router {
        let engine = self.engine();
        let parts = ServerParts {
            intake: Arc::clone(&engine.intake),
            operator: Arc::clone(&engine.operator),
            access: Arc::clone(&engine.access),
            admins: Arc::clone(&engine.admins),
            opens_locally: true,
            secure_cookies: false,
            trusted_proxies: Vec::new(),
            configuration: Vec::new(),
            metrics: Arc::clone(&engine.metrics),
            registry: self.registry(),
            transport: Arc::clone(&engine.transport),
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
}
