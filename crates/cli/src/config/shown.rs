//! The configuration as people may see it: without secrets, and with where each value is from.

use posthaste_server::Setting;
use toml::{Table, Value};

use super::load::Loaded;
use super::url::without_password;
use super::{alerts, transport};

/// Where a value is from that nobody gave.
const DEFAULT: &str = "default";

impl Loaded {
    /// Everything that is in force, without secrets.
    pub(crate) fn without_secrets(&self) -> Table {
        let mut table = self.table.clone();
        alerts::hide_secrets(&mut table);
        transport::hide_secrets(&mut table);
        redact(&mut table);
        table
    }

    /// The same as a list, with where each value is from.
    pub(crate) fn shown(&self) -> Vec<Setting> {
        let mut shown = Vec::new();
        self.list("", &self.without_secrets(), &mut shown);
        shown
    }

    fn list(&self, section: &str, table: &Table, shown: &mut Vec<Setting>) {
        let path = |key: &str| match section {
            "" => key.to_owned(),
            section => format!("{section}.{key}"),
        };
        let is_section = |value: &&Value| value.is_table();
        for (key, value) in table.iter().filter(|(_, value)| !is_section(value)) {
            let source = self.sources.get(&path(key));
            shown.push(Setting {
                section: section.to_owned(),
                key: key.clone(),
                value: match value {
                    Value::String(text) => text.clone(),
                    value => value.to_string(),
                },
                source: source.map_or_else(|| DEFAULT.to_owned(), Clone::clone),
            });
        }
        for (key, value) in table {
            if let Value::Table(inner) = value {
                self.list(&path(key), inner, shown);
            }
        }
    }
}

/// Takes passwords out of URLs, wherever they stand.
fn redact(table: &mut Table) {
    for value in table.iter_mut().map(|(_, value)| value) {
        match value {
            Value::Table(inner) => redact(inner),
            Value::String(text) => *text = without_password(text),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{Overrides, load};
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        assert_eq!(
            without_password("smtp://u:p@ss@host:25?tls=none"),
            "smtp://u:***@host:25?tls=none"
        );
        assert_eq!(without_password("smtp://host:25"), "smtp://host:25");
        assert_eq!(
            without_password("postgresql://app@host/db?user=a&Password=secret&sslmode=require"),
            "postgresql://app@host/db?user=a&Password=***&sslmode=require"
        );
        assert!(!without_password("postgresql://h/db?p%61ssword=secret").contains("secret"));
        assert!(!without_password("postgresql://u:p?ss@h/db").contains("ss@"));
        assert_eq!(without_password("sqlite:data/x.db"), "sqlite:data/x.db");
    }

    #[test]
    fn every_value_is_shown_with_where_it_is_from() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("posthaste.toml");
        let text = "[sender]\nconnections = 3\n[policy.mine]\nmax_attempts = 2\nbackoff = { base = \"1m\" }\n";
        std::fs::write(&file, text).unwrap();
        let overrides = Overrides {
            file: Some(file.clone()),
            data_dir: Some("elsewhere".into()),
            listen: Some("127.0.0.1:99".parse().unwrap()),
        };
        let environment = BTreeMap::from([
            ("SMTP_URL".to_owned(), "smtp://u:secret@host".to_owned()),
            ("POSTHASTE_RETENTION__SENT".to_owned(), "5d".to_owned()),
        ]);
        let shown = load(&overrides, &environment).unwrap().shown();
        let find = |section: &str, key: &str| {
            let found = shown.iter().find(|s| s.section == section && s.key == key);
            let found = found.unwrap_or_else(|| panic!("{section}.{key} is not shown"));
            (found.value.as_str(), found.source.as_str())
        };
        let file = file.to_str().unwrap();
        assert_eq!(find("sender", "connections"), ("3", file));
        assert_eq!(find("policy.mine", "max_attempts"), ("2", file));
        assert_eq!(find("policy.mine.backoff", "base"), ("1m", file));
        assert_eq!(find("smtp", "url"), ("smtp://u:***@host", "SMTP_URL"));
        assert_eq!(find("service", "data_dir"), ("elsewhere", "--data-dir"));
        assert_eq!(find("server", "port"), ("99", "--listen"));
        assert_eq!(find("retention", "dead"), ("30d", DEFAULT));
        assert_eq!(
            find("retention", "sent"),
            ("5d", "POSTHASTE_RETENTION__SENT")
        );
    }
}
