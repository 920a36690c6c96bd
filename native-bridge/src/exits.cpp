#include "exits.hpp"

#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

namespace moriarty {

namespace {

struct Everywhere {
  std::mutex mutex;
  std::vector<Fabric*> engines;
};

Everywhere& everywhere() {
  static auto* const all = new Everywhere;  // never freed: it must outlive every other exit handler
  return *all;
}

// Runs once for each registration; the first run stops all, and later ones, when the libraries may be gone, find none.
void stopEverywhere() {
  Everywhere& all = everywhere();
  std::lock_guard<std::mutex> lock(all.mutex);  // held: no other thread may free one meanwhile
  for (Fabric* engine : all.engines) engine->beginClose();
  for (Fabric* engine : all.engines) engine->join();
  all.engines.clear();
}

// How many libraries this process has ever loaded.
unsigned long long loadedEver() {
  unsigned long long count = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* into) {
        *static_cast<unsigned long long*>(into) = info->dlpi_adds;
        return 1;
      },
      &count);
  return count;
}

}  // namespace

void enlist(Fabric* engine) {
  Everywhere& all = everywhere();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.engines.push_back(engine);
}

void delist(Fabric* engine) {
  Everywhere& all = everywhere();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.engines.erase(std::remove(all.engines.begin(), all.engines.end(), engine), all.engines.end());
}

void stopFirstAtExit() {
  static std::atomic<unsigned long long> seen{0};
  const unsigned long long loaded = loadedEver();
  if (seen.exchange(loaded, std::memory_order_acq_rel) != loaded) std::atexit(stopEverywhere);
}

}  // namespace moriarty
