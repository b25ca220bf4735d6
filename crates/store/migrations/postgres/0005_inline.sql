-- Whether the first attempt was made while the caller waited; that one is not counted.
ALTER TABLE email_log ADD COLUMN inline boolean NOT NULL DEFAULT false;
