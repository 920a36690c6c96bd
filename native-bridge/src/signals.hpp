// Keeps the process's signal handlers as they are while libraries are loaded and opened. One that Debian's libfabric
// brings along (libinfinipath) takes SIGSEGV, SIGINT and others when it is loaded, and the shm provider takes some when it
// is opened: then an out-of-bounds access of WebAssembly, which V8 turns into an exception by SIGSEGV, would end the
// process, and Ctrl-C would no longer reach Node.
#pragma once

#include <csignal>
#include <cstring>

namespace moriarty {

class KeptSignals {
 public:
  KeptSignals() {
    for (int number = 1; number < kCount; number++) known_[number] = sigaction(number, nullptr, &before_[number]) == 0;
  }
  ~KeptSignals() {
    for (int number = 1; number < kCount; number++) {
      struct sigaction now;
      if (!known_[number] || sigaction(number, nullptr, &now) != 0) continue;
      if (now.sa_handler != before_[number].sa_handler) sigaction(number, &before_[number], nullptr);
    }
  }
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;

 private:
  static constexpr int kCount = 32;  // the real-time signals are nobody's
  struct sigaction before_[kCount];
  bool known_[kCount] = {};
};

}  // namespace moriarty
