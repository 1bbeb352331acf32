//! Workloads and contenders.
