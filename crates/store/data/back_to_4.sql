-- Turns a store of version 5 into one of version 4.
ALTER TABLE agent DROP COLUMN guest_key;
ALTER TABLE session DROP COLUMN former;
PRAGMA user_version = 4;
