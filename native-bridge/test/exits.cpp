// How a process exits while engines are at work that have loaded a library only when they opened:
//   exits <copy of late-library.so>...
// opens one engine with each, and exits as soon as all are at work. Prints who ended in which order.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "../src/exits.hpp"

using namespace moriarty;

namespace {

class Busy final : public Fabric {
 public:
  Busy(const EngineOptions& options, const char* path) : Fabric(options), thread_([this, path] { run(path); }) {}
  uint64_t addRegion(uint64_t, uint64_t) override { return 0; }
  bool join() override {
    if (thread_.joinable()) thread_.join();
    return true;
  }

 private:
  void take(const Order&, std::vector<WorkRequest>*) override {}
  void regionDropped() override {}
  void rouse() override {}

  void run(const char* path) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const auto use = library == nullptr ? nullptr : reinterpret_cast<void (*)()>(dlsym(library, "late_use"));
    if (use == nullptr) {
      std::fprintf(stderr, "exits: %s\n", dlerror());
      std::abort();
    }
    tellState(kOpen);
    while (!closing_.load()) use();
    // What was on its way is ended with the library.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    use();
    (void)!write(STDOUT_FILENO, "engine stopped\n", 15);
  }

  std::thread thread_;
};

}  // namespace

int main(int argc, char** argv) {
  static Header headers[8] = {};
  for (int i = 1; i < argc && i <= 8; i++) {
    stopFirstAtExit();
    EngineOptions options{"", nullptr, 0, &headers[i - 1], nullptr, nullptr, 2, 1, ""};
    auto* engine = new Busy(options, argv[i]);  // as a handle of JavaScript's, which nobody gives back at an exit
    enlist(engine);
    while (engine->state() == kOpening) std::this_thread::yield();
  }
  std::exit(7);
}
