//! Puts `memory.x`, which the linker script of `cortex-m-rt` includes, where the linker looks for it.

fn main() {
    println!("cargo::rustc-link-search={}", std::env::var("CARGO_MANIFEST_DIR").unwrap());
    println!("cargo::rerun-if-changed=memory.x");
}
