//! Follows an operation to its end. If nobody else goes on with it, this process does.
//!
//! Every step is done once, however many take them: to help is never wrong, only needless while a
//! server runs.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use posthaste_core::operation::{BulkAction, Operation, OperationStatus};
use tokio::time::Instant;

use super::operations;
use crate::arguments::Global;
use crate::exit::Exit;
use crate::output;
use crate::wiring::Desk;

/// How often to look how far it has come.
const LOOK: Duration = Duration::from_millis(100);
/// If it has not moved for so long, nobody else goes on with it: a server takes a step at least
/// every second.
const PATIENCE: Duration = Duration::from_millis(2_500);

/// Follows an operation until it is over or held, and tells what came of it.
pub(crate) async fn until_over(
    global: &Global,
    desk: &Desk,
    operation: Operation,
) -> anyhow::Result<Exit> {
    let bar = bar(global, &operation);
    let mut following = Following {
        desk,
        remained: operation.remaining(),
        began: Instant::now(),
        moved: Instant::now(),
        helps: desk.is_alone(),
        seen: operation,
    };
    let interrupted = tokio::select! {
        ended = following.run(&bar) => { ended?; false }
        _ = tokio::signal::ctrl_c() => true,
    };
    bar.finish_and_clear();
    let operation = following.seen;
    if interrupted {
        return Ok(how_to_go_on(&operation, following.helps));
    }
    let exit = exit_of(&operation);
    if global.json {
        operations::tell(global, operation);
    } else {
        output::line(&told(&operation, desk.is_alone()));
    }
    Ok(exit)
}

fn bar(global: &Global, operation: &Operation) -> ProgressBar {
    if global.json {
        return ProgressBar::hidden();
    }
    let style = "{msg} {wide_bar} {human_pos} of {human_len}{prefix}";
    let name = match operation.action {
        BulkAction::Retry => "Retrying",
        BulkAction::Discard => "Discarding",
    };
    // Hides itself where there is no terminal.
    ProgressBar::new(operation.total)
        .with_style(
            ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()),
        )
        .with_message(name)
}

struct Following<'a> {
    desk: &'a Desk,
    seen: Operation,
    /// How many were still to be treated when this began, and when that was.
    remained: u64,
    began: Instant,
    /// When it last went on.
    moved: Instant,
    /// Whether it is this process that goes on with it.
    helps: bool,
}

impl Following<'_> {
    async fn run(&mut self, bar: &ProgressBar) -> anyhow::Result<()> {
        loop {
            let found = self.desk.operator.operation(self.seen.id, None).await?;
            let Some(operation) = found else {
                return Ok(());
            };
            if operation.remaining() != self.seen.remaining() {
                self.moved = Instant::now();
            }
            self.seen = operation;
            bar.set_position(self.seen.done + self.seen.skipped);
            let treated = self.remained.saturating_sub(self.seen.remaining());
            let left = left(&self.seen, treated, self.began.elapsed());
            let left = left.map(|left| format!(" ({} left)", output::span(left)));
            bar.set_prefix(left.unwrap_or_default());
            if self.seen.status != OperationStatus::Running {
                return Ok(());
            }
            self.helps |= self.moved.elapsed() > PATIENCE;
            let rest = if self.helps { self.help().await? } else { LOOK };
            tokio::time::sleep(rest).await;
        }
    }

    /// Takes the step that is due, and says how long to wait for the next.
    async fn help(&self) -> anyhow::Result<Duration> {
        self.desk.operator.advance_operation().await?;
        let due = self.desk.operator.next_step_due().await?;
        let wait = due.map(|due| due.duration_since(self.desk.operator.now()));
        let wait = wait.and_then(|wait| Duration::try_from(wait).ok());
        Ok(wait.unwrap_or_default().min(LOOK))
    }
}

/// How long it will take: by its pace, or by how long so many took.
fn left(operation: &Operation, treated: u64, took: Duration) -> Option<Duration> {
    let remaining = operation.remaining();
    let seconds = match operation.rate_per_second {
        Some(rate) => remaining.div_ceil(u64::from(rate.max(1))),
        None => remaining
            .saturating_mul(took.as_secs())
            .checked_div(treated)?,
    };
    Some(Duration::from_secs(seconds))
}

/// For one who does not want to wait.
fn how_to_go_on(operation: &Operation, helps: bool) -> Exit {
    let id = operation.id;
    let word = if helps {
        format!(
            "Stopped: no server is running, so it goes on when one is started, or with\n  posthaste operations resume {id}"
        )
    } else {
        format!("It goes on without you. See how far it is with\n  posthaste operations show {id}")
    };
    output::error(&format!(
        "{word}\nHold it or end it with\n  posthaste operations pause {id}\n  posthaste operations cancel {id}"
    ));
    Exit::PartlyDone
}

/// What came of it, in words.
fn told(operation: &Operation, is_alone: bool) -> String {
    let outcome = match operation.action {
        BulkAction::Retry if operation.done == 0 => "are due again.",
        BulkAction::Retry if is_alone => {
            "are due again; none is sent yet: no server is running. Start one with `posthaste serve`."
        }
        BulkAction::Retry => "are due again; a server sends them.",
        BulkAction::Discard => "discarded.",
    };
    let mut text = format!(
        "{} of {} dead letters {outcome}",
        operation.done, operation.total
    );
    if operation.skipped > 0 {
        text.push_str(&format!(
            " {} were left as they are: not dead any more, died anew, erased or expired.",
            operation.skipped
        ));
    }
    match operation.status {
        OperationStatus::Paused => text.push_str(&format!(
            " The operation is paused; go on with: posthaste operations resume {}",
            operation.id
        )),
        OperationStatus::Cancelled => text.push_str(&format!(
            " The operation was cancelled; {} are still dead.",
            operation.remaining()
        )),
        OperationStatus::Running | OperationStatus::Done => {}
    }
    text
}

fn exit_of(operation: &Operation) -> Exit {
    if operation.done == operation.total {
        Exit::Ok
    } else if operation.done == 0 && operation.status == OperationStatus::Done {
        Exit::Failure
    } else {
        Exit::PartlyDone
    }
}

#[cfg(test)]
mod tests {
    use posthaste_core::Timestamp;
    use posthaste_core::operation::{DeadFilter, OperationId};

    use super::*;

    #[test]
    fn what_was_done_before_says_nothing_about_the_time_left() {
        let mut resumed = Operation {
            id: OperationId::generate(),
            action: BulkAction::Retry,
            filter: DeadFilter::default(),
            rate_per_second: Some(2),
            status: OperationStatus::Running,
            actor: String::new(),
            total: 1000,
            done: 880,
            skipped: 20,
            created_at: Timestamp::UNIX_EPOCH,
            finished_at: None,
        };
        let seconds = |operation: &Operation, treated, took| {
            let left = left(operation, treated, Duration::from_secs(took));
            left.map(|left| left.as_secs())
        };
        assert_eq!(seconds(&resumed, 0, 0), Some(50));
        resumed.rate_per_second = None;
        assert_eq!(seconds(&resumed, 0, 0), None, "nothing is known yet");
        assert_eq!(seconds(&resumed, 10, 3), Some(30));
    }
}
