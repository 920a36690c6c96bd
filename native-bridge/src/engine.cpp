#include "engine.hpp"

#include "signals.hpp"

#include <malloc.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>

namespace moriarty {

namespace {

// Turns of the dispatcher without any work, after which it goes to sleep; about 50 us.
constexpr int kIdleTurns = 2000;
// Turns without progress while work is on its way, after which the core is offered to others; some milliseconds. Sooner
// would be dear: on a busy machine the core comes back after a whole slice.
constexpr int kFruitlessTurns = 20000;
// With work at another process, which needs a core for it, naps come instead.
constexpr std::chrono::microseconds kNap(50);
// Completions read at once.
constexpr size_t kReap = 32;
// How long the last answers of reads are waited for when a lane is closed.
constexpr std::chrono::milliseconds kSettleMax(500);

// A thread that is woken often begins on the core of who woke it and stays there until the kernel balances, some
// milliseconds later. Who woke us goes on posting and polling, so both would share one core while another has nothing to do.
void leaveCore(int core) {
  cpu_set_t all;
  if (sched_getcpu() != core || sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2) return;
  cpu_set_t others = all;
  CPU_CLR(core, &others);
  if (sched_setaffinity(0, sizeof others, &others) == 0) sched_setaffinity(0, sizeof all, &all);
}

// An endpoint of tcp;ofi_rxm takes some 50 MB of buffers. The allocator keeps what was freed in the arena of the thread that
// took it, and the next engine's thread may have another: that would add up, arena by arena.
void giveBackPages() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

// Of two engines that open at once, the one might take for given what the other's provider has just set.
std::mutex& oneAtATime() {
  static auto* const one = new std::mutex;
  return *one;
}

}  // namespace

Library library() {
  const auto version = [](uint32_t number) { return std::to_string(FI_MAJOR(number)) + "." + std::to_string(FI_MINOR(number)); };
  return {"libfabric", version(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)), version(fi_version())};
}

std::string errorText(int32_t error) { return fi_strerror(error); }

std::unique_ptr<Fabric> openFabric(const EngineOptions& options) { return std::make_unique<Engine>(options); }

void prepareLibrary() {}

bool repack(Packed, const uint8_t*, size_t, std::vector<uint8_t>*) { return false; }

bool describe(uint8_t*, uint64_t, std::vector<uint8_t>*, std::vector<uint8_t>*) { return false; }

Engine::Engine(const EngineOptions& options)
    : Fabric(options), hugePages_(options.memory, options.memoryBytes), free_(options.slots), given_(options.slots) {
  for (uint32_t slot = 0; slot < options.slots; slot++) {
    batches_.push_back(std::make_unique<Batch>());
    free_.push(batches_.back().get());
  }
  options_.header->state.store(kOpening, std::memory_order_release);
  thread_ = std::thread([this] { run(); });
}

Engine::~Engine() {
  beginClose();
  join();
}

uint64_t Engine::addRegion(uint64_t start, uint64_t end) {
  auto region = std::make_shared<Region>(end - start, false);
  region->base = options_.memory + start;
  const uint64_t key = keep(region);
  region->id = key;
  addArea(std::move(region));
  return key;
}

void Engine::addArea(std::shared_ptr<Region> region) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    added_.push_back(std::move(region));
  }
  touch();
}

void Engine::touch() {
  changed_.store(true, std::memory_order_seq_cst);
  rouse();
}

// Pairs with the dispatcher's own check after it has said that it sleeps: one of the two sees the other.
void Engine::rouse() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!asleep_.load(std::memory_order_relaxed)) return;
  std::lock_guard<std::mutex> lock(mutex_);
  wakerCore_ = sched_getcpu();
  wake_.notify_one();
}

