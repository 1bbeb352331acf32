//! The minimal core of pipewriter.
#![no_std]
#![forbid(unsafe_code)]
