//! Windows: the processes attached to the pseudo console.
