//! What 29 days of work leave in a database, made in a few minutes. No retention ends meanwhile, and
//! nothing of it is due.

mod postgres;
mod sqlite;

pub(crate) use self::postgres::fill as fill_postgres;
pub(crate) use self::sqlite::fill as fill_sqlite;

/// What is left behind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Past {
    /// How many emails.
    pub(crate) emails: u64,
    /// How many of them are dead letters, spread evenly.
    pub(crate) dead: u64,
    /// Whether some still wait for a day to come, and some are uncertain; otherwise all are over.
    pub(crate) some_wait: bool,
}

impl Past {
    /// Emails that are over: sent but for one in a thousand that is dead, and a few that were
    /// discarded or cancelled.
    pub(crate) const fn over(emails: u64) -> Self {
        Self {
            emails,
            dead: emails / 1000,
            some_wait: false,
        }
    }

    /// A statement with the numbers of one slice in it: `$1` to `$2` of `$3` emails, `$4` dead, `$5`
    /// whether some wait.
    fn slice(self, sql: &str, from: u64, to: u64) -> String {
        sql.replace("$1", &from.to_string())
            .replace("$2", &to.to_string())
            .replace("$3", &self.emails.to_string())
            .replace("$4", &self.dead.to_string())
            .replace("$5", if self.some_wait { "(1 = 1)" } else { "(1 = 0)" })
    }

    /// The slices of this size: the first and the last number of each.
    fn slices(self, size: u64) -> impl Iterator<Item = (u64, u64)> {
        let starts = (1..=self.emails).step_by(usize::try_from(size).unwrap_or(usize::MAX));
        starts.map(move |from| (from, (from + size - 1).min(self.emails)))
    }
}

#[cfg(test)]
mod tests {
    use super::Past;

    #[test]
    fn slices_hold_every_email_once() {
        let slices: Vec<_> = Past::over(25).slices(10).collect();
        assert_eq!(slices, [(1, 10), (11, 20), (21, 25)]);
        assert_eq!(Past::over(0).slices(10).count(), 0);
        assert_eq!(Past::over(10).slices(10).count(), 1);
    }
}
