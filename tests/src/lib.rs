//! Test doubles shared by the suite.
