//! The statements that come again with every email, kept ready by the one who writes.
//!
//! The cache of a connection finds a statement by hashing the whole of its text, takes it out, and
//! puts it back. For the half dozen that each email needs, knowing them by sight is cheaper.

use std::borrow::Cow;

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, PrepFlags, Statement, ToSql};

use super::state_row;

/// At most this many are kept: there are more ways to change a state than anyone will see.
const MOST: usize = 32;

/// A statement that comes again and again.
#[derive(Debug, Clone, Copy)]
pub(super) enum Known {
    /// It stands in the program, and is known by where: in a `static`, which stands in one place.
    Text(&'static str),
    /// It writes the columns of a state whose bits are set.
    Update(u32),
}

impl Known {
    fn is(self, other: Self) -> bool {
        match (self, other) {
            (Self::Text(one), Self::Text(other)) => std::ptr::eq(one, other),
            (Self::Update(one), Self::Update(other)) => one == other,
            _ => false,
        }
    }

    fn text(self) -> Cow<'static, str> {
        match self {
            Self::Text(text) => text.into(),
            Self::Update(columns) => state_row::update_of(columns).into(),
        }
    }
}

/// Whoever carries such statements out.
pub(super) trait Execute {
    /// Where other statements are carried out.
    fn connection(&self) -> &Connection;

    /// Carries one out; how many rows it changed.
    fn carry_out(&mut self, known: Known, values: &[&dyn ToSql]) -> rusqlite::Result<usize>;
}

/// With the connection's own cache, for those who write rarely.
impl Execute for &Connection {
    fn connection(&self) -> &Connection {
        self
    }

    fn carry_out(&mut self, known: Known, values: &[&dyn ToSql]) -> rusqlite::Result<usize> {
        self.prepare_cached(&known.text())?.execute(values)
    }
}

/// See above.
pub(super) struct Kept<'c> {
    connection: &'c Connection,
    statements: Vec<(Known, Statement<'c>)>,
}

impl<'c> Kept<'c> {
    pub(super) const fn new(connection: &'c Connection) -> Self {
        Self {
            connection,
            statements: Vec::new(),
        }
    }

    /// Whoever came first goes, but never one that stands in the program: these are few.
    fn make_room(&mut self) {
        let is_update = |(known, _): &(Known, _)| matches!(known, Known::Update(_));
        let first = self.statements.iter().position(is_update);
        if let Some(first) = first.filter(|_| self.statements.len() >= MOST) {
            self.statements.remove(first);
        }
    }
}

impl Execute for Kept<'_> {
    fn connection(&self) -> &Connection {
        self.connection
    }

    fn carry_out(&mut self, known: Known, values: &[&dyn ToSql]) -> rusqlite::Result<usize> {
        let place = self.statements.iter().position(|(one, _)| one.is(known));
        let place = match place {
            Some(place) => place,
            None => {
                let flags = PrepFlags::SQLITE_PREPARE_PERSISTENT;
                let statement = self.connection.prepare_with_flags(&known.text(), flags)?;
                self.make_room();
                self.statements.push((known, statement));
                self.statements.len() - 1
            }
        };
        let statement = &mut self.statements[place].1;
        let changed = execute(statement, values);
        // It would hold on to the content of an email.
        statement.clear_bindings();
        changed
    }
}

/// Carries out a statement to which nothing is bound. What is bound to nothing is null, as a good part
/// of what is written is.
fn execute(statement: &mut Statement<'_>, values: &[&dyn ToSql]) -> rusqlite::Result<usize> {
    debug_assert_eq!(statement.parameter_count(), values.len());
    for (place, value) in (1..).zip(values) {
        match value.to_sql()? {
            ToSqlOutput::Borrowed(ValueRef::Null) | ToSqlOutput::Owned(Value::Null) => {}
            value => statement.raw_bind_parameter::<usize, _>(place, value)?,
        }
    }
    statement.raw_execute()
}

#[cfg(test)]
mod tests {
    use rusqlite::params;

    use super::*;

    static INSERT: Known = Known::Text("INSERT INTO item (value) VALUES (?1)");

    const ITEM: &str = "CREATE TABLE item (value INTEGER UNIQUE)";

    fn with_items() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(ITEM).unwrap();
        connection
    }

    #[test]
    fn a_statement_is_kept_also_if_it_failed_or_the_schema_changed() {
        let connection = with_items();
        let mut kept = Kept::new(&connection);
        assert_eq!(kept.carry_out(INSERT, params![1]).unwrap(), 1);
        kept.carry_out(INSERT, params![1]).unwrap_err();
        let another = "ALTER TABLE item ADD COLUMN note TEXT";
        connection.execute_batch(another).unwrap();
        assert_eq!(kept.carry_out(INSERT, params![2]).unwrap(), 1);
        assert_eq!(kept.statements.len(), 1);
    }

    #[test]
    fn those_that_came_first_make_room() {
        let connection = with_items();
        let schema = "ALTER TABLE item RENAME TO posthaste_email_log;
                      ALTER TABLE posthaste_email_log ADD COLUMN id;";
        connection.execute_batch(schema).unwrap();
        for name in state_row::NAMES {
            let column = format!("ALTER TABLE posthaste_email_log ADD COLUMN {name}");
            connection.execute_batch(&column).unwrap();
        }
        connection.execute_batch(ITEM).unwrap();
        let mut kept = Kept::new(&connection);
        kept.carry_out(INSERT, params![1]).unwrap();
        for columns in 1..=2 * MOST as u32 {
            let values: Vec<&dyn ToSql> = (0..=columns.count_ones()).map(|_| &1 as _).collect();
            assert_eq!(kept.carry_out(Known::Update(columns), &values).unwrap(), 0);
        }
        assert_eq!(kept.statements.len(), MOST);
        assert!(kept.statements[0].0.is(INSERT));
    }
}
