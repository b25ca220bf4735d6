//! How a running sink treats everybody, whatever the recipient.

use std::time::Duration;

/// The behaviour of the whole server, changed at run time with
/// [`Sink::set_mode`](crate::Sink::set_mode). A change reaches open connections with
/// their next command or final dot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Recipients and the configuration alone decide.
    #[default]
    Normal,
    /// A new connection is accepted and closed at once; an open one is closed at its
    /// next command. A body under way is still received and answered.
    RefuseConnections,
    /// Every recipient is answered `451 4.3.0`, and so is a final dot under way.
    TempfailAll,
    /// Every recipient is answered `550 5.1.1`; a final dot under way `554 5.6.0`.
    RejectAll,
    /// Nothing is answered any more, not even a new connection. A message whose final
    /// dot arrives is counted: its bytes did arrive. A connection caught in this mode
    /// stays silent after the mode has changed again.
    HangAll,
    /// Every final dot is answered after at least this long.
    Delay(Duration),
}
