#!/usr/bin/env bash
# Builds build/moriarty_native.node, and moriarty_bridge.so that it loads, with g++ alone: no node-gyp, no download.
#   build.sh              both, and the C baseline of `moriarty bench native`
#   build.sh --asan       the same in build/asan with the address sanitizer, and no baseline
#   build.sh --optional   says why and ends well when something is missing (npm's install script)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

out=build
flags=(-O2 -DNDEBUG)
give_up=1
for argument in "$@"; do
  case $argument in
    --asan) out=build/asan flags=(-O1 -g -fsanitize=address -fno-omit-frame-pointer) ;;
    --optional) give_up=0 ;;
    *) echo "build.sh: unknown argument $argument" >&2; exit 2 ;;
  esac
done

missing() {
  echo "native: not built, because $1" >&2
  exit "$give_up"
}

command -v "${CXX:=g++}" >/dev/null || missing "there is no $CXX (Debian: apt-get install g++)"

node_headers=
prefix=$(node -p 'require("path").resolve(process.execPath, "../..")')
for folder in "${NODE_INCLUDE:-}" "$prefix/include/node" /usr/include/node; do
  if [[ -n $folder && -f $folder/node_api.h ]]; then node_headers=$folder; break; fi
done
[[ -n $node_headers ]] || missing "node_api.h is neither in $prefix/include/node nor in /usr/include/node (set NODE_INCLUDE)"

# LIBFABRIC_ROOT is for a libfabric that was not installed by the system.
fabric=()
if [[ -n ${LIBFABRIC_ROOT:-} ]]; then
  fabric=(-I"$LIBFABRIC_ROOT/include" -L"$LIBFABRIC_ROOT/lib" -Wl,-rpath,"$LIBFABRIC_ROOT/lib")
fi
echo '#include <rdma/fabric.h>' | "$CXX" "${fabric[@]}" -x c++ -fsyntax-only - 2>/dev/null ||
  missing "rdma/fabric.h is not there (Debian: apt-get install libfabric-dev; elsewhere set LIBFABRIC_ROOT)"

mkdir -p "$out"
warnings=(-Wall -Wextra -Werror)
compile=("$CXX" -std=c++17 "${flags[@]}" "${warnings[@]}" -fPIC -fvisibility=hidden -shared -pthread -I"$node_headers")
# Each file in one move, so that a process that has the old one loaded keeps it whole.
"${compile[@]}" src/engine.cpp src/addon.cpp "${fabric[@]}" -lfabric -o "$out/moriarty_bridge.so.new"
mv "$out/moriarty_bridge.so.new" "$out/moriarty_bridge.so"
"${compile[@]}" src/loader.cpp -ldl -o "$out/moriarty_native.node.new"
mv "$out/moriarty_native.node.new" "$out/moriarty_native.node"
if [[ $out == build && -f bench/baseline.c ]]; then
  "${CC:-gcc}" -std=gnu11 -O2 "${warnings[@]}" bench/baseline.c "${fabric[@]}" -lfabric -o build/baseline
fi
echo "native: built native-bridge/$out/moriarty_native.node against $node_headers"
if [[ -z ${MORI_ROOT:-} ]]; then
  echo "native: the MoRI-IO half is not built, because MORI_ROOT is not set"
else
  echo "native: the MoRI-IO half is not built, because it is not written yet (see native-bridge/README.md)"
fi
