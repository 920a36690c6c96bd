// What one half of the bridge, libfabric or MoRI-IO, is to the addon: an engine behind an interface, and the memory that
// its threads share with JavaScript. Nothing here knows a library or JavaScript.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
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

struct EngineOptions {
  std::string provider;  // as the library names it: "shm" or "tcp;ofi_rxm" of libfabric, "rdma" or "rdma;<host>" of MoRI-IO
  uint8_t* memory;
  uint64_t memoryBytes;
  Header* header;
  Completion* records;
  const double* staging;  // triples (local offset, remote offset, bytes)
  uint32_t slots;         // completion records and batches in flight, a power of two
  uint32_t runsMax;       // work requests that the staging area holds
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
  virtual void dropRegion(uint64_t key) = 0;
  virtual Refusal post(uint64_t localKey, uint64_t remoteKey, bool isWrite, uint32_t count, double id) = 0;
  virtual void beginClose() = 0;
  // False when it hangs in its library before that had anything of ours: then the engine must be left alone for ever.
  virtual bool join() = 0;

  State state() const { return static_cast<State>(options_.header->state.load(std::memory_order_acquire)); }

 protected:
  explicit Fabric(const EngineOptions& options) : options_(options) {}
  // Copies the staged batch; false when a run is no run of whole numbers within regions of these sizes.
  bool readStaged(uint32_t count, uint64_t localBytes, uint64_t remoteBytes, std::vector<WorkRequest>* requests) const;

  const EngineOptions options_;
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
// Once, on loading, before any thread of ours and before the exit handler of the addon.
void prepareLibrary();

// Two ways to see what the library makes of a descriptor, for tests. False when the library has none.
enum class Packed { kEngine = 0, kMemory = 1 };
// Unpacks and packs again.
bool repack(Packed kind, const uint8_t* bytes, size_t count, std::vector<uint8_t>* packed);
// Of an engine without a backend and of this memory as it registers it; touches no device.
bool describe(uint8_t* memory, uint64_t bytes, std::vector<uint8_t>* engine, std::vector<uint8_t>* region);

}  // namespace moriarty
