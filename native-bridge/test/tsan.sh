#!/usr/bin/env bash
# The engine without Node under the thread sanitizer, on both providers. libfabric itself is not instrumented, so only
# what engine.cpp does is judged.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p build
"${CXX:-g++}" -std=c++17 -O1 -g -fsanitize=thread -Wno-tsan -pthread test/stress.cpp src/{engine,peers,lane,control,frames,rescue,fabric,exits}.cpp -lfabric -o build/stress
for provider in shm 'tcp;ofi_rxm'; do
  TSAN_OPTIONS="halt_on_error=1 suppressions=$PWD/test/tsan.supp ${TSAN_OPTIONS:-}" build/stress "$provider"
done
