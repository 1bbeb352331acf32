//! pipewriter over std and futures streams.
