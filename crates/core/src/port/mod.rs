//! What the engine needs of the world. Adapters implement these; each port has one conformance
//! suite in the testkit that every adapter passes.

mod admin_store;
mod alert;
mod broker;
mod clock;
mod message_broker;
mod message_store;
mod operation_store;
mod store;
mod suppression_store;
mod template_store;
mod tracer;
mod transport;
mod way_store;

pub use admin_store::*;
pub use alert::*;
pub use broker::*;
pub use clock::*;
pub use message_broker::*;
pub use message_store::*;
pub use operation_store::*;
pub use store::*;
pub use suppression_store::*;
pub use template_store::*;
pub use tracer::*;
pub use transport::*;
pub use way_store::*;
