// Two threads of an engine for the thread sanitizer: regions that come and go while batches that name them are under way,
// posts until the engine refuses, a close in the middle. Prints the count of batches and ends with 0, or says what is wrong.
#include <cstdio>
#include <cstdlib>
#include <cstring>

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
  std::printf("stress: %llu batches, each with one end\n", static_cast<unsigned long long>(batches));
  return 0;
}