// There are as many batches as completion records, so one is free, and the ring to the dispatcher cannot be full.
void Engine::take(const Order& order, std::vector<WorkRequest>* requests) {
  Batch* batch = nullptr;
  free_.pop(&batch);
  batch->requests.swap(*requests);
  batch->id = order.id;
  batch->isWrite = order.isWrite;
  batch->local = std::static_pointer_cast<Region>(order.local);
  batch->remote = std::static_pointer_cast<Region>(order.remote);
  batch->next = 0;
  batch->outstanding = 0;
  batch->bytes = 0;
  batch->code = kSuccess;
  batch->error = 0;
  batch->local->users.fetch_add(1, std::memory_order_relaxed);
  batch->remote->users.fetch_add(1, std::memory_order_relaxed);
  given_.push(batch);
  rouse();
}

bool Engine::join() {
  if (thread_.get_id() == std::this_thread::get_id()) return false;  // libfabric ends the process from within a call
  if (thread_.joinable()) thread_.join();
  return !exposed_;
}

// The dispatcher's thread from here on.

void Engine::run() {
  int error;
  {
    std::lock_guard<std::mutex> lock(oneAtATime());
    const KeptSignals kept;
    error = open();
  }
  if (error == 0) error = openDoor();
  if (error != 0) {
    shut();
    return tellState(kFailed, -error);
  }
  tellState(kOpen);
  int idle = 0;
  while (!closing_.load(std::memory_order_acquire)) {
    // Looked at before it is taken: an exchange in each turn would be dear.
    if (changed_.load(std::memory_order_relaxed) && changed_.exchange(false, std::memory_order_acq_rel)) sortChanges();
    bool moved = takeGiven();
    for (size_t i = 0; i < lanes_.size(); i++) moved = turn(lanes_[i].get()) || moved;
    if (!lost_.empty() || (control_ != nullptr && (++turns_ & 0xfff) == 0)) checkPatience();
    idle = moved ? 0 : idle + 1;
    rest(idle);
  }
  if (control_ != nullptr) drain();
  // Nothing moves once the lanes are closed; then what was on its way can be told to have failed.
  shut();
  giveBackPages();
  endAll();
  tellState(kClosed);
}

void Engine::endAll() {
  Batch* batch;
  while (given_.pop(&batch)) batch->busy = true;
  for (auto& each : batches_) {
    if (!each->busy) continue;
    spoil(each.get(), kBadState, 0);
    endBatch(each.get());
  }
}

bool Engine::ownIsBusy() const { return lanes_[0]->inFlight > 0 || !lanes_[0]->waiting.empty(); }

bool Engine::isBusy(const Lane& lane) const {
  switch (lane.role) {
    case Role::kOwn:
      return ownIsBusy();
    case Role::kMirror:
      return false;  // it has its turn with its own
    case Role::kServing:
      return lane.polled;
    case Role::kAsking:
      return lane.stage == Stage::kGreeting || (lane.stage == Stage::kOpen && (lane.inFlight > 0 || !lane.waiting.empty()));
  }
  return false;
}

bool Engine::hasWork() const {
  if (!given_.empty() || changed_.load(std::memory_order_relaxed) || closing_.load(std::memory_order_relaxed)) return true;
  return std::any_of(lanes_.begin(), lanes_.end(), [this](const auto& lane) { return isBusy(*lane); });
}

void Engine::rest(int idle) {
  if (idle < kIdleTurns) return;
  if (!hasWork()) {
    quietPeers();
    return sleepUntilWork();
  }
  const bool elsewhere = std::any_of(lanes_.begin(), lanes_.end(), [this](const auto& lane) { return lane->toPeer() && isBusy(*lane); });
  if (idle < kFruitlessTurns) return elsewhere ? (void)sched_yield() : (void)0;
  if (elsewhere) std::this_thread::sleep_for(kNap);
  else sched_yield();
}

void Engine::sleepUntilWork() {
  // Somebody who does not answer at all must be given up in time.
  const bool dialling = std::any_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane->stage == Stage::kDialing; });
  std::unique_lock<std::mutex> lock(mutex_);
  wakerCore_ = -1;
  asleep_.store(true, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (dialling && !hasWork()) wake_.wait_for(lock, std::chrono::milliseconds(100));
  else while (!hasWork()) wake_.wait(lock);
  asleep_.store(false, std::memory_order_relaxed);
  const int waker = wakerCore_;
  lock.unlock();
  leaveCore(waker);
  if (dialling) checkPatience();
}

