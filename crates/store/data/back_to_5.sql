-- Turns a store of version 7 into one of version 5, whose ended deliveries are all in the history.
ALTER TABLE agent DROP COLUMN earlier;
DROP INDEX IF EXISTS delivery_old_id;
DROP INDEX delivery_open;
DROP INDEX delivery_dead;
DROP INDEX delivery_message;
DROP INDEX delivery_sender;
DROP INDEX delivery_recipient;
DROP INDEX delivery_topic;
ALTER TABLE delivery RENAME TO six;
ALTER TABLE message RENAME TO message_of_six;
ALTER TABLE meta RENAME TO meta_of_six;
DROP TABLE holder;
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    monotonic INTEGER NOT NULL, unix_ms INTEGER NOT NULL,
    agent INTEGER NOT NULL, stream INTEGER NOT NULL,
    message INTEGER NOT NULL, delivery INTEGER NOT NULL,
    indexed INTEGER NOT NULL, reopened INTEGER NOT NULL, listed INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO meta
    SELECT one, monotonic, unix_ms, agent, stream, message, delivery, indexed, reopened, 0
    FROM meta_of_six;
DROP TABLE meta_of_six;
CREATE TABLE delivery (
    number INTEGER PRIMARY KEY, message INTEGER NOT NULL, stream INTEGER NOT NULL,
    recipient INTEGER NOT NULL, name TEXT NOT NULL, seq INTEGER NOT NULL, id BLOB NOT NULL,
    expires INTEGER NOT NULL, attempts INTEGER NOT NULL, failures INTEGER NOT NULL,
    ending INTEGER NOT NULL, ended_ms INTEGER NOT NULL, code TEXT, why TEXT,
    checksum INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE history (
    number INTEGER PRIMARY KEY, message INTEGER NOT NULL, stream INTEGER NOT NULL,
    recipient INTEGER NOT NULL, name TEXT NOT NULL, seq INTEGER NOT NULL, id BLOB NOT NULL,
    expires INTEGER NOT NULL, attempts INTEGER NOT NULL, failures INTEGER NOT NULL,
    ending INTEGER NOT NULL, ended_ms INTEGER NOT NULL, code TEXT, why TEXT,
    sender_key TEXT NOT NULL, recipient_key TEXT NOT NULL, topic TEXT, send_id TEXT NOT NULL,
    checksum INTEGER NOT NULL DEFAULT 0, moved INTEGER NOT NULL DEFAULT 0,
    holder TEXT NOT NULL DEFAULT '', bytes INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX history_id ON history (id);
CREATE INDEX history_send_id ON history (send_id);
CREATE INDEX history_message ON history (message);
CREATE INDEX history_sender ON history (sender_key, number);
CREATE INDEX history_recipient ON history (recipient_key, number);
CREATE INDEX history_topic ON history (topic, number) WHERE topic IS NOT NULL;
CREATE INDEX history_dead ON history (number, id, recipient) WHERE ending = 2;
CREATE INDEX history_holder ON history (holder, number);
INSERT INTO delivery
    SELECT number, message, stream, recipient, name, seq, id, expires, attempts, failures, ending,
        ended_ms, code, why, checksum FROM six WHERE ending = 0;
INSERT INTO history
    SELECT number, message, stream, recipient, name, seq, id, expires, attempts, failures, ending,
        ended_ms, code, why, lower(sender_name), lower(name), topic,
        (SELECT send_id FROM message_of_six AS its WHERE its.number = message), checksum, ended,
        CASE WHEN substr(sender_name, 1, 6) = '@guest' THEN '@guest' ELSE lower(sender_name) END,
        bytes
    FROM six WHERE ending <> 0;
CREATE TABLE message (
    number INTEGER PRIMARY KEY, hot INTEGER NOT NULL, cold INTEGER NOT NULL,
    sender INTEGER NOT NULL, unix_ms INTEGER NOT NULL, to_everyone INTEGER NOT NULL,
    checksum INTEGER NOT NULL, proof TEXT NOT NULL, session TEXT NOT NULL, send_id TEXT NOT NULL,
    shared BLOB NOT NULL
) STRICT;
INSERT INTO message
    SELECT number, (SELECT count(*) FROM delivery WHERE message = its.number),
        (SELECT count(*) FROM history WHERE message = its.number), sender, unix_ms, to_everyone,
        checksum, proof, session, send_id, shared FROM message_of_six AS its;
DROP TABLE six;
DROP TABLE message_of_six;
CREATE TABLE holder (name TEXT PRIMARY KEY, bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO holder SELECT holder, sum(bytes) FROM history GROUP BY holder;
CREATE TRIGGER history_charge AFTER INSERT ON history BEGIN
    INSERT INTO holder VALUES (new.holder, new.bytes)
        ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER history_release AFTER DELETE ON history BEGIN
    UPDATE holder SET bytes = bytes - old.bytes WHERE name = old.holder;
    DELETE FROM holder WHERE name = old.holder AND bytes <= 0;
END;
CREATE TABLE lookup (
    key BLOB NOT NULL, delivery INTEGER NOT NULL, PRIMARY KEY (key, delivery)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER delivery_unlist AFTER DELETE ON delivery
WHEN old.number <= (SELECT listed FROM meta WHERE one = 1) BEGIN
    DELETE FROM lookup WHERE delivery = old.number AND key IN (old.id,
        (SELECT CAST(send_id AS BLOB) FROM message WHERE number = old.message));
END;
INSERT INTO lookup SELECT id, number FROM delivery;
INSERT OR IGNORE INTO lookup
    SELECT CAST(send_id AS BLOB), delivery.number FROM delivery
    CROSS JOIN message ON message.number = delivery.message;
UPDATE meta SET listed = delivery;
PRAGMA user_version = 5;
