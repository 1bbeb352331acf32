#!/bin/sh
# Compiles Program.cs and runs it with the dotnet in $DOTNET_DIR, in benches/dotnet/sdk, or on the path, in this order.
# Fails where there is none.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

for program in "${DOTNET_DIR:-$here/sdk}/dotnet/dotnet" "${DOTNET_DIR:-$here/sdk}/dotnet" "$(command -v dotnet || true)"; do
    [ -f "$program" ] && [ -x "$program" ] && break
    program=
done
[ -n "$program" ] || { echo "no dotnet: run benches/dotnet/setup.sh, or set DOTNET_DIR" >&2; exit 1; }
root=$(dirname "$(readlink -f "$program")")
# What setup.sh built for versions that need the old OpenSSL.
if [ -d "$root/../openssl" ]; then
    LD_LIBRARY_PATH="$root/../openssl${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    export LD_LIBRARY_PATH
fi
export DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1 DOTNET_CLI_TELEMETRY_OPTOUT=1 DOTNET_NOLOGO=1

# The compiler is called by itself: a build by project file would want packages.
last() { find "$1" -path "$2" 2> /dev/null | sort -V | tail -n 1; }
csc=$(last "$root/sdk" '*/Roslyn/bincore/csc.dll')
refs=$(dirname "$(last "$root/packs" '*/Microsoft.NETCore.App.Ref/*/ref/*/System.Runtime.dll')")
pipelines=$(last "$root/shared" '*/Microsoft.AspNetCore.App/*/System.IO.Pipelines.dll')
[ -n "$pipelines" ] || pipelines=$(last "$root/shared" '*/Microsoft.NETCore.App/*/System.IO.Pipelines.dll')
[ -n "$csc" ] && [ -f "$refs/System.Runtime.dll" ] && [ -n "$pipelines" ] || { echo "that dotnet is no whole SDK" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for file in "$refs"/*.dll; do
    case $file in */System.IO.Pipelines.dll) ;; *) echo "-r:\"$file\"" ;; esac
done > "$work/references"
echo "-r:\"$pipelines\"" >> "$work/references"
"$program" "$csc" -nologo -noconfig -optimize+ -langversion:latest -nowarn:1701,1702 -out:"$work/bench.dll" \
    "@$work/references" "$here/Program.cs" >&2

framework=$(basename "$(dirname "$(dirname "$pipelines")")")
version=$(basename "$(dirname "$pipelines")")
cat > "$work/bench.runtimeconfig.json" <<JSON
{
  "runtimeOptions": {
    "framework": { "name": "$framework", "version": "$version" },
    "configProperties": { "System.GC.Server": false, "System.GC.Concurrent": false }
  }
}
JSON
"$program" "$work/bench.dll"
