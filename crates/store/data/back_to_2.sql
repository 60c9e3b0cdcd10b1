-- Turns a store of version 3 into one of version 2.
DROP TRIGGER history_charge;
DROP TRIGGER history_release;
DROP INDEX history_holder;
DROP TABLE holder;
ALTER TABLE delivery DROP COLUMN checksum;
ALTER TABLE history DROP COLUMN checksum;
ALTER TABLE history DROP COLUMN moved;
ALTER TABLE history DROP COLUMN holder;
ALTER TABLE history DROP COLUMN bytes;
PRAGMA user_version = 2;
