// The MoRI-IO half. One engine of ours: two of MoRI's (initiator and target) in this process, one dispatcher thread that
// makes every call which may block, and one completion thread that only asks statuses for their code.
//
//   owner thread                     dispatcher thread                      completion thread
//   post: keys, bounds --FIFO-->     session, BatchRead / BatchWrite --list-->  Code() of each; one record for each batch
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fabric.hpp"
// Visible, so that the loggers that we quieten are MoRI's own and no second set of this object's.
#pragma GCC visibility push(default)
#include "mori/io/io.hpp"
#pragma GCC visibility pop

namespace moriarty {

// What MoRI knows by one descriptor on each side. The memory of JavaScript is one; each piece of GPU memory is one.
struct Registration {
  uint8_t* base = nullptr;
  uint64_t bytes = 0;
  int32_t device = -1;  // -1 is the CPU
  // The dispatcher's: as the initiator and as the target registered it.
  std::optional<mori::io::MemoryDesc> at[2];
};

// A range of a registration; what a key names.
struct Span final : Area {
  Span(Registration* of, uint64_t from, uint64_t size) : Area(size, false), registration(of), offset(from) {}
  bool isGone() const override { return users.load(std::memory_order_acquire) == 0; }
  Registration* const registration;
  const uint64_t offset;
  std::atomic<uint32_t> users{0};  // flights that name it
};

struct Flight {
  explicit Flight(const Order& order)
      : id(order.id), isWrite(order.isWrite), local(std::static_pointer_cast<Span>(order.local)), remote(std::static_pointer_cast<Span>(order.remote)) {
    for (const auto& span : {local, remote}) span->users.fetch_add(1, std::memory_order_relaxed);
  }
  ~Flight() {
    for (const auto& span : {local, remote}) span->users.fetch_sub(1, std::memory_order_release);
  }
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  const double id;
  const bool isWrite;
  const std::shared_ptr<Span> local;
  const std::shared_ptr<Span> remote;
  std::vector<WorkRequest> requests;
  mori::io::TransferStatus* status = nullptr;  // null: it has ended as `code` and `error` say
  int32_t code = kSuccess;
  int32_t error = 0;
};

class MoriEngine final : public Fabric {
 public:
  explicit MoriEngine(const EngineOptions& options);
  ~MoriEngine() override;

  uint64_t addRegion(uint64_t start, uint64_t end) override;
  uint64_t addDeviceRegion(uint64_t pointer, uint64_t bytes, int32_t device) override;
  bool join() override;

 private:
  void take(const Order& order, std::vector<WorkRequest>* requests) override;
  void regionDropped() override {}  // the memory stays registered, and each flight looks at its spans
  void rouse() override;
  uint64_t addSpan(Registration* registration, uint64_t offset, uint64_t bytes);
  // The dispatcher's thread.
  void run();
  void open();  // throws what errorText will say
  void tell(State state, int32_t error);
  void openEnd(size_t end, const std::string& host);
  void dispatch(std::unique_ptr<Flight> flight);
  mori::io::IOEngineSession& sessionOf(Registration* local, Registration* remote);
  const mori::io::MemoryDesc& descriptorOf(Registration* registration, size_t end);
  void launch(mori::io::IOEngineSession& session, Flight& flight, size_t from, size_t to);
  bool waitFor(const Flight& flight);
  void shut();
  // The completion thread.
  void watch();
  // Whose thread it is then: the completion thread's, and after that has ended the dispatcher's.
  bool ended(Flight& flight);
  void recycle(mori::io::TransferStatus* status);
  mori::io::TransferStatus* freshStatus();

  std::thread dispatcher_;
  // Under givenMutex_: whether MoRI may have the memory, and whether nobody waits for the dispatcher any more.
  bool exposed_ = false;
  bool abandoned_ = false;

  // The owner's.
  std::vector<std::unique_ptr<Registration>> registrations_;  // the first is the memory of JavaScript

  std::mutex givenMutex_;
  std::condition_variable givenWake_;
  std::deque<std::unique_ptr<Flight>> given_;

  std::mutex flyingMutex_;
  std::condition_variable flyingWake_;
  std::vector<std::unique_ptr<Flight>> launched_;  // not yet seen by the completion thread
  bool watching_ = true;

  // MoRI writes to a status until its transfer has ended, and may be inside Update when Code() already says so: none is
  // freed before the engines are gone. Those of good transfers are used again, those of failed ones never.
  std::mutex statusMutex_;
  std::vector<std::unique_ptr<mori::io::TransferStatus>> statuses_;
  std::vector<mori::io::TransferStatus*> idle_;

  // The dispatcher's.
  std::thread watcher_;
  std::array<std::unique_ptr<mori::io::IOEngine>, 2> ends_;
  std::map<std::pair<Registration*, Registration*>, mori::io::IOEngineSession> sessions_;
  uint64_t nextTransfer_ = 1;  // never used twice, and far from bit 63

  // The completion thread's.
  std::vector<std::unique_ptr<Flight>> flying_;
};

// Why MoRI must not be called, since it would end the process; empty when nothing speaks against it.
std::string whyNoHost(const std::string& host);
std::string whyNoGpu();
std::string whyNoDevice(const void* pointer, int32_t device);

// Runs [first, next) of a batch whose destinations do not overlap; MoRI sorts the runs of a batch by address.
size_t endOfPart(const std::vector<WorkRequest>& requests, size_t first, bool isWrite);

}  // namespace moriarty
