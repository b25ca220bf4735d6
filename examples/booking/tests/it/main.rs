//! The application as people use it: over HTTP, with a real mail server that is taken away and given
//! back, and a clock that the tests set.
//!
//! The acceptance points of seed 004 are `point_3_…` to `point_10_…` in `seed_004` and
//! `seed_004_desk`. Points 1 and 2 are about the suite itself, and have no test of their own: that
//! these tests pass (`cargo test -p posthaste-booking`), and that all checks do (`./scripts/test`).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod hanging_up;
mod input;
mod invitation;
mod mail_server;
mod neighbours;
mod page;
mod program;
mod restart;
mod seed_004;
mod seed_004_desk;
mod world;
