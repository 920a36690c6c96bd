// The libfabric half. One engine: one dispatcher thread that alone talks to libfabric, its lanes (a pair within the process,
// and one for each connection to another process), and the queues between that thread and the owner. Nothing here knows
// JavaScript.
//
//   owner thread                        dispatcher thread                            control thread, with peers only
//   addRegion, dropRegion  --list-->    fi_mr_reg, fi_close
//   connect                --list-->    a lane; hello, claims, revocations  <-----   frames, connections that are gone
//   post: keys, bounds     --ring-->    fi_write / fi_read, completion queues polled
//   reads the ring         <--ring--    one record for each batch
#pragma once

#include <array>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "control.hpp"
#include "lane.hpp"

namespace moriarty {

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

class Engine final : public Fabric, private ControlListener {
 public:
  explicit Engine(const EngineOptions& options);
  ~Engine() override;

  uint64_t addRegion(uint64_t start, uint64_t end) override;
  bool join() override;
  Door door() const override;
  uint32_t connect(const Door& door) override;
  void disconnect(uint32_t peer) override;
  std::shared_ptr<const Peer> peer(uint32_t number) const override;
  uint64_t addPeerRegion(uint32_t peer, uint32_t id, uint64_t at, uint64_t bytes) override;

 private:
  // What the owner wants done about a connection.
  struct Wish {
    uint32_t number;
    std::shared_ptr<Peer> peer;  // null: it is to end
    Door door;
  };

  void take(const Order& order, std::vector<WorkRequest>* requests) override;
  void rouse() override;
  void regionDropped() override { touch(); }
  void touch();
  void addArea(std::shared_ptr<Region> region);

  // The control thread's.
  bool note(Note note) override;
  void tick() override;

  // The dispatcher's thread: engine.cpp.
  void run();
  int open();
  int openLane(Lane* lane);
  int introduce();
  void shut();
  void endAll();
  void sortChanges();
  void sortRegions(std::vector<std::shared_ptr<Region>> added);
  bool isUseless(const std::shared_ptr<Region>& region);
  bool takeGiven();
  bool turn(Lane* lane);
  bool postSome(Lane* lane);
  bool startNext(Batch* batch);
  bool reap(Lane* lane);
  void settle(Lane* lane);
  void spoil(Batch* batch, int32_t code, int32_t error);
  void endBatch(Batch* batch);
  bool ownIsBusy() const;
  bool isBusy(const Lane& lane) const;
  bool hasWork() const;
  void rest(int idle);
  void sleepUntilWork();

  // The dispatcher's thread: peers.cpp.
  int openDoor();
  void startDialling(Wish wish);
  void heed(Note* note);
  void heedServing(Lane* lane, const Frame& frame);
  void heedAsking(Lane* lane, const Frame& frame);
  void heedGrant(Lane* lane, Region* region, const Frame& grant);
  void serve(uint32_t link, const Hello& hello);
  bool isFit(const Hello& hello) const;
  Frame helloTo(const std::string& key, const Lane& lane) const;
  void greet(Lane* lane);
  void claim(const std::shared_ptr<Region>& region);
  void answerClaim(Lane* lane, const Frame& claim);
  void revoke(Region* region);
  void releaseIfIdle(Region* region);
  void giveUp(Region* region);
  void sendWord(const Lane& lane, Word word, uint64_t id = 0);
  void lose(Lane* lane, int error);
  void sweepLost();
  void checkPatience();
  void quietPeers();
  void drain();
  void sayBye();
  Lane* laneOf(uint32_t link) const;
  Lane* askingLane(uint32_t peer) const;

  std::thread thread_;
  const HugePages hugePages_;

  // The owner's.
  std::unordered_map<uint32_t, std::shared_ptr<Peer>> peers_;
  uint32_t nextPeer_ = 1;
  std::map<std::array<uint64_t, 4>, uint64_t> known_;  // what was asked for of a peer's region, and its key

  // Between the two.
  std::vector<std::unique_ptr<Batch>> batches_;
  Ring<Batch*> free_;
  Ring<Batch*> given_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> asleep_{false};
  int wakerCore_ = -1;  // under mutex_: of who woke the dispatcher
  std::atomic<bool> changed_{false};
  // Under mutex_.
  std::vector<std::shared_ptr<Region>> added_;
  std::vector<Wish> wishes_;
  std::vector<Note> notes_;
  std::set<uint32_t> goneLinks_;

  // The dispatcher's; door_ is written before the engine is open, and never again.
  Door door_;
  Ports ports_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // the first two are the pair within the process
  std::vector<std::unique_ptr<Lane>> lost_;
  std::vector<std::shared_ptr<Region>> regions_;
  std::shared_ptr<Region> greeting_;  // where a peer writes its first byte, and from where ours comes
  Batch greetBatch_;
  alignas(64) uint8_t greetBytes_[2] = {};
  std::unique_ptr<Control> control_;
  Rescue rescue_;
  uint32_t turns_ = 0;
  bool leaked_ = false;   // an endpoint could not be closed
  bool exposed_ = false;  // a peer that does not answer may still write to the memory
};

// How long a first byte within the process may take; how long a peer may take from our hello to it, on a machine that has
// much else to do; and how long its answers at the end.
constexpr std::chrono::seconds kIntroduceMax(10);
constexpr std::chrono::seconds kMeetMax(30);
constexpr std::chrono::seconds kDrainMax(2);

}  // namespace moriarty
