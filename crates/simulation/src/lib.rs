//! The real engine over ports that fail, in virtual time, from a seed.
//!
//! Several processes, each with all its services, share a store, a queue and a mail server in memory.
//! They crash at any point, stand still past their leases, and whatever they talk to fails in every
//! way we know of. One seed is one run, and always the same run; what it breaks is one of the promises
//! I1 to I7. Never a dependency of anything that is shipped.

mod broker;
mod caller;
mod campaign;
mod check;
mod fleet;
mod gauge;
mod mail;
mod nature;
mod panic;
mod plan;
mod planted;
mod process;
mod random;
mod store;
mod tally;
mod world;

pub use campaign::{Campaign, Failure, Report};
pub use planted::PlantedBug;
pub use tally::Tally;
pub use world::{Options, Outcome, Simulator};
