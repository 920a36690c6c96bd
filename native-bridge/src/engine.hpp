// The libfabric half. One engine: two libfabric endpoints (initiator and target) in this process, one dispatcher thread that alone talks to
// libfabric, and the queues between that thread and the owner. Nothing here knows JavaScript.
//
//   owner thread                        dispatcher thread
//   addRegion, dropRegion  --list-->    fi_mr_reg, fi_close
//   post: keys, bounds     --ring-->    fi_write / fi_read, both completion queues polled
//   reads the ring         <--ring--    one record for each batch
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "fabric.hpp"

namespace moriarty {

struct Region {
  uint8_t* base = nullptr;
  uint64_t bytes = 0;
  uint64_t key = 0;
  std::atomic<bool> dead{false};
  std::atomic<uint32_t> users{0};  // batches that name it and have not ended
  // The dispatcher's.
  fid_mr* mr = nullptr;
  int error = 0;
};

// One batch on its way. `context` of every operation leads back to it.
struct Batch {
  double id = 0;
  bool isWrite = false;
  bool busy = false;  // the dispatcher's, from taken to ended
  Region* local = nullptr;
  Region* remote = nullptr;
  std::vector<WorkRequest> requests;
  size_t next = 0;          // first work request that is not posted
  uint32_t outstanding = 0; // posted and not completed
  uint64_t bytes = 0;       // posted
  int32_t code = kSuccess;
  int32_t error = 0;
};

// One producer, one consumer, a power of two of slots.
template <typename T>
class Ring {
 public:
  explicit Ring(uint32_t slots) : slots_(slots), mask_(slots - 1) {}
  bool push(T value) {
    const uint32_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_.load(std::memory_order_acquire) > mask_) return false;
    slots_[tail & mask_] = value;
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }
  bool pop(T* value) {
    const uint32_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load(std::memory_order_acquire)) return false;
    *value = slots_[head & mask_];
    head_.store(head + 1, std::memory_order_release);
    return true;
  }
  bool empty() const { return head_.load(std::memory_order_relaxed) == tail_.load(std::memory_order_acquire); }

 private:
  std::vector<T> slots_;
  const uint32_t mask_;
  alignas(64) std::atomic<uint32_t> head_{0};
  alignas(64) std::atomic<uint32_t> tail_{0};
};

class Engine final : public Fabric {
 public:
  explicit Engine(const EngineOptions& options);
  ~Engine() override;

  uint64_t addRegion(uint64_t start, uint64_t end) override;
  void dropRegion(uint64_t key) override;
  Refusal post(uint64_t localKey, uint64_t remoteKey, bool isWrite, uint32_t count, double id) override;
  void beginClose() override;
  bool join() override;

 private:
  void touchRegions();
  void rouse();
  // The dispatcher's thread.
  void run();
  int open();
  int openEndpoint(fid_ep** ep, fid_cq** cq);
  int introduce();
  void forgetName(fid_ep* end);
  void shut();
  void sortRegions();
  void registerRegion(Region* region);
  bool postSome();
  bool startNext(Batch* batch);
  bool reap(fid_cq* queue, bool ours);
  void spoil(Batch* batch, int32_t code, int32_t error);
  void endBatch(Batch* batch);
  void sleepUntilWork();
  bool hasWork() const;
  bool hasRoom() const;

  std::thread thread_;

  // The owner's.
  std::unordered_map<uint64_t, Region*> live_;
  uint64_t nextKey_ = 1;
  uint32_t posted_ = 0;
  std::vector<Batch*> spare_;  // taken for a batch that was then refused

  // Between the two.
  std::vector<std::unique_ptr<Batch>> batches_;
  Ring<Batch*> free_;
  Ring<Batch*> given_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> asleep_{false};
  std::atomic<bool> closing_{false};
  std::atomic<bool> regionsChanged_{false};
  std::vector<std::unique_ptr<Region>> added_;  // under mutex_

  // The dispatcher's.
  std::vector<std::unique_ptr<Region>> regions_;
  std::deque<Batch*> waiting_;  // not yet posted to the end, in order
  size_t inFlight_ = 0;         // operations
  uint64_t bytesInFlight_ = 0;
  size_t inFlightMax_ = 0;      // as many as a completion queue holds
  uint32_t produced_ = 0;
  bool virtualAddresses_ = false;
  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_av* av_ = nullptr;
  fid_cq* initiatorQueue_ = nullptr;
  fid_cq* targetQueue_ = nullptr;
  fid_ep* initiator_ = nullptr;
  fid_ep* target_ = nullptr;
  fi_addr_t targetAddress_ = FI_ADDR_UNSPEC;
};

// The hints with which engine and baseline ask for a provider; freed by the caller with fi_freeinfo. Null without memory.
fi_info* hintsFor(const std::string& provider);
// fi_getinfo with these hints: over loopback for tcp, without a node for shm.
int findProvider(const std::string& provider, fi_info** found);

}  // namespace moriarty
