//! macOS: the foreground process group, as libproc shows it.
