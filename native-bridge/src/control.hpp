// The sockets by which engines of different processes know each other: one listener, one connection for each pair, one
// thread that sleeps in poll(). It carries frames and says when a connection is gone, which the kernel tells at once also
// of a process that was killed. What the frames mean is the engine's business.
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "frames.hpp"

namespace moriarty {

// What the control thread has for the dispatcher, in order.
struct Note {
  uint32_t link = 0;
  bool gone = false;  // else `frame` came
  int error = 0;      // why it is gone, 0 when the other side closed it
  Frame frame;
};

// Called by the control thread; both return at once.
class ControlListener {
 public:
  virtual ~ControlListener() = default;
  // False when too many wait to be heeded: whoever speaks so much is hung up on. That one is gone is always taken.
  virtual bool note(Note note) = 0;
  virtual void tick() = 0;  // some times a second while there are links
};

class Control {
 public:
  explicit Control(ControlListener* listener) : listener_(listener) {}
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // Listens on a port that the system chooses; an errno, or 0.
  int open(const std::string& host, uint16_t* port);
  // The dispatcher's thread from here on. A link that cannot be had is told as gone.
  uint32_t dial(const std::string& host, uint16_t port);
  void send(uint32_t link, const Frame& frame);
  // What was sent before still goes out, as far as the other side takes it.
  void hangUp(uint32_t link);

 private:
  struct Link {
    int socket = -1;
    bool connecting = false;
    bool known = false;    // has said hello, or was dialled by us
    bool leaving = false;  // closed once `out` is empty or `until` has come
    std::chrono::steady_clock::time_point until;
    std::vector<uint8_t> in;
    std::vector<uint8_t> out;
  };

  void run();
  void wake();
  void stop();
  void acceptOne();
  void readSome(uint32_t number, Link* link);
  bool takeFrames(uint32_t number, Link* link);
  void writeSome(uint32_t number, Link* link);
  void drop(uint32_t number, int error);
  void dropLate();

  ControlListener* const listener_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  int listening_ = -1;
  int wakeUp_ = -1;  // an eventfd
  std::chrono::steady_clock::time_point tickUntil_;  // the control thread's

  std::mutex mutex_;  // links_ and nextLink_
  std::map<uint32_t, Link> links_;
  uint32_t nextLink_ = 1;
};

// A dotted IPv4 address.
bool isAddress(const std::string& host);

}  // namespace moriarty
