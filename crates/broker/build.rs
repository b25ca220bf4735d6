//! Makes Rust types of the messages that other teams send. No `protoc` is needed.

use std::error::Error;

/// Where they are described.
const PROTO: &str = "proto/retry_message.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={PROTO}");
    let descriptors = protox::compile([PROTO], ["proto"])?;
    prost_build::Config::new()
        .bytes(["."])
        .btree_map(["."])
        .compile_fds(descriptors)?;
    Ok(())
}