int Engine::open() {
  int error = ports_.open(options_.provider);
  if (error != 0) return error;
  for (const Role role : {Role::kOwn, Role::kMirror}) lanes_.push_back(std::make_unique<Lane>(role));
  for (const size_t each : {1, 0})
    if ((error = lanes_[each]->open(&ports_)) != 0) return error;
  ports_.served = lanes_[1]->end;
  if ((error = lanes_[0]->reach(lanes_[1]->address())) != 0) return error;
  greeting_ = std::make_shared<Region>(sizeof greetBytes_, false);
  greeting_->base = greetBytes_;
  if (ports_.registerRegion(greeting_.get()) != 0) return -greeting_->error;
  greetBatch_.isWrite = true;
  greetBatch_.local = greetBatch_.remote = greeting_;
  if ((error = introduce()) != 0) return error;
  for (auto& lane : lanes_) lane->forgetName();
  return 0;
}

// Writes one byte from end to end: they get to know each other here and not under the first batch, and what cannot work
// says so now. An engine that is being closed does not wait for it.
int Engine::introduce() {
  Lane& own = *lanes_[0];
  const uint64_t at = ports_.virtualAddresses ? reinterpret_cast<uint64_t>(greetBytes_) : 0;
  const auto deadline = Clock::now() + kIntroduceMax;
  bool started = false;
  for (;;) {
    fi_cq_entry entry = {};
    fi_cq_err_entry failure = {};
    if (!started) {
      const ssize_t answer = own.start(greetBatch_, {0, 1, 1}, fi_mr_key(greeting_->mr), at);
      if (answer != 0 && answer != -FI_EAGAIN) return static_cast<int>(answer);
      started = answer == 0;
    }
    const ssize_t count = own.reap(&entry, 1, &failure);
    if (count == 1) return 0;
    if (count == -FI_EAVAIL) return -failure.err;
    lanes_[1]->reap(&entry, 1, &failure);
    if (closing_.load(std::memory_order_acquire)) return -FI_ECANCELED;
    if (Clock::now() > deadline) return -FI_ETIMEDOUT;
  }
}

int Engine::openLane(Lane* lane) {
  std::lock_guard<std::mutex> lock(oneAtATime());
  const KeptSignals kept;
  return lane->open(&ports_);
}

// Children before parents, each if it was opened.
void Engine::shut() {
  if (control_ != nullptr) sayBye();
  control_.reset();
  for (auto* each : {&lanes_, &lost_})
    for (auto& lane : *each) {
      settle(lane.get());
      leaked_ = leaked_ || lane->stuck;
      lane->close();
    }
  if (greeting_ != nullptr) regions_.push_back(greeting_);
  for (auto& region : regions_) {
    if (region->mr != nullptr) fi_close(&region->mr->fid);
    region->mr = nullptr;
    region->gone.store(true, std::memory_order_release);
  }
  if (!leaked_) ports_.close();
}

void Engine::sortChanges() {
  std::vector<std::shared_ptr<Region>> added;
  std::vector<Wish> wishes;
  std::vector<Note> notes;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    added.swap(added_);
    wishes.swap(wishes_);
    notes.swap(notes_);
  }
  for (auto& wish : wishes) startDialling(std::move(wish));
  sortRegions(std::move(added));
  for (auto& each : notes) heed(&each);
  if (!notes.empty()) sortRegions({});
  sweepLost();
}

