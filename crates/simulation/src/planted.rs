//! Bugs that are planted on purpose, to prove that the simulation finds such. They are switches of
//! the simulated ports; nothing of them is in what is shipped.

use clap::ValueEnum;

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlantedBug {
    /// The store does not look at the token of a write
    Token,
    /// The store answers before the commit is durable
    Commit,
    /// The gate is passed after the final dot
    Gate,
}

impl PlantedBug {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Token, Self::Commit, Self::Gate];

    /// Its name on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Commit => "commit",
            Self::Gate => "gate",
        }
    }
}
