//! What the engine needs of the world. Adapters implement these; each port has one conformance
//! suite in the testkit that every adapter passes.

mod broker;
mod clock;
mod store;
mod transport;

pub use broker::*;
pub use clock::*;
pub use store::*;
pub use transport::*;
