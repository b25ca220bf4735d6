//! What is known of every email, from those who do not believe each other: the clients' ledger,
//! the rows, and the copies that the mail server counted.

pub(crate) mod audit;
pub(crate) mod drain;
pub(crate) mod ledger;
pub(crate) mod poster;
pub(crate) mod stored;
pub(crate) mod witness;
