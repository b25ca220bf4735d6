//! Email that does not get lost, inside your own application.
//!
//! Your process sends at once, and what cannot be sent is safe in your own database and tried again
//! in the background: no service to run, no mail lost when the mail server is down.
//!
//! ```
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let sink = posthaste_sink::Sink::start(Default::default()).await?;
//! # let folder = tempfile::tempdir()?;
//! # let (file, smtp) = (folder.path().join("app.db"), sink.url());
//! use posthaste::{Email, Outbox};
//!
//! let outbox = Outbox::sqlite(file).smtp(smtp).open().await?;
//! let worker = outbox.start();
//! let email = Email::new("Shop <shop@example.org>", "ada@example.org").subject("Your order").text("Thank you!");
//! let delivery = outbox.send_or_enqueue(email).await?;
//! worker.stop().await;
//! # assert!(delivery.is_sent());
//! # assert_eq!(sink.accepted(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! [`Outbox::send_or_enqueue`] writes the email to the database with its first attempt already
//! begun, in one commit, and only then talks to the mail server, for a bounded time. It answers
//! [`Sent`](Delivery::Sent), [`Queued`](Delivery::Queued) or [`Dead`](Delivery::Dead). What failed
//! in a way that may pass is tried again by the [`Worker`]: after 30 seconds, then after twice as
//! long each time, five times, unless you set another [`RetryPolicy`]. What the server refuses for
//! good, and what failed five times, is dead: it waits for [`Outbox::retry`] or
//! [`Outbox::dismiss`].
//!
//! A process may die at any moment. What was accepted is sent after the restart; and right before
//! the server could take an email, the database is told, so that what may have been sent already is
//! never sent again in silence.
//!
//! - [`Outbox::send_or_enqueue_detached`] does not wait for the mail server, only for the database.
//! - [`Outbox::enqueue`] leaves the first attempt to the worker, too.
//! - [`Outbox::enqueue_in`] keeps an email within a transaction of your own: it exists exactly if
//!   your own changes do. [`Outbox::send_in`] does so, too, and sends it right after the commit.
//!
#![cfg_attr(
    feature = "sqlite",
    doc = r##"
```
# #[tokio::main]
# async fn main() -> Result<(), Box<dyn std::error::Error>> {
# let sink = posthaste_sink::Sink::start(Default::default()).await?;
# let folder = tempfile::tempdir()?;
# let (file, smtp) = (folder.path().join("app.db"), sink.url());
# use posthaste::{Email, Outbox};
# let outbox = Outbox::sqlite(&file).smtp(smtp).open().await?;
# let worker = outbox.start();
let mut connection = posthaste::rusqlite::Connection::open(&file)?;
# connection.execute_batch("CREATE TABLE booking (name TEXT)")?;
let mut transaction = connection.transaction()?;
transaction.execute("INSERT INTO booking (name) VALUES ('Ada')", [])?;
let email = Email::new("studio@example.org", "ada@example.org").text("See you on Friday.");
outbox.enqueue_in(&mut transaction, email)?;
transaction.commit()?; // From here on the booking and its email exist, or neither.
outbox.wake();
# worker.drain().await?;
# assert_eq!(sink.accepted(), 1);
# Ok(())
# }
```
"##
)]
//!
//! # Features
//!
//! - `sqlite` (default): the outbox in a SQLite file, which may be your application's own.
//! - `postgres`: the outbox in a PostgreSQL database.
//! - `smtp` (default): sends by SMTP.
//! - `calendar` (default): makes invitations from fields.
//! - `desk`: the operator's desk as pages of your own application, for axum.

mod builder;
#[cfg(feature = "calendar")]
pub mod calendar;
mod database;
mod delivery;
#[cfg(feature = "desk")]
mod desk;
mod email;
mod error;
mod mailbox;
mod outbox;
mod policy;
mod sending;
mod transaction;
mod worker;

pub use posthaste_core::Timestamp;
pub use posthaste_core::email::EmailId;
#[cfg(feature = "sqlite")]
pub use rusqlite;
#[cfg(feature = "postgres")]
pub use tokio_postgres;

pub use self::builder::OutboxBuilder;
pub use self::delivery::{Counts, DeadReason, Delivery, Entry, Resolution, Status};
#[cfg(feature = "desk")]
pub use self::desk::DeskOptions;
pub use self::email::{Calendar, Email, Priority};
pub use self::error::{Error, FieldError};
pub use self::mailbox::Mailbox;
pub use self::outbox::Outbox;
pub use self::policy::RetryPolicy;
pub use self::sending::Sending;
pub use self::transaction::Transaction;
pub use self::worker::Worker;
