#include "fabric.hpp"

#include "exits.hpp"

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

uint64_t Fabric::keep(std::shared_ptr<Area> area) {
  live_.emplace(nextKey_, std::move(area));
  return nextKey_++;
}

void Fabric::dropRegion(uint64_t key) {
  const auto found = live_.find(key);
  if (found == live_.end()) return;
  found->second->dead.store(true, std::memory_order_release);
  if (dying_.size() >= dyingMax_) {
    // Nobody has to ask for the end of each.
    for (auto at = dying_.begin(); at != dying_.end();) at = at->second->isGone() ? dying_.erase(at) : std::next(at);
    dyingMax_ = 2 * dying_.size() + 64;
  }
  dying_.insert(*found);
  live_.erase(found);
  regionDropped();
}

bool Fabric::isGone(uint64_t key) {
  if (live_.count(key) > 0) return false;
  const auto found = dying_.find(key);
  if (found == dying_.end()) return true;
  const State now = state();
  if (now == kOpening || (now == kOpen && !found->second->isGone())) return false;
  dying_.erase(found);
  return true;
}

const std::shared_ptr<Area>* Fabric::areaOf(uint64_t key) const {
  const auto found = live_.find(key);
  return found == live_.end() || found->second->dead.load(std::memory_order_acquire) ? nullptr : &found->second;
}

Refusal Fabric::post(uint64_t localKey, uint64_t remoteKey, bool isWrite, uint32_t count, double id) {
  if (state() != kOpen || closing_.load(std::memory_order_relaxed)) return kNotOpen;
  if (count > options_.runsMax) return kTooLong;
  const auto* local = areaOf(localKey);
  const auto* remote = areaOf(remoteKey);
  if (local == nullptr || remote == nullptr || (*local)->atPeer) return kDeadKey;
  // A record must be free for its end, or that end could be lost.
  if (posted_ - options_.header->consumed.load(std::memory_order_acquire) >= options_.slots) return kFull;
  if (!readStaged(count, (*local)->bytes, (*remote)->bytes)) return kOutOfRange;
  posted_++;
  take({id, isWrite, *local, *remote}, &staged_);
  return kTaken;
}

bool Fabric::readStaged(uint32_t count, uint64_t localBytes, uint64_t remoteBytes) {
  staged_.resize(count);
  for (uint32_t i = 0; i < count; i++) {
    const double* run = options_.staging + 3 * static_cast<size_t>(i);
    if (!whole(run[0]) || !whole(run[1]) || !whole(run[2])) return false;
    WorkRequest& request = staged_[i];
    request = {static_cast<uint64_t>(run[0]), static_cast<uint64_t>(run[1]), static_cast<uint64_t>(run[2])};
    if (!fits(request.local, request.bytes, localBytes) || !fits(request.remote, request.bytes, remoteBytes)) return false;
  }
  return true;
}

void Fabric::beginClose() {
  closing_.store(true, std::memory_order_seq_cst);
  rouse();
}

void Fabric::record(double id, int32_t code, int32_t error) {
  options_.records[produced_ & (options_.slots - 1)] = {id, code, error};
  options_.header->produced.store(++produced_, std::memory_order_release);
  wakeOwner();
}

void Fabric::tellState(State state, int32_t error) {
  if (state == kFailed) options_.header->openError = error;
  if (state == kOpen) stopFirstAtExit();  // its library has loaded by now what it loads
  options_.header->state.store(state, std::memory_order_release);
  wakeOwner();
}

void Fabric::setWaker(std::function<void()> waker) { waker_ = std::move(waker); }

void Fabric::arm() { armed_.store(true, std::memory_order_seq_cst); }

// Whoever arms looks once more afterwards: one of the two sees the other.
void Fabric::wakeOwner() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!armed_.load(std::memory_order_relaxed)) return;
  if (armed_.exchange(false, std::memory_order_acq_rel) && waker_) waker_();
}

}  // namespace moriarty
