// A way out of a call that will never return. The shm provider keeps its locks in memory that both processes map: one
// that was killed while it held one leaves the other spinning in it for ever. The control thread, which knows that the
// process is gone, then takes the dispatcher out of the call by a signal and a long jump. The endpoint is not touched again.
#pragma once

#include <pthread.h>
#include <setjmp.h>

#include <atomic>
#include <chrono>
#include <cstdint>

namespace moriarty {

class Rescue {
 public:
  // The dispatcher's: calls, which must have nothing to destroy; false when it had to be taken out of the call.
  template <typename Function>
  bool call(uint32_t link, Function function) {
    link_.store(link, std::memory_order_relaxed);
    turn_.fetch_add(1, std::memory_order_release);
    if (sigsetjmp(out_, 0) == 0) {
      arm(this);
      function();
      leave();
      return true;
    }
    leave();
    return false;
  }
  // By the dispatcher, before the first call. False when no signal is free for it.
  bool prepare();

  // The control thread's, some times a second: takes the dispatcher out when it has been inside one call for longer than
  // `wall` and used more than `cpu` of its own time there: so it does spin, and does not only wait for a core.
  struct Limits {
    std::chrono::milliseconds wall, cpu;
  };
  template <typename LimitsOf>
  void watch(LimitsOf limitsOf) {
    const uint32_t turn = turn_.load(std::memory_order_acquire);
    if (turn % 2 == 0 || turn != seen_) return look(turn);
    judge(limitsOf(link_.load(std::memory_order_relaxed)));
  }

 private:
  static void arm(Rescue* rescue);
  void leave() {
    arm(nullptr);
    turn_.fetch_add(1, std::memory_order_release);
  }
  static void onSignal(int);
  void look(uint32_t turn);
  void judge(const Limits& limits);
  std::chrono::nanoseconds used() const;

  sigjmp_buf out_;
  std::atomic<uint32_t> turn_{0};  // odd inside a call
  std::atomic<uint32_t> link_{0};
  std::atomic<bool> ready_{false};
  pthread_t thread_ = {};
  // The control thread's.
  uint32_t seen_ = 0;
  std::chrono::steady_clock::time_point since_;
  std::chrono::nanoseconds usedThen_{0};
};

}  // namespace moriarty
