//! The writers against the real kernel: full disks, sockets that stall, readers that go away, signals, limits, and a
//! network that goes down.
//!
//! After each of these two things must hold. What the stream has accepted and what the writer still holds is together all
//! that was committed, in order. And what the reader got is the beginning of what the stream accepted; with a socket or a
//! pipe it may be less, for bytes in the kernel's own buffer count as accepted.
//!
//! A test that needs what is not to be had here (root, a mount, a namespace, a device) prints why it was skipped and
//! passes. `.ci/kernel` shows these lines.

#![cfg(target_os = "linux")]

mod child;
mod disk;
mod gone;
mod link;
mod signals;
mod stalls;
mod support;
