// Memory for engines, as bytes of JavaScript that begin on a page, or on a huge page where they fill one.
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "addon.hpp"

namespace moriarty {

namespace {

constexpr uint64_t kHugePageBytes = 2u << 20;
constexpr uint64_t kBytesMax = 1ull << 36;

// By address: what JavaScript and engines still have.
struct Known {
  std::mutex mutex;
  std::map<const uint8_t*, std::weak_ptr<Mapping>> mappings;
};

Known& known() {
  static auto* const all = new Known;  // never freed: engines may end after every other static has
  return *all;
}

uint64_t roundUp(uint64_t number, uint64_t unit) { return (number + unit - 1) / unit * unit; }

// Null when there is no room. What is mapped beyond the aligned part is given back at once.
uint8_t* mapAligned(uint64_t bytes, uint64_t unit) {
  const uint64_t slack = bytes + unit;
  void* const wide = mmap(nullptr, slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (wide == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<uint8_t*>(wide);
  const uint64_t before = roundUp(reinterpret_cast<uintptr_t>(begin), unit) - reinterpret_cast<uintptr_t>(begin);
  if (before > 0) munmap(begin, before);
  if (slack - before > bytes) munmap(begin + before + bytes, slack - before - bytes);
  return begin + before;
}

// JavaScript has forgotten it, or its environment ends: Node takes such buffers away before it stops the engines.
void forget(napi_env env, void*, void* hint) {
  auto* const mapping = static_cast<std::shared_ptr<Mapping>*>(hint);
  int64_t now;
  napi_adjust_external_memory(env, -static_cast<int64_t>((*mapping)->bytes), &now);
  delete mapping;
}

// allocate(bytes): an ArrayBuffer of zeros. A child that is forked does not get it: what a NIC has pinned must not be copied
// on write. It goes when JavaScript and every engine that was opened with it have let go of it.
napi_value allocate(napi_env env, napi_callback_info info) {
  napi_value values[1];
  uint64_t bytes;
  if (!arguments(env, info, values) || !integerOf(env, values[0], &bytes) || bytes == 0 || bytes > kBytesMax)
    return fail(env, "FABRIC-MEMORY", "allocate(bytes): a whole number of bytes from 1 to 2^36");
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const bool isHuge = bytes >= kHugePageBytes;
  const uint64_t whole = roundUp(bytes, page);
  uint8_t* const start = mapAligned(whole, isHuge ? kHugePageBytes : page);
  if (start == nullptr) return fail(env, "FABRIC-MEMORY", "the system has no room for so many bytes");
  madvise(start, whole, MADV_DONTFORK);
  if (isHuge) madvise(start, whole, MADV_HUGEPAGE);
  auto* const mapping = new std::shared_ptr<Mapping>(std::make_shared<Mapping>(start, whole));
  {
    std::lock_guard<std::mutex> lock(known().mutex);
    known().mappings[start] = *mapping;
  }
  napi_value buffer;
  if (napi_create_external_arraybuffer(env, start, bytes, forget, mapping, &buffer) != napi_ok) {
    delete mapping;
    return fail(env, "FABRIC-MEMORY", "this JavaScript engine takes no memory from outside");
  }
  int64_t now;
  napi_adjust_external_memory(env, static_cast<int64_t>(whole), &now);
  return buffer;
}

}  // namespace

Mapping::~Mapping() {
  {
    std::lock_guard<std::mutex> lock(known().mutex);
    known().mappings.erase(start);
  }
  munmap(start, bytes);
}

std::shared_ptr<Mapping> mappingAt(const void* start) {
  std::lock_guard<std::mutex> lock(known().mutex);
  const auto found = known().mappings.find(static_cast<const uint8_t*>(start));
  return found == known().mappings.end() ? nullptr : found->second.lock();
}

std::vector<Exported> memoryFunctions() { return {{"allocate", allocate}}; }

}  // namespace moriarty
