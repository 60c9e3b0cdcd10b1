-- Turns a store of version 2 into one of version 1.
DROP TABLE answer;
DROP TABLE question;
PRAGMA user_version = 1;
