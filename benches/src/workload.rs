//! What is measured, as data.

/// What one write of an operation looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Every write is appended; one flush ends the operation.
    Append,
    /// The same, with a length that the compiler does not know.
    AppendUnknown,
    /// Every write is encoded into a span; one flush ends the operation.
    Span,
    /// Every write is handed over together with its flush.
    Whole,
}

/// The lengths of a write. The compiler knows them, as it does where a program writes a constant or a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Len {
    /// The 11 bytes of [`HELLO`].
    Hello,
    /// The 50,000 bytes of [`LARGE`].
    Large,
}

/// What the small workloads write.
pub static HELLO: [u8; 11] = *b"Hello World";
/// What the large workloads write.
pub static LARGE: [u8; 50_000] = [b'a'; 50_000];

/// One operation: `writes` writes of `len` bytes.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// How the records call it.
    pub name: &'static str,
    /// How tables call it.
    pub title: &'static str,
    /// What a write looks like.
    pub shape: Shape,
    /// How long a write is.
    pub len: Len,
    /// How many writes an operation has.
    pub writes: u32,
    /// How many bytes must arrive for each operation.
    pub bytes: u64,
}

/// All of them. The first four are those of the benchmark that came with .NET's `StreamPipeWriter`.
pub const WORKLOADS: [Workload; 10] = [
    Workload {
        name: "hello",
        title: "WriteHelloWorld: write_and_flush(11)",
        shape: Shape::Whole,
        len: Len::Hello,
        writes: 1,
        bytes: 11,
    },
    Workload {
        name: "large",
        title: "WriteHelloWorldLargeWrite: write_and_flush(50,000)",
        shape: Shape::Whole,
        len: Len::Large,
        writes: 1,
        bytes: 50_000,
    },
    Workload {
        name: "many",
        title: "LargeNumberOfWrites: 1,000 x write_and_flush(11)",
        shape: Shape::Whole,
        len: Len::Hello,
        writes: 1_000,
        bytes: 11_000,
    },
    Workload {
        name: "many_large",
        title: "LargeNumberOfLargeWrites: 1,000 x write_and_flush(50,000)",
        shape: Shape::Whole,
        len: Len::Large,
        writes: 1_000,
        bytes: 50_000_000,
    },
    Workload {
        name: "append",
        title: "append(11) + flush",
        shape: Shape::Append,
        len: Len::Hello,
        writes: 1,
        bytes: 11,
    },
    Workload {
        name: "append_unknown",
        title: "append(11, length unknown to the compiler) + flush",
        shape: Shape::AppendUnknown,
        len: Len::Hello,
        writes: 1,
        bytes: 11,
    },
    Workload { name: "span", title: "span(11) + flush", shape: Shape::Span, len: Len::Hello, writes: 1, bytes: 11 },
    Workload {
        name: "span_large",
        title: "span(50,000) + flush",
        shape: Shape::Span,
        len: Len::Large,
        writes: 1,
        bytes: 50_000,
    },
    Workload {
        name: "batched",
        title: "1,000 x append(11), one flush",
        shape: Shape::Append,
        len: Len::Hello,
        writes: 1_000,
        bytes: 11_000,
    },
    Workload {
        name: "batched_unknown",
        title: "1,000 x append(11, length unknown to the compiler), one flush",
        shape: Shape::AppendUnknown,
        len: Len::Hello,
        writes: 1_000,
        bytes: 11_000,
    },
];

/// The workload of that name.
///
/// # Panics
///
/// If there is none.
#[must_use]
pub fn workload(name: &str) -> Workload {
    *WORKLOADS.iter().find(|workload| workload.name == name).unwrap_or_else(|| panic!("no workload {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expected_bytes_are_those_of_the_writes() {
        for workload in WORKLOADS {
            let len = match workload.len {
                Len::Hello => HELLO.len(),
                Len::Large => LARGE.len(),
            };
            assert_eq!(workload.bytes, len as u64 * u64::from(workload.writes), "{}", workload.name);
        }
    }
}
