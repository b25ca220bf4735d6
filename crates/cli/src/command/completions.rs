//! Completions for a shell.

use clap::CommandFactory as _;

use crate::arguments::Arguments;
use crate::exit::Exit;
use crate::output;

pub(crate) fn run(shell: clap_complete::Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "posthaste", &mut script);
    output::line(String::from_utf8_lossy(&script).trim_end());
    Exit::Ok
}
