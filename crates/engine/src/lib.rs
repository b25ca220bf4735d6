//! The life of an email: accept, send, retry, rescue, prune, operate; and that of a message.
//!
//! The engine knows stores, brokers and transports only by their ports. The API, the dashboard
//! and the command line act through [`operator`] and [`intake`], so each action has one path.

pub mod access;
#[cfg(feature = "admin")]
pub mod admin;
pub mod alerter;
pub mod announcer;
pub mod bulk;
pub mod feedback;
pub mod intake;
pub mod messages;
pub mod metrics;
pub mod operator;
pub mod policy;
pub mod pruner;
pub mod rescuer;
pub mod runtime;
pub mod scheduler;
pub mod sender;
pub mod service;
pub mod template;
pub mod ways;

pub use access::{Access, Caller};
#[cfg(feature = "admin")]
pub use admin::Admins;
pub use alerter::AlertConfig;
pub use feedback::FeedbackDesk;
pub use intake::{EmailRequest, FieldError, Intake};
pub use messages::{MessageConfig, MessageDesk, MessageMetrics};
pub use metrics::Metrics;
pub use operator::Operator;
pub use policy::Policies;
pub use runtime::{Engine, EngineConfig, Roles};
pub use template::Templates;
pub use ways::{Limits, Route, WayParts, Ways, WaysConfig};
