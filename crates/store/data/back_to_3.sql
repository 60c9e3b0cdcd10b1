-- Turns a store of version 4 into one of version 3.
DROP TRIGGER delivery_unlist;
DROP TABLE lookup;
ALTER TABLE meta DROP COLUMN listed;
PRAGMA user_version = 3;
