//! A PostgreSQL schema for one test, on the server that the scripts provide.

use tokio_postgres::{Client, NoTls};

/// A schema of its own, removed when this is dropped.
pub struct Database {
    server: String,
    schema: String,
}

impl Database {
    /// A new, empty schema on the server at `TEST_DATABASE_URL`.
    pub async fn fresh() -> Self {
        let server = std::env::var("TEST_DATABASE_URL").unwrap_or_else(|_| {
            panic!(
                "TEST_DATABASE_URL is not set: run ./scripts/test, or start servers with \
                 `scripts/services start` and `eval \"$(scripts/services env)\"`"
            )
        });
        let schema = format!("test_{}", uuid::Uuid::now_v7().simple());
        let database = Self { server, schema };
        let sql = format!("CREATE SCHEMA {}", database.schema);
        database
            .admin()
            .await
            .batch_execute(&sql)
            .await
            .expect("a new schema");
        database
    }

    /// Where a store finds it.
    #[must_use]
    pub fn url(&self) -> String {
        let separator = if self.server.contains('?') { '&' } else { '?' };
        format!(
            "{}{separator}options=-csearch_path%3D{}",
            self.server, self.schema
        )
    }

    /// The name of a second schema, for what is to live beside the first. It is removed, too, if
    /// someone made it.
    #[must_use]
    pub fn second_schema(&self) -> String {
        format!("{}_two", self.schema)
    }

    /// A connection beside the store's own.
    pub async fn beside(&self) -> Client {
        connect(&self.url()).await
    }

    /// Where a process finds it whose sessions are to be told from all others by this name.
    #[must_use]
    pub fn url_as(&self, name: &str) -> String {
        let name = self.session_name(name);
        format!("{}&application_name={name}", self.url())
    }

    /// Ends all sessions of this name. What they were asked to do is done by then, or never is.
    pub async fn end_sessions(&self, name: &str) {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE application_name = $1";
        let (admin, name) = (self.admin().await, self.session_name(name));
        let end = async || admin.query(end, &[&name]).await.expect("an answer").len();
        assert!(end().await > 0, "no session has the name {name}");
        while end().await > 0 {
            tokio::task::yield_now().await;
        }
    }

    /// Other tests use the same server.
    fn session_name(&self, name: &str) -> String {
        format!("{}_{name}", self.schema)
    }

    /// Returns once another session waits for a lock that the session with this number holds.
    pub async fn until_someone_waits_for(&self, holder: i32) {
        let watcher = self.beside().await;
        let waits = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity
                     WHERE $1 = ANY(pg_blocking_pids(pid)))";
        loop {
            let waits = watcher.query_one(waits, &[&holder]).await;
            if waits.expect("an answer").get(0) {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn admin(&self) -> Client {
        connect(&self.server).await
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .expect("a connection to TEST_DATABASE_URL");
    tokio::spawn(connection);
    client
}

impl Drop for Database {
    fn drop(&mut self) {
        let server = self.server.clone();
        let schemas = format!("{}, {}", self.schema, self.second_schema());
        // A thread of its own: whoever drops this may be inside a runtime, or have none.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            if let Ok(runtime) = runtime {
                runtime.block_on(async {
                    let Ok((client, connection)) = tokio_postgres::connect(&server, NoTls).await
                    else {
                        return;
                    };
                    tokio::spawn(connection);
                    // Whoever still works in it waits in vain; it must not make us wait.
                    let sql =
                        format!("SET lock_timeout = '5s'; DROP SCHEMA IF EXISTS {schemas} CASCADE");
                    let _ = client.batch_execute(&sql).await;
                });
            }
        });
        let _ = dropping.join();
    }
}
