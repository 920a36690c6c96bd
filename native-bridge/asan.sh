#!/usr/bin/env bash
# Builds the addon with the address sanitizer and runs the contract suite with it; any complaint fails the run.
# Leaks are not looked for: Node itself leaves most of its heap to the end of the process.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash native-bridge/build.sh --asan
asan=$("${CXX:-g++}" -print-file-name=libasan.so)
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:halt_on_error=1:${ASAN_OPTIONS:-}
export MORIARTY_NATIVE_ADDON="$PWD/native-bridge/build/asan/moriarty_native.node"
if [[ -f native-bridge/build/asan/moriarty_mori.node ]]; then export MORIARTY_MORI_ADDON="$PWD/native-bridge/build/asan/moriarty_mori.node"; fi
export CI=true MORIARTY_NATIVE=required
LD_PRELOAD=$(realpath "$asan") exec node node_modules/vitest/vitest.mjs run test/contract --pool=forks "$@"
