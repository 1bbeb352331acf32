# Sourced by the scripts that unpack Debian's packages.

# Sets `apt` to options with which apt-get keeps all that it writes under $1 and needs no root.
use_apt_in() {
    mkdir -p "$1"/{lists/partial,cache/archives/partial}
    local dir
    dir=$(cd "$1" && pwd)
    apt=(-qq
        -o Dir::State::lists="$dir/lists"
        -o Dir::Cache="$dir/cache"
        -o Debug::NoLocking=1
        -o APT::Sandbox::User="$(id -un)")
}