// Registers what is new; takes back what is dead and named by no batch and no peer.
void Engine::sortRegions(std::vector<std::shared_ptr<Region>> added) {
  for (auto& region : added) {
    if (!region->atPeer && !region->dead.load(std::memory_order_acquire)) {
      hugePages_.gather(region->base, region->bytes);
      ports_.registerRegion(region.get());
    }
    regions_.push_back(std::move(region));
  }
  for (const auto& region : regions_)
    if (region->atPeer && !region->claimed) claim(region);
  regions_.erase(std::remove_if(regions_.begin(), regions_.end(), [this](const auto& region) { return isUseless(region); }), regions_.end());
}

bool Engine::isUseless(const std::shared_ptr<Region>& region) {
  if (!region->dead.load(std::memory_order_acquire)) return false;
  if (!region->grantedTo.empty()) revoke(region.get());
  if (region->users.load(std::memory_order_acquire) > 0 || !region->grantedTo.empty()) return false;
  if (region->mr != nullptr) fi_close(&region->mr->fid);
  region->mr = nullptr;
  if (region->atPeer) giveUp(region.get());
  region->gone.store(true, std::memory_order_release);
  wakeOwner();
  return true;
}

bool Engine::takeGiven() {
  bool moved = false;
  Batch* batch;
  while (given_.pop(&batch)) {
    // Whoever gave a batch had registered its regions before: they are on the list by now at the latest.
    if (changed_.exchange(false, std::memory_order_acq_rel)) sortChanges();
    moved = true;
    batch->busy = true;
    batch->lane = batch->remote->atPeer ? batch->remote->lane : lanes_[0].get();
    if (batch->lane == nullptr) {
      spoil(batch, kRdmaOp, FI_ECONNABORTED);
      endBatch(batch);
      continue;
    }
    if (batch->lane->toPeer() && batch->lane->waiting.empty() && batch->lane->inFlight == 0) batch->lane->movedAt = Clock::now();
    batch->lane->waiting.push_back(batch);
  }
  return moved;
}

bool Engine::turn(Lane* lane) {
  if (!isBusy(*lane)) return false;
  bool moved = false;
  if (lane->stage == Stage::kGreeting && lane->role == Role::kAsking) {
    greet(lane);
    moved = lane->stage == Stage::kOpen;
  } else {
    if (lane->role == Role::kOwn || lane->role == Role::kAsking) moved = postSome(lane);
    // The mirror before its own: what it has just moved is then told in the same turn.
    if (lane->role == Role::kOwn) moved = reap(lanes_[1].get()) || moved;
    if (!lane->stuck) moved = reap(lane) || moved;
  }
  lane->moved = lane->moved || moved;
  if (lane->stuck) lose(lane, EOWNERDEAD);
  return moved;
}

// Posts as much as the provider takes, in order.
bool Engine::postSome(Lane* lane) {
  bool moved = false;
  while (!lane->waiting.empty()) {
    Batch* const batch = lane->waiting.front();
    const Region& remote = *batch->remote;
    if (lane->role == Role::kAsking) {
      if (!remote.granted && !remote.dead.load(std::memory_order_acquire)) return moved;
      if (!lane->toldAwake) sendWord(*lane, Word::kAwake);
      lane->toldAwake = true;
    }
    while (batch->next < batch->requests.size()) {
      if (!lane->hasRoom() || !startNext(batch)) return moved;
      moved = true;
    }
    lane->waiting.pop_front();
    if (batch->outstanding == 0) endBatch(batch);
    moved = true;
  }
  return moved;
}

