-- At least one row in every table, as the program of that time left them: an email that was sent, one
-- of whose recipients one was refused and that died, and one that waits.
INSERT INTO email (id, owner, message_key, payload_hash, template, priority, envelope_from, recipients,
    recipient_count, first_recipient, header_from, header_to, subject, metadata, policy, created_at,
    size_bytes, content)
VALUES
    (x'0190a000000070008000000000000001', 'shop', 'order-1', x'01', 'welcome', 'normal', 'shop@example.org',
     '["ann@example.org"]', 1, 'ann@example.org', 'shop@example.org', '["ann@example.org"]', 'Sent', '{}',
     '"email"', 1720000000000000, 5, x'48656c6c6f'),
    (x'0190a000000070008000000000000002', 'shop', 'order-2', x'02', NULL, 'normal', 'shop@example.org',
     '["bob@example.org","eve@example.org"]', 2, 'bob@example.org', 'shop@example.org',
     '["bob@example.org","eve@example.org"]', 'Dead', '{"n":"2"}', '"email"', 1720000000000000, 5,
     x'48656c6c6f'),
    (x'0190a000000070008000000000000003', 'shop', 'order-3', x'03', NULL, 'normal', 'shop@example.org',
     '["ann@example.org"]', 1, 'ann@example.org', 'shop@example.org', '["ann@example.org"]', 'Waits', '{}',
     '"email"', 1720000000000000, 5, x'48656c6c6f');
INSERT INTO email_log (id, status, phase, attempt_number, attempt_count, budget_from, max_attempts,
    next_attempt_at, lease_token, lost_count, unknown_count, possible_duplicate, last_error, error_class,
    dead_reason, fingerprint, sent_at, finished_at)
VALUES
    (x'0190a000000070008000000000000001', 'sent', 'idle', 1, 0, 0, NULL, NULL, 1, 0, 0, 0, NULL, NULL, NULL,
     NULL, 1720000001000000, 1720000001000000),
    (x'0190a000000070008000000000000002', 'dead', 'idle', 1, 1, 0, 3, NULL, 1, 0, 0, 0, '550 no such user',
     'permanent', 'HardBounce', '550 no such user', NULL, 1720000001000000),
    (x'0190a000000070008000000000000003', 'pending', 'idle', 0, 0, 0, NULL, 1720000000000000, 0, 0, 0, 0,
     NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO email_attempt (email_id, number, started_at, finished_at, outcome, error_class, error, reply,
    transport, worker, budget, stage)
VALUES
    (x'0190a000000070008000000000000001', 1, 1720000000000000, 1720000001000000, 'sent', NULL, NULL, '250 ok',
     'smtp', 'w', 8, NULL),
    (x'0190a000000070008000000000000002', 1, 1720000000000000, 1720000001000000, 'permanent', 'permanent',
     '550 no such user', '550', 'smtp', 'w', 8, 'recipient');
INSERT INTO recipient (email_id, position, address, status, detail, reason)
VALUES
    (x'0190a000000070008000000000000002', 0, 'bob@example.org', 'accepted', NULL, NULL),
    (x'0190a000000070008000000000000002', 1, 'eve@example.org', 'dead', '550 no such user', 'HardBounce');
INSERT INTO stat (minute, from_status, to_status, n)
VALUES
    (28666666, '', 'pending', 3), (28666666, 'pending', 'sending', 2), (28666666, 'sending', 'sent', 1),
    (28666666, 'sending', 'dead', 1);
INSERT INTO audit_log (at, actor, action, subject, result, filter, count)
VALUES (1720000000000000, 'admin:ann', 'retry', 'order-2', 'done', NULL, NULL);
INSERT INTO api_key (id, secret_hash, name, owner, scopes, from_addresses, created_at)
VALUES ('key', x'0a', 'billing', 'shop', '["send"]', '[]', 1720000000000000);
INSERT INTO capture (email_id, captured_at, mail_from, recipients, content)
VALUES (x'0190a000000070008000000000000001', 1720000001000000, 'shop@example.org', '["ann@example.org"]', x'48');
INSERT INTO event (seq, kind, email_id, at, reason, attempts)
VALUES (41, 'email_dead', x'0190a000000070008000000000000002', 1720000001000000, 'HardBounce', 1);
INSERT INTO retry_queue (id, message_id, original_queue, properties, created_at, status, retry_count,
    max_retries, next_retry_at, publish_failures, repeats, token, delivery, payload_bytes, original_payload)
VALUES (7, x'0190a000000070008000000000000004', 'billing', '{}', 1720000000000000, 'pending', 0, 3,
    1720000060000000, 0, 0, 0, x'00', 2, x'6869');
UPDATE message_count SET n = 1 WHERE status = 'pending';
INSERT INTO operation (id, action, filter, status, actor, total, next_step_at, created_at)
VALUES (x'0190a000000070008000000000000005', 'retry', '{}', 'paused', 'admin:ann', 1, 1720000002000000,
    1720000002000000);
INSERT INTO operation_item (operation_id, position, email_id, lease_token)
VALUES (x'0190a000000070008000000000000005', 0, x'0190a000000070008000000000000002', 1);
INSERT INTO template (name, version) VALUES ('welcome', 1);
INSERT INTO template_version (name, version, description, subject, body_text, priority, policy, sample,
    saved_at, saved_by)
VALUES ('welcome', 1, '', 'Hello', 'Hello', 'normal', '"notification"', '{}', 1720000000000000, 'ann');
INSERT INTO admin (name, role, password_hash, created_at)
VALUES ('ann', 'operator', 'hash', 1720000000000000);
INSERT INTO admin_session (secret_hash, name, created_at, expires_at)
VALUES (x'0b', 'ann', 1720000000000000, 1720000003000000);
INSERT INTO death (email_id, at, reason, fingerprint, error)
VALUES (x'0190a000000070008000000000000002', 1720000001000000, 'HardBounce', '550 no such user', '550');
INSERT INTO alert_group (channel, fingerprint, reason, n, first_at, last_at, gathered_at, email_id)
VALUES ('slack', '550 no such user', 'HardBounce', 1, 1720000001000000, 1720000001000000, 1720000001000000,
    x'0190a000000070008000000000000002');
INSERT INTO alert_channel (name, rests_until) VALUES ('slack', 1720000004000000);
