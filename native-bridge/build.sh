#!/usr/bin/env bash
# Builds build/moriarty_native.node and the bridge that it loads with g++ alone: no node-gyp, no download; and
# build/moriarty_mori.node likewise where MORI_ROOT names a MoRI-IO (native-bridge/README.md).
#   build.sh              the addons, and the C baseline of `moriarty bench native`
#   build.sh --asan       build/asan/, with the address sanitizer in it
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

mkdir -p "$out"
warnings=(-Wall -Wextra -Werror)
shared=("${flags[@]}" "${warnings[@]}" -fPIC -fvisibility=hidden -shared -pthread -I"$node_headers" src/fabric.cpp src/exits.cpp src/addon.cpp src/addon-peers.cpp src/addon-memory.cpp)

# Each file in one move, so that a process that has the old one loaded keeps it whole.
place() {
  "$CXX" "${@:2}" -o "$out/$1.new"
  mv "$out/$1.new" "$out/$1"
}

# The bridge, and the loader that Node loads for it.
link() {
  place "$1_bridge.so" "${@:2}"
  place "$1.node" -std=c++17 "${flags[@]}" "${warnings[@]}" -fPIC -fvisibility=hidden -shared -I"$node_headers" \
    -DMORIARTY_BRIDGE="\"$1_bridge.so\"" src/loader.cpp -ldl
  echo "native: built native-bridge/$out/$1.node against $node_headers"
}

knows() { echo "#include <$1>" | "$CXX" "${@:2}" -x c++ -fsyntax-only - 2>/dev/null; }

# LIBFABRIC_ROOT is for a libfabric that was not installed by the system.
build_libfabric() {
  local fabric=()
  if [[ -n ${LIBFABRIC_ROOT:-} ]]; then
    fabric=(-I"$LIBFABRIC_ROOT/include" -L"$LIBFABRIC_ROOT/lib" -Wl,-rpath,"$LIBFABRIC_ROOT/lib")
  fi
  knows rdma/fabric.h "${fabric[@]}" || {
    reason="rdma/fabric.h is not there (Debian: apt-get install libfabric-dev; elsewhere set LIBFABRIC_ROOT)"
    return
  }
  link moriarty_native -std=c++17 "${shared[@]}" src/{engine,peers,lane,control,frames,rescue}.cpp "${fabric[@]}" -lfabric
  if [[ $out == build && -f bench/baseline.c ]]; then
    "${CC:-gcc}" -std=gnu11 -D_GNU_SOURCE -O2 "${warnings[@]}" bench/baseline.c "${fabric[@]}" -lfabric -o build/baseline
  fi
}

# MORI_ROOT holds lib/libmori_io.so, or is the folder of the Python wheel that does; the headers are in its include/, or in
# MORI_INCLUDE, such as the include/ of a clone of the same version.
build_mori() {
  local root=${MORI_ROOT:-} rocm=${ROCM_PATH:-/opt/rocm} include libraries= folder header
  local none="native: the MoRI-IO half is not built, because"
  if [[ -z $root ]]; then echo "$none MORI_ROOT is not set"; return; fi
  include=${MORI_INCLUDE:-$root/include}
  if [[ ! -f $include/mori/io/io.hpp ]]; then echo "$none $include/mori/io/io.hpp is not there (MORI_INCLUDE names the folder of the headers)"; return; fi
  for folder in "$root/lib" "$root"; do
    if [[ -f $folder/libmori_io.so ]]; then libraries=$folder; break; fi
  done
  if [[ -z $libraries ]]; then echo "$none libmori_io.so is neither in $root/lib nor in $root"; return; fi
  local use=(-D__HIP_PLATFORM_AMD__ -DMSGPACK_NO_BOOST -isystem "$include" -I"$rocm/include")
  for folder in "$include/../3rdparty/spdlog/include" "$include/../3rdparty/msgpack-c/include"; do
    if [[ -d $folder ]]; then use+=(-isystem "$folder"); fi
  done
  for header in hip/hip_runtime_api.h infiniband/verbs.h msgpack.hpp spdlog/spdlog.h; do
    knows "$header" "${use[@]}" || { echo "$none $header is not there (docs/NATIVE.md names the packages)"; return; }
  done
  local version=${MORI_VERSION:-}
  if [[ -z $version && -e $include/../.git ]]; then version=$(git -C "$include" rev-parse --short=8 HEAD 2>/dev/null) || true; fi
  use+=(-DMORIARTY_MORI_VERSION="\"${version:-of unknown version}\"" -L"$libraries" -L"$rocm/lib" -Wl,-rpath,"$libraries" -Wl,-rpath,"$rocm/lib")
  local libs=(-lmori_io -lmori_application -lamdhip64 -ldl)
  # Where spdlog has a fmt of its own beside it, as Debian's has.
  if echo 'int main(){}' | "$CXX" -x c++ - -lspdlog -lfmt -o /dev/null 2>/dev/null; then libs+=(-lspdlog -lfmt); fi
  link moriarty_mori -std=c++20 "${shared[@]}" src/mori.cpp src/mori-guards.cpp src/mori-library.cpp "${use[@]}" "${libs[@]}"
}

reason=
build_libfabric
build_mori
if [[ -n $reason ]]; then missing "$reason"; fi
