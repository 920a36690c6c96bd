// What an engine loads when it opens, as MoRI-IO loads verbs and HIP: its clean-up is registered when it is loaded, and who
// uses it afterwards has lost.
#include <unistd.h>

#include <atomic>
#include <cstdlib>

namespace {

std::atomic<bool> gone{false};

struct CleanUp {
  ~CleanUp() {
    gone = true;
    (void)!write(STDOUT_FILENO, "library gone\n", 13);
  }
} cleanUp;

}  // namespace

extern "C" void late_use() {
  if (gone) std::abort();
}
