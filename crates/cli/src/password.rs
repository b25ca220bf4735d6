//! Asks for a password: at a terminal without showing it, otherwise from standard input or a file.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::UsageError;
use crate::output;

/// The new password of someone: the first line of the file, of what is piped in, or of what is
/// typed twice.
pub(crate) async fn new_password(name: &str, file: Option<&Path>) -> anyhow::Result<String> {
    if let Some(path) = file {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the password from {}", path.display()))?;
        return first_line(&text);
    }
    if !std::io::stdin().is_terminal() {
        let mut text = String::new();
        std::io::stdin().lock().read_line(&mut text)?;
        return first_line(&text);
    }
    let first = typed(&format!("New password for {name}: ")).await?;
    let again = typed("The same again: ").await?;
    if first == again {
        Ok(first)
    } else {
        Err(UsageError("the two passwords differ; nothing was changed".to_owned()).into())
    }
}

fn first_line(text: &str) -> anyhow::Result<String> {
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => {
            let message = "the password is empty: write it into standard input, name a file with \
                           --password-file, or run this at a terminal";
            Err(UsageError(message.to_owned()).into())
        }
    }
}

/// What is typed, without showing it.
async fn typed(prompt: &str) -> anyhow::Result<String> {
    // Set before the terminal falls silent: whoever interrupts wants to see again what they type.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let silence = Silence::begin();
    let mut out = std::io::stderr();
    write!(out, "{prompt}")?;
    out.flush()?;
    let line = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map(|_| line)
    });
    tokio::select! {
        line = line => {
            drop(silence);
            output::error("");
            first_line(&line??)
        }
        _ = interrupt.recv() => {
            drop(silence);
            output::error("");
            // The thread that reads cannot be stopped otherwise.
            std::process::exit(130);
        }
    }
}

/// While it lives, the terminal does not show what is typed.
struct Silence;

impl Silence {
    fn begin() -> Self {
        if !terminal("-echo") {
            output::error("(stty is missing: what you type can be seen)");
        }
        Self
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        terminal("echo");
    }
}

/// Changes a setting of the terminal at standard input.
fn terminal(setting: &str) -> bool {
    let mut stty = Command::new("stty");
    stty.arg(setting)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    stty.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_first_line_with_its_blanks() {
        assert_eq!(first_line(" two words \r\nmore").unwrap(), " two words ");
        assert_eq!(first_line("alone").unwrap(), "alone");
        for empty in ["", "\n", "\nsecond"] {
            assert!(first_line(empty).is_err(), "{empty:?}");
        }
    }
}
