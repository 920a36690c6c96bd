#include "fabric.hpp"

namespace moriarty {

namespace {

// What an offset or a size may be: every integer that a double holds exactly.
constexpr double kWholeMax = 9007199254740991.0;

bool whole(double value) {
  return value >= 0 && value <= kWholeMax && value == static_cast<double>(static_cast<uint64_t>(value));
}

// Neither sum can overflow: `bytes` is compared first, then what is left.
bool fits(uint64_t offset, uint64_t bytes, uint64_t size) { return bytes <= size && offset <= size - bytes; }

}  // namespace

bool Fabric::readStaged(uint32_t count, uint64_t localBytes, uint64_t remoteBytes, std::vector<WorkRequest>* requests) const {
  requests->resize(count);
  for (uint32_t i = 0; i < count; i++) {
    const double* run = options_.staging + 3 * static_cast<size_t>(i);
    if (!whole(run[0]) || !whole(run[1]) || !whole(run[2])) return false;
    WorkRequest& request = (*requests)[i];
    request = {static_cast<uint64_t>(run[0]), static_cast<uint64_t>(run[1]), static_cast<uint64_t>(run[2])};
    if (!fits(request.local, request.bytes, localBytes) || !fits(request.remote, request.bytes, remoteBytes)) return false;
  }
  return true;
}

}  // namespace moriarty
