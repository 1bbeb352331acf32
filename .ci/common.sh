# Sourced by the scripts beside it, from the top of the repository.

# The crates that users get; `tests` and `benches` stay here.
published=(pipewriter-core pipewriter-std)

fail() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# The features that a published crate declares, one a line, without `default`.
features() {
    awk '
        /^\[/ { inside = ($0 == "[features]") }
        inside && match($0, /^[A-Za-z0-9_-]+ *=/) { sub(/ *=.*/, ""); if ($0 != "default") print }
    ' "$1/Cargo.toml"
}

# The first line that starts with $1 in a `sh` or `console` block of the README, without its prompt.
readme_command() {
    awk -v start="$1 " '
        /^```/ { block = block == "" ? $0 : ""; next }
        block ~ /^```(sh|console)$/ {
            sub(/^\$ /, "")
            if (index($0 " ", start) == 1) { print; exit }
        }
    ' README.md
}

# Where a compiler other than the contributor's own comes from: Debian's archive where there is one, else rustup, as in the
# GitHub workflow. `COMPILERS=debian` or `COMPILERS=rustup` decides it by hand.
may_use() {
    local default=rustup
    if [ -z "${GITHUB_ACTIONS:-}" ] && command -v apt-get >/dev/null && grep -qs '^ID=debian' /etc/os-release; then
        default=debian
    fi
    [ "${COMPILERS:-$default}" = "$1" ]
}
