// One libfabric endpoint with its completion queue and its address book, which holds one address: a lane leads to exactly
// one other lane, in this process or in another. So one that breaks takes no other peer's transfers with it, and closing
// its endpoint is all that it takes for nothing more to land by it.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fabric.hpp"
#include "rescue.hpp"

namespace moriarty {

struct Lane;

struct Region final : Area {
  Region(uint64_t size, bool there) : Area(size, there) {}
  bool isGone() const override { return gone.load(std::memory_order_acquire); }
  std::atomic<bool> gone{false};
  std::atomic<uint32_t> users{0};  // batches that name it and have not ended
  // The dispatcher's, of memory of ours.
  uint8_t* base = nullptr;
  uint64_t id = 0;  // what a peer calls it by
  fid_mr* mr = nullptr;
  int error = 0;
  std::set<Lane*> grantedTo;
  bool revoked = false;
  // The dispatcher's, of memory at a peer: as its descriptor has it, then as its engine has granted it.
  uint32_t peer = 0;
  Lane* lane = nullptr;
  uint64_t at = 0;
  uint64_t key = 0;
  bool claimed = false;
  bool granted = false;
  uint32_t operations = 0;  // inside the provider
};

// One batch on its way. `context` of every operation leads back to it.
struct Batch {
  double id = 0;
  bool isWrite = false;
  bool busy = false;  // the dispatcher's, from taken to ended
  Lane* lane = nullptr;
  std::shared_ptr<Region> local;
  std::shared_ptr<Region> remote;
  std::vector<WorkRequest> requests;
  size_t next = 0;          // first work request that is not posted
  uint32_t outstanding = 0; // posted and not completed
  uint64_t bytes = 0;       // posted
  int32_t code = kSuccess;
  int32_t error = 0;
};

// Asks for huge pages wherever the memory has room for them. Nothing depends on it: a kernel that cannot says so, and all
// stays as it is.
class HugePages {
 public:
  HugePages(uint8_t* start, uint64_t bytes);
  // Makes huge ones of the pages that are there already; later ones are huge from the first. Of the memory alone.
  void gather(const uint8_t* start, uint64_t bytes) const;

 private:
  const uintptr_t from_, to_;
};

// What all lanes of an engine share.
struct Ports {
  int open(const std::string& provider);
  void close();
  int registerRegion(Region* region);

  fi_info* info = nullptr;
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  fid_ep* served = nullptr;  // of the pair within the process: the end that is posted to
  bool virtualAddresses = false;
  size_t inFlightMax = 0;  // as many as a completion queue holds
};

enum class Role {
  kOwn,      // of the pair within the process: the one that posts
  kMirror,   // and the one that it leads to
  kAsking,   // to another process, by our wish
  kServing,  // to another process, by its wish: it posts, we only poll
};
enum class Stage { kDialing, kGreeting, kOpen };

using Clock = std::chrono::steady_clock;

struct Lane {
  explicit Lane(Role what) : role(what) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  int open(Ports* ports);
  // What the other side needs to reach it.
  std::string address() const;
  int reach(const std::string& address);
  // A provider moves bytes only within calls: after this none can land. One that is stuck is left as it is.
  void close();
  // The name of its file in /dev/shm goes, once the other side has it mapped.
  void forgetName() const;

  bool toPeer() const { return role == Role::kAsking || role == Role::kServing; }
  bool hasRoom() const;
  ssize_t start(const Batch& batch, const WorkRequest& request, uint64_t key, uint64_t at);
  // As fi_cq_read; an error has one entry, and `failure` says which.
  ssize_t reap(fi_cq_entry* entries, size_t count, fi_cq_err_entry* failure);

  const Role role;
  Stage stage = Stage::kOpen;
  Ports* ports = nullptr;
  Rescue* rescue = nullptr;  // of those that lead to another process
  uint32_t link = 0;
  uint32_t number = 0;  // the owner's, of an asking one
  bool stuck = false;
  fid_av* book = nullptr;
  fid_cq* queue = nullptr;
  fid_ep* end = nullptr;
  fi_addr_t there = FI_ADDR_UNSPEC;
  std::string theirAddress;

  std::deque<Batch*> waiting;  // not yet posted to the end, in order
  size_t inFlight = 0;         // operations
  size_t readsInFlight = 0;    // of them
  uint64_t bytesInFlight = 0;
  Clock::time_point movedAt;
  bool moved = false;

  // Of an asking one.
  Door door;
  std::shared_ptr<Peer> peer;
  uint64_t greetAt = 0;
  uint64_t greetKey = 0;
  bool greeted = false;
  bool toldAwake = false;
  std::map<uint64_t, std::shared_ptr<Region>> claims;
  // Of a serving one.
  bool polled = false;  // the asker has something on its way
};

// Whether it can be the address of a lane of this provider, and be given to it without harm.
bool isLaneAddress(const std::string& provider, const std::string& address);
// Takes the name of a lane away that a killed process left in /dev/shm.
void forgetNameOf(const std::string& address);
// Not to be guessed: of a region for its peers.
uint64_t randomNumber();

// The hints with which engine and baseline ask for a provider; freed by the caller with fi_freeinfo. Null without memory.
fi_info* hintsFor(const std::string& provider);
// fi_getinfo with these hints: over loopback for tcp, without a node for shm.
int findProvider(const std::string& provider, fi_info** found);

}  // namespace moriarty
