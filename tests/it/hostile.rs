//! Hostile neighbours: programs of the same user that misuse the daemon, by malice or by mistake.
//!
//! Each is shown beside a well-behaved pair that goes on talking and notices nothing, while newcomers
//! are welcomed in time and the daemon's memory stays within its bounds. What one bad frame does, and
//! the limits of names, ids, depth and frames, is in `wire`; what happens between many good clients in
//! `stress` and `everywhere`.

mod floods;
mod limits;
mod paths;
mod siege;
mod tokens;
