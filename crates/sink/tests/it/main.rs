//! The sink seen from outside, over real sockets.

mod auth;
mod client;
mod data;
mod ledger;
mod many_clients;
mod mode;
mod protocol;
mod recipient;
mod tls;