// Starts one work request; false when the provider has no room for it now.
bool Engine::startNext(Batch* batch) {
  const WorkRequest& request = batch->requests[batch->next];
  Lane& lane = *batch->lane;
  Region& local = *batch->local;
  Region& remote = *batch->remote;
  if (request.bytes == 0) {
    batch->next++;
    return true;
  }
  if (local.dead.load(std::memory_order_acquire) || remote.dead.load(std::memory_order_acquire)) {
    spoil(batch, kRdmaOp, FI_EKEYREJECTED);
    return true;
  }
  if (local.mr == nullptr || (remote.mr == nullptr && !remote.atPeer)) {
    spoil(batch, kRdmaOp, local.error != 0 ? local.error : remote.error);
    return true;
  }
  const uint64_t at = remote.atPeer ? remote.at : ports_.virtualAddresses ? reinterpret_cast<uint64_t>(remote.base) : 0;
  const ssize_t answer = lane.start(*batch, request, remote.atPeer ? remote.key : fi_mr_key(remote.mr), at);
  if (answer == -FI_EAGAIN) return false;
  if (answer != 0) {
    spoil(batch, kRdmaOp, static_cast<int32_t>(-answer));
    return true;
  }
  batch->next++;
  batch->outstanding++;
  remote.operations++;
  lane.inFlight++;
  lane.readsInFlight += batch->isWrite ? 0 : 1;
  batch->bytes += request.bytes;
  lane.bytesInFlight += request.bytes;
  return true;
}

// The tcp provider of libfabric 1.17 ends a read twice, and then uses what is no more, when its endpoint is closed while
// half of the answer is there. So what was read is waited for, or for the provider to notice that nothing more will come;
// where a peer stands still in the middle of an answer, the endpoint stays as it is and is never looked at again.
void Engine::settle(Lane* lane) {
  if (options_.provider == "shm") return;
  const auto deadline = Clock::now() + kSettleMax;
  while (lane->readsInFlight > 0 && Clock::now() < deadline) {
    bool moved = reap(lane);
    if (lane->role == Role::kOwn) moved = reap(lanes_[1].get()) || moved;
    if (!moved) sched_yield();
  }
  lane->stuck = lane->stuck || lane->readsInFlight > 0;
}

// Keeps the first error and posts no more of the batch.
void Engine::spoil(Batch* batch, int32_t code, int32_t error) {
  batch->next = batch->requests.size();
  if (batch->code != kSuccess) return;
  batch->code = code;
  batch->error = error;
}

// Reads completions; those of a lane that posts nothing are only read so that its endpoint makes progress.
bool Engine::reap(Lane* lane) {
  fi_cq_entry entries[kReap];
  fi_cq_err_entry failure = {};
  const ssize_t count = lane->reap(entries, kReap, &failure);
  const bool bad = count == -FI_EAVAIL;
  if (count <= 0 && !bad) return false;
  if (lane->role == Role::kMirror || lane->role == Role::kServing) return true;
  for (ssize_t i = 0; i < (bad ? 1 : count); i++) {
    auto* batch = static_cast<Batch*>(entries[i].op_context);
    if (batch == nullptr || batch == &greetBatch_ || batch->outstanding == 0) continue;
    batch->outstanding--;
    // Completions do not tell their sizes: a batch's bytes count until it has ended, or nothing is under way at all.
    if (--lane->inFlight == 0) lane->bytesInFlight = 0;
    lane->readsInFlight -= batch->isWrite ? 0 : 1;
    if (--batch->remote->operations == 0) releaseIfIdle(batch->remote.get());
    if (bad) spoil(batch, kRdmaOp, failure.err);
    if (batch->outstanding > 0 || batch->next < batch->requests.size()) continue;
    // One that was spoiled between two posts still stands in the line, and ends there.
    if (!lane->waiting.empty() && lane->waiting.front() == batch) continue;
    endBatch(batch);
  }
  return true;
}

void Engine::endBatch(Batch* batch) {
  batch->busy = false;
  if (batch->lane != nullptr) batch->lane->bytesInFlight -= std::min(batch->lane->bytesInFlight, batch->bytes);
  batch->lane = nullptr;
  for (auto* each : {&batch->local, &batch->remote}) {
    const bool last = (*each)->users.fetch_sub(1, std::memory_order_acq_rel) == 1;
    if (last && (*each)->dead.load(std::memory_order_acquire)) changed_.store(true, std::memory_order_release);
    each->reset();
  }
  const double id = batch->id;
  const int32_t code = batch->code, error = batch->error;
  free_.push(batch);
  record(id, code, error);
}

}  // namespace moriarty
