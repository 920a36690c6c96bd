#include "rescue.hpp"

#include <signal.h>
#include <time.h>

namespace moriarty {

namespace {

thread_local Rescue* armed = nullptr;

// A real-time signal that nobody handles, ours from then on; 0 when there is none.
int ownSignal(void (*handler)(int)) {
  static const int number = [handler] {
    for (int each = SIGRTMAX; each >= SIGRTMIN; each--) {
      struct sigaction now = {};
      if (sigaction(each, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) continue;
      struct sigaction ours = {};
      ours.sa_handler = handler;
      ours.sa_flags = SA_NODEFER | SA_RESTART;  // it is left by a jump, so it must not stay blocked
      return sigaction(each, &ours, nullptr) == 0 ? each : 0;
    }
    return 0;
  }();
  return number;
}

}  // namespace

void Rescue::arm(Rescue* rescue) { armed = rescue; }

void Rescue::onSignal(int) {
  Rescue* const rescue = armed;
  if (rescue == nullptr) return;
  armed = nullptr;
  siglongjmp(rescue->out_, 1);
}

bool Rescue::prepare() {
  const int number = ownSignal(onSignal);
  if (number == 0) return false;
  sigset_t ours;
  sigemptyset(&ours);
  sigaddset(&ours, number);
  pthread_sigmask(SIG_UNBLOCK, &ours, nullptr);
  thread_ = pthread_self();
  ready_.store(true, std::memory_order_release);
  return true;
}

std::chrono::nanoseconds Rescue::used() const {
  clockid_t clock;
  timespec time = {};
  if (pthread_getcpuclockid(thread_, &clock) != 0 || clock_gettime(clock, &time) != 0) return std::chrono::nanoseconds(0);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

void Rescue::look(uint32_t turn) {
  seen_ = turn;
  if (turn % 2 == 0 || !ready_.load(std::memory_order_acquire)) return;
  since_ = std::chrono::steady_clock::now();
  usedThen_ = used();
}

void Rescue::judge(const Limits& limits) {
  if (!ready_.load(std::memory_order_acquire)) return;
  if (std::chrono::steady_clock::now() - since_ < limits.wall || used() - usedThen_ < limits.cpu) return;
  pthread_kill(thread_, ownSignal(onSignal));
}

}  // namespace moriarty
