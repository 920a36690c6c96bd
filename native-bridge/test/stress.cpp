// Threads of engines for the thread sanitizer: regions that come and go while batches that name them are under way,
// posts until the engine refuses, a close in the middle; then the same between two engines that know each other by their
// control connections alone. Prints the count of batches and ends with 0, or says what is wrong.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "../src/engine.hpp"

using namespace moriarty;

namespace {

constexpr uint32_t kSlots = 64;
constexpr uint32_t kRunsMax = 16;
constexpr uint64_t kHalf = 1u << 20;

void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "stress: %s\n", what);
  std::exit(1);
}

uint32_t next(uint32_t* state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

struct Side {
  explicit Side(const std::string& provider)
      : memory(2 * kHalf, 1), records(kSlots), staging(3 * kRunsMax),
        engine({provider, memory.data(), memory.size(), &header, records.data(), staging.data(), kSlots, kRunsMax, "127.0.0.1", 30'000}) {
    engine.setWaker([this] { woken.fetch_add(1, std::memory_order_relaxed); });
    while (engine.state() == kOpening) std::this_thread::yield();
    must(engine.state() == kOpen, "the engine does not open");
  }
  void poll() {
    engine.arm();
    const uint32_t produced = header.produced.load(std::memory_order_acquire);
    for (; ended != produced; ended++) {
      const Completion& record = records[ended % kSlots];
      must(record.code == kSuccess || record.code == kRdmaOp || record.code == kBadState, "an odd code");
    }
    header.consumed.store(ended, std::memory_order_release);
  }
  uint32_t meet(const Side& other) {
    const uint32_t number = engine.connect(other.engine.door());
    must(number != 0, "a connection is refused");
    while (engine.peer(number)->state.load(std::memory_order_acquire) == kOpening) std::this_thread::yield();
    must(engine.peer(number)->state.load() == kOpen, "there is no connection");
    return number;
  }

  Header header = {};
  std::vector<uint8_t> memory;
  std::vector<Completion> records;
  std::vector<double> staging;
  std::atomic<uint32_t> woken{0};
  uint32_t posted = 0, ended = 0;
  Engine engine;
};

// One posts to the other, whose region is taken back and given anew; then one of them is closed under the other's hands.
uint64_t amongEngines(const std::string& provider, uint32_t* draw, bool targetFirst) {
  Side asking(provider), serving(provider);
  const uint32_t peer = asking.meet(serving);
  const uint64_t local = asking.engine.addRegion(0, kHalf);
  uint64_t theirs = serving.engine.addRegion(0, kHalf);
  const auto import = [&] { return asking.engine.addPeerRegion(peer, static_cast<uint32_t>(theirs), serving.engine.addressOf(0), kHalf); };
  uint64_t remote = import();
  for (int turn = 0; turn < 600; turn++) {
    for (uint32_t i = 0; i < kRunsMax; i++) {
      asking.staging[3 * i] = next(draw) % (kHalf - 8192);
      asking.staging[3 * i + 1] = next(draw) % (kHalf - 8192);
      asking.staging[3 * i + 2] = next(draw) % 8192;
    }
    const Refusal refusal = asking.engine.post(local, remote, next(draw) % 2 == 0, kRunsMax, turn);
    must(refusal == kTaken || refusal == kFull || refusal == kDeadKey, "a good batch was refused");
    if (refusal == kTaken) asking.posted++;
    asking.poll();
    if (turn % 50 == 49) {
      const uint64_t old = theirs;
      serving.engine.dropRegion(old);
      while (!serving.engine.isGone(old)) asking.poll();
      theirs = serving.engine.addRegion(0, kHalf);
      remote = import();
    }
    if (refusal != kTaken) std::this_thread::yield();
  }
  (targetFirst ? serving : asking).engine.beginClose();
  for (Side* side : {&asking, &serving}) {
    side->engine.beginClose();
    side->engine.join();
    side->poll();
    must(side->ended == side->posted, "a batch has no end, or two");
  }
  must(asking.woken.load() > 0, "nobody was woken");
  return asking.posted;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string provider = argc > 1 ? argv[1] : "shm";
  uint32_t draw = 7;
  uint64_t batches = 0;
  for (int engineRound = 0; engineRound < 6; engineRound++) {
    std::vector<uint8_t> memory(2 * kHalf, 1);
    std::vector<Completion> records(kSlots);
    std::vector<double> staging(3 * kRunsMax);
    Header header = {};
    uint32_t posted = 0, ended = 0;
    {
      Engine engine({provider, memory.data(), memory.size(), &header, records.data(), staging.data(), kSlots, kRunsMax, "", 30'000});
      while (engine.state() == kOpening) std::this_thread::yield();
      must(engine.state() == kOpen, "the engine does not open");
      const auto poll = [&] {
        const uint32_t produced = header.produced.load(std::memory_order_acquire);
        for (; ended != produced; ended++) {
          const Completion& record = records[ended % kSlots];
          must(record.code == kSuccess || record.code == kRdmaOp || record.code == kBadState, "an odd code");
        }
        header.consumed.store(ended, std::memory_order_release);
      };
      uint64_t local = engine.addRegion(0, kHalf), remote = engine.addRegion(kHalf, 2 * kHalf);
      for (int turn = 0; turn < 1500; turn++) {
        const uint32_t count = next(&draw) % (kRunsMax + 1);
        for (uint32_t i = 0; i < count; i++) {
          staging[3 * i] = next(&draw) % (kHalf - 8192);
          staging[3 * i + 1] = next(&draw) % (kHalf - 8192);
          staging[3 * i + 2] = next(&draw) % 8192;
        }
        const Refusal refusal = engine.post(local, remote, next(&draw) % 2 == 0, count, posted);
        must(refusal == kTaken || refusal == kFull, "a good batch was refused");
        if (refusal == kTaken) posted++;
        if (refusal == kFull || next(&draw) % 4 == 0) poll();
        if (next(&draw) % 16 == 0) {
          engine.dropRegion(remote);
          remote = engine.addRegion(kHalf, 2 * kHalf);
        }
        if (refusal == kFull) std::this_thread::yield();
      }
      if (engineRound % 2 == 0)
        while (ended != posted) poll();
      engine.beginClose();
      engine.join();
      must(engine.state() == kClosed, "the engine does not close");
      poll();
    }
    must(ended == posted, "a batch has no end, or two");
    batches += posted;
  }
  for (const bool targetFirst : {false, true, false, true}) batches += amongEngines(provider, &draw, targetFirst);
  std::printf("stress: %llu batches, each with one end\n", static_cast<unsigned long long>(batches));
  return 0;
}
