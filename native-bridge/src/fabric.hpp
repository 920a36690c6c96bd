// What one half of the bridge, libfabric or MoRI-IO, is to the addon: an engine behind an interface, what both halves do
// alike, and the memory that its threads share with JavaScript. Nothing here knows a library or JavaScript.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace moriarty {

// As src/node/native-addon.ts says them.
enum State : int32_t { kOpening = 0, kOpen = 1, kFailed = 2, kClosed = 3 };

// The numbers of src/io/codes.ts.
enum Code : int32_t { kSuccess = 0, kInvalidArgs = 11, kRdmaOp = 13, kBadState = 14 };

// What `post` answers: 0, taken; else why not.
enum Refusal : int32_t { kTaken = 0, kOutOfRange = 1, kDeadKey = 2, kFull = 3, kNotOpen = 4, kTooLong = 5 };

// The memory that both threads see. The owner allocates it, and keeps it until the engine is closed.
struct Header {
  std::atomic<int32_t> state;
  int32_t openError;  // for errorText, valid when state is kFailed
  uint8_t room1[56];
  std::atomic<uint32_t> produced;  // completion records written, ever
  uint8_t room2[60];
  std::atomic<uint32_t> consumed;  // completion records read, ever
  uint8_t room3[60];
};
static_assert(sizeof(Header) == 192 && alignof(Header) == 4);

struct Completion {
  double id;
  int32_t code;
  int32_t error;  // for errorText, 0 when there is none
};
static_assert(sizeof(Completion) == 16);

struct WorkRequest {
  uint64_t local;
  uint64_t remote;
  uint64_t bytes;
};

// What a key names: a range of memory, here or at a peer.
struct Area {
  Area(uint64_t size, bool there) : bytes(size), atPeer(there) {}
  virtual ~Area() = default;
  const uint64_t bytes;
  const bool atPeer;               // such a one can only be a batch's target
  std::atomic<bool> dead{false};   // new batches that name it are refused, posted ones end
  virtual bool isGone() const = 0; // and nobody can touch it any more
};

struct Order {
  double id;
  bool isWrite;
  std::shared_ptr<Area> local;
  std::shared_ptr<Area> remote;
};

struct EngineOptions {
  std::string provider;  // as the library names it: "shm" or "tcp;ofi_rxm" of libfabric, "rdma" or "rdma;<host>" of MoRI-IO
  uint8_t* memory;
  uint64_t memoryBytes;
  Header* header;
  Completion* records;
  const double* staging;  // triples (local offset, remote offset, bytes)
  uint32_t slots;         // completion records and batches in flight, a power of two
  uint32_t runsMax;       // work requests that the staging area holds
  std::string host;       // dotted IPv4 at which other processes may ask for it; empty: none may, and it asks for none
  uint32_t patienceMillis = 30'000;  // how long a peer that lives may do nothing
};

// Where an engine can be asked for: what its EngineDesc says.
struct Door {
  std::string key;  // empty: none
  std::string host;
  uint16_t port = 0;
};

// One connection to an engine of another process, as its owner sees it.
struct Peer {
  std::atomic<int32_t> state{kOpening};
  std::atomic<int32_t> error{0};  // for errorText, valid once the state is kFailed or kClosed
};

// All is called by the owner's thread. Nothing but `join` waits for another thread.
class Fabric {
 public:
  virtual ~Fabric() = default;  // closes and joins
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  // The key of bytes [start, end) of the memory.
  virtual uint64_t addRegion(uint64_t start, uint64_t end) = 0;
  // The key of GPU memory, or 0 when there is none to be had: this half has no such memory, or the place is taken.
  virtual uint64_t addDeviceRegion(uint64_t, uint64_t, int32_t) { return 0; }
  void dropRegion(uint64_t key);
  // Whether nobody, here or at a peer, can touch what the key named; true of a key that was never given.
  bool isGone(uint64_t key);
  Refusal post(uint64_t localKey, uint64_t remoteKey, bool isWrite, uint32_t count, double id);
  void beginClose();
  // False when it hangs in its library, or a peer may still write to the memory: then both must be left alone for ever.
  virtual bool join() = 0;

  // Other processes. A half that knows none keeps these.
  virtual Door door() const { return {}; }
  // The number of a connection that is being made, or 0 when there can be none.
  virtual uint32_t connect(const Door&) { return 0; }
  virtual void disconnect(uint32_t) {}
  virtual std::shared_ptr<const Peer> peer(uint32_t) const { return nullptr; }
  // The key of a region that the peer registered as `id`; 0 when there is no such connection.
  virtual uint64_t addPeerRegion(uint32_t, uint32_t, uint64_t, uint64_t) { return 0; }

  State state() const { return static_cast<State>(options_.header->state.load(std::memory_order_acquire)); }
  uint64_t addressOf(uint64_t start) const { return reinterpret_cast<uint64_t>(options_.memory) + start; }

  // `waker` is called from any thread, once after each `arm`, when something has ended or changed.
  void setWaker(std::function<void()> waker);
  void arm();

 protected:
  explicit Fabric(const EngineOptions& options) : options_(options) {}
  uint64_t keep(std::shared_ptr<Area> area);
  bool lives(uint64_t key) const { return areaOf(key) != nullptr; }
  // A batch that has been looked at; its work requests may be swapped away.
  virtual void take(const Order& order, std::vector<WorkRequest>* requests) = 0;
  // The other thread should look: a key has died, or it is to close.
  virtual void regionDropped() = 0;
  virtual void rouse() = 0;
  // Of the one thread that ends batches.
  void record(double id, int32_t code, int32_t error);
  void tellState(State state, int32_t error = 0);
  void wakeOwner();

  const EngineOptions options_;
  std::atomic<bool> closing_{false};

 private:
  const std::shared_ptr<Area>* areaOf(uint64_t key) const;
  bool readStaged(uint32_t count, uint64_t localBytes, uint64_t remoteBytes);

  // The owner's.
  std::unordered_map<uint64_t, std::shared_ptr<Area>> live_;
  std::unordered_map<uint64_t, std::shared_ptr<Area>> dying_;
  size_t dyingMax_ = 64;
  std::vector<WorkRequest> staged_;
  uint64_t nextKey_ = 1;
  uint32_t posted_ = 0;
  // Of the thread that ends batches.
  uint32_t produced_ = 0;
  // Both.
  std::function<void()> waker_;
  std::atomic<bool> armed_{false};
};

// Each half defines these once; the addon is linked with one of them.
struct Library {
  const char* name;
  std::string built;    // version of the headers
  std::string running;  // version of what was loaded
};
Library library();
std::string errorText(int32_t error);
std::unique_ptr<Fabric> openFabric(const EngineOptions& options);
// Once, on loading, before any thread of ours.
void prepareLibrary();

// Two ways to see what the library makes of a descriptor, for tests. False when the library has none.
enum class Packed { kEngine = 0, kMemory = 1 };
// Unpacks and packs again.
bool repack(Packed kind, const uint8_t* bytes, size_t count, std::vector<uint8_t>* packed);
// Of an engine without a backend and of this memory as it registers it; touches no device.
bool describe(uint8_t* memory, uint64_t bytes, std::vector<uint8_t>* engine, std::vector<uint8_t>* region);

}  // namespace moriarty
