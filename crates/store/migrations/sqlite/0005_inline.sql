-- Whether the first attempt was made while the caller waited; that one is not counted.
ALTER TABLE posthaste_email_log ADD COLUMN inline INTEGER NOT NULL DEFAULT 0;
