#include "engine.hpp"

#include "signals.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace moriarty {

namespace {

// Turns of the dispatcher without any work, after which it goes to sleep; about 50 us.
constexpr int kIdleTurns = 2000;
// Turns without progress while work is on its way, after which the core is offered to others; some milliseconds. Sooner
// would be dear: on a busy machine the core comes back after a whole slice.
constexpr int kFruitlessTurns = 20000;
// Operations and bytes under way at once, beyond the first operation. A provider may move all it was given within one
// call, and only between calls does the dispatcher look up: to close, and to tell what has ended. More gained nothing.
constexpr size_t kOperationsMax = 128;
constexpr uint64_t kBytesMax = 4u << 20;
// How long the two ends may take to exchange a first byte.
constexpr std::chrono::seconds kIntroduceMax(10);
// Completions read at once.
constexpr size_t kReap = 32;

}  // namespace

fi_info* hintsFor(const std::string& provider) {
  fi_info* hints = fi_allocinfo();
  if (hints == nullptr) return nullptr;
  hints->caps = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  hints->mode = 0;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
  // A completion has to mean that the bytes are there: the world looks at them next.
  hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
  hints->tx_attr->msg_order = FI_ORDER_RMA_WAW | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAR;
  hints->fabric_attr->prov_name = strdup(provider.c_str());
  return hints;
}

int findProvider(const std::string& provider, fi_info** found) {
  const bool loopback = provider.compare(0, 3, "tcp") == 0;
  fi_info* hints = hintsFor(provider);
  if (hints == nullptr) return -FI_ENOMEM;
  int error = fi_getinfo(FI_VERSION(1, 14), loopback ? "127.0.0.1" : nullptr, nullptr, loopback ? FI_SOURCE : 0, hints, found);
  if (error == -FI_ENODATA) {
    // Some providers promise no order for overlapping writes; ours are asked to, but need not.
    hints->tx_attr->msg_order = 0;
    error = fi_getinfo(FI_VERSION(1, 14), loopback ? "127.0.0.1" : nullptr, nullptr, loopback ? FI_SOURCE : 0, hints, found);
  }
  fi_freeinfo(hints);
  return error;
}

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
    : Fabric(options), free_(options.slots), given_(options.slots) {
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
  auto region = std::make_unique<Region>();
  region->base = options_.memory + start;
  region->bytes = end - start;
  region->key = nextKey_++;
  const uint64_t key = region->key;
  live_.emplace(key, region.get());
  {
    std::lock_guard<std::mutex> lock(mutex_);
    added_.push_back(std::move(region));
  }
  touchRegions();
  return key;
}

void Engine::dropRegion(uint64_t key) {
  const auto found = live_.find(key);
  if (found == live_.end()) return;
  found->second->dead.store(true, std::memory_order_release);
  live_.erase(found);
  touchRegions();
}

void Engine::touchRegions() {
  regionsChanged_.store(true, std::memory_order_seq_cst);
  rouse();
}

// Pairs with the dispatcher's own check after it has said that it sleeps: one of the two sees the other.
void Engine::rouse() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!asleep_.load(std::memory_order_relaxed)) return;
  std::lock_guard<std::mutex> lock(mutex_);
  wake_.notify_one();
}

Refusal Engine::post(uint64_t localKey, uint64_t remoteKey, bool isWrite, uint32_t count, double id) {
  if (state() != kOpen || closing_.load(std::memory_order_relaxed)) return kNotOpen;
  if (count > options_.runsMax) return kTooLong;
  const auto local = live_.find(localKey);
  const auto remote = live_.find(remoteKey);
  if (local == live_.end() || remote == live_.end()) return kDeadKey;
  // A record must be free for its end, or that end could be lost.
  if (posted_ - options_.header->consumed.load(std::memory_order_acquire) >= options_.slots) return kFull;
  Batch* batch;
  if (!spare_.empty()) {
    batch = spare_.back();
    spare_.pop_back();
  } else if (!free_.pop(&batch)) {
    return kFull;
  }
  if (!readStaged(count, local->second->bytes, remote->second->bytes, &batch->requests)) {
    spare_.push_back(batch);
    return kOutOfRange;
  }
  batch->id = id;
  batch->isWrite = isWrite;
  batch->local = local->second;
  batch->remote = remote->second;
  batch->next = 0;
  batch->outstanding = 0;
  batch->bytes = 0;
  batch->code = kSuccess;
  batch->error = 0;
  batch->local->users.fetch_add(1, std::memory_order_relaxed);
  batch->remote->users.fetch_add(1, std::memory_order_relaxed);
  posted_++;
  given_.push(batch);  // as many slots as there are batches: it cannot be full
  rouse();
  return kTaken;
}

void Engine::beginClose() {
  closing_.store(true, std::memory_order_seq_cst);
  rouse();
}

bool Engine::join() {
  if (thread_.joinable()) thread_.join();
  return true;
}

// The dispatcher's thread from here on.

void Engine::run() {
  std::atomic<int32_t>& state = options_.header->state;
  int error;
  {
    // Of two engines that open at once, the one might take for given what the other's provider has just set.
    static std::mutex one;
    std::lock_guard<std::mutex> lock(one);
    const KeptSignals kept;
    error = open();
  }
  if (error != 0) {
    shut();
    options_.header->openError = -error;
    state.store(kFailed, std::memory_order_release);
    return;
  }
  state.store(kOpen, std::memory_order_release);
  int idle = 0;
  while (!closing_.load(std::memory_order_acquire)) {
    if (regionsChanged_.exchange(false, std::memory_order_acq_rel)) sortRegions();
    bool moved = postSome();
    // A provider also needs turns before it takes the first operation: the two ends get to know each other.
    if (inFlight_ > 0 || !waiting_.empty()) {
      moved = reap(initiatorQueue_, true) || moved;
      moved = reap(targetQueue_, false) || moved;
    }
    idle = moved ? 0 : idle + 1;
    if (idle >= kIdleTurns && !hasWork()) sleepUntilWork();
    else if (idle >= kFruitlessTurns) sched_yield();
  }
  // Nothing moves once both ends are closed; then what was on its way can be told to have failed.
  shut();
  Batch* batch;
  while (given_.pop(&batch)) batch->busy = true;
  for (auto& each : batches_) {
    if (!each->busy) continue;
    spoil(each.get(), kBadState, 0);
    endBatch(each.get());
  }
  state.store(kClosed, std::memory_order_release);
}

bool Engine::hasWork() const {
  return inFlight_ > 0 || !waiting_.empty() || !given_.empty() || regionsChanged_.load(std::memory_order_relaxed) ||
         closing_.load(std::memory_order_relaxed);
}

void Engine::sleepUntilWork() {
  std::unique_lock<std::mutex> lock(mutex_);
  asleep_.store(true, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  while (!hasWork()) wake_.wait(lock);
  asleep_.store(false, std::memory_order_relaxed);
}

int Engine::open() {
  int error = findProvider(options_.provider, &info_);
  if (error != 0) return error;
  virtualAddresses_ = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  if ((error = fi_fabric(info_->fabric_attr, &fabric_, nullptr)) != 0) return error;
  if ((error = fi_domain(fabric_, info_, &domain_, nullptr)) != 0) return error;
  fi_av_attr book = {};
  book.type = FI_AV_TABLE;
  if ((error = fi_av_open(domain_, &book, &av_, nullptr)) != 0) return error;
  inFlightMax_ = std::min(std::max<size_t>(info_->tx_attr->size, 1), kOperationsMax);
  if ((error = openEndpoint(&target_, &targetQueue_)) != 0) return error;
  if ((error = openEndpoint(&initiator_, &initiatorQueue_)) != 0) return error;
  uint8_t name[512] = {};
  size_t bytes = sizeof name;
  if ((error = fi_getname(&target_->fid, name, &bytes)) != 0) return error;
  if (fi_av_insert(av_, name, 1, &targetAddress_, 0, nullptr) != 1) return -FI_EADDRNOTAVAIL;
  if ((error = introduce()) != 0) return error;
  if (options_.provider == "shm") {
    for (fid_ep* end : {initiator_, target_}) forgetName(end);
  }
  return 0;
}

// Writes one byte from end to end: they get to know each other here and not under the first batch, and what cannot work
// says so now. An engine that is being closed does not wait for it.
int Engine::introduce() {
  alignas(64) static uint8_t bytes[2];
  Region region;
  region.base = bytes;
  region.bytes = sizeof bytes;
  region.key = ~uint64_t{0} >> 1;  // beyond every key that is given
  registerRegion(&region);
  int error = region.error == 0 ? -FI_EAGAIN : -region.error;
  Batch batch;
  batch.isWrite = true;
  batch.local = batch.remote = &region;
  batch.requests.push_back({0, 1, 1});
  const auto deadline = std::chrono::steady_clock::now() + kIntroduceMax;
  while (error == -FI_EAGAIN) {
    if (batch.next == 0) startNext(&batch);
    // Neither it nor an error of it is told to the owner.
    fi_cq_entry entry;
    fi_cq_err_entry failure = {};
    const ssize_t count = fi_cq_read(initiatorQueue_, &entry, 1);
    fi_cq_entry theirs;
    fi_cq_read(targetQueue_, &theirs, 1);
    if (batch.code != kSuccess) error = -batch.error;
    else if (count == 1) error = 0;
    else if (count == -FI_EAVAIL) error = fi_cq_readerr(initiatorQueue_, &failure, 0) == 1 ? -failure.err : -FI_EOTHER;
    else if (closing_.load(std::memory_order_acquire)) error = -FI_ECANCELED;
    else if (std::chrono::steady_clock::now() > deadline) error = -FI_ETIMEDOUT;
  }
  inFlight_ = 0;
  bytesInFlight_ = 0;
  // A byte that is still on its way must not outlive its region: the ends go first.
  if (error != 0) {
    for (fid_ep** end : {&initiator_, &target_}) {
      fi_close(&(*end)->fid);
      *end = nullptr;
    }
  }
  if (region.mr != nullptr) fi_close(&region.mr->fid);
  return error;
}

// The shm provider's files in /dev/shm, 16 MiB for each end, stay behind when the process is killed. Both ends have them
// mapped by now, so their names can go. What is not named as ours is left alone.
void Engine::forgetName(fid_ep* end) {
  char name[512] = {};
  size_t bytes = sizeof name - 1;
  if (fi_getname(&end->fid, name, &bytes) != 0) return;
  const char* const scheme = strstr(name, "://");
  const std::string file = scheme == nullptr ? name : scheme + 3;
  const std::string ours = std::to_string(getpid()) + ":";
  const bool plain = file.find_first_not_of("0123456789:") == std::string::npos;
  if (plain && file.compare(0, ours.size(), ours) == 0) shm_unlink(("/" + file).c_str());
}

int Engine::openEndpoint(fid_ep** ep, fid_cq** queue) {
  fi_cq_attr attributes = {};
  attributes.size = 2 * inFlightMax_;
  attributes.format = FI_CQ_FORMAT_CONTEXT;
  attributes.wait_obj = FI_WAIT_NONE;
  int error = fi_cq_open(domain_, &attributes, queue, nullptr);
  if (error == 0) error = fi_endpoint(domain_, info_, ep, nullptr);
  if (error == 0) error = fi_ep_bind(*ep, &av_->fid, 0);
  if (error == 0) error = fi_ep_bind(*ep, &(*queue)->fid, FI_TRANSMIT | FI_RECV);
  return error == 0 ? fi_enable(*ep) : error;
}

// Children before parents, each if it was opened.
void Engine::shut() {
  const auto close = [](auto*& object) {
    if (object != nullptr) fi_close(&object->fid);
    object = nullptr;
  };
  close(initiator_);
  close(target_);
  for (auto& region : regions_) close(region->mr);
  close(initiatorQueue_);
  close(targetQueue_);
  close(av_);
  close(domain_);
  close(fabric_);
  if (info_ != nullptr) fi_freeinfo(info_);
  info_ = nullptr;
}

// Registers what is new; takes back what is dead and named by no batch.
void Engine::sortRegions() {
  std::vector<std::unique_ptr<Region>> added;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    added.swap(added_);
  }
  for (auto& region : added) {
    if (!region->dead.load(std::memory_order_acquire)) registerRegion(region.get());
    regions_.push_back(std::move(region));
  }
  const auto useless = [](const std::unique_ptr<Region>& region) {
    if (!region->dead.load(std::memory_order_acquire) || region->users.load(std::memory_order_acquire) > 0) return false;
    if (region->mr != nullptr) fi_close(&region->mr->fid);
    return true;
  };
  regions_.erase(std::remove_if(regions_.begin(), regions_.end(), useless), regions_.end());
}

void Engine::registerRegion(Region* region) {
  if (region->bytes == 0) return;
  const uint64_t access = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  region->error = -fi_mr_reg(domain_, region->base, region->bytes, access, 0, region->key, 0, &region->mr, nullptr);
}

// Takes what was given and posts as much of it, in order, as the provider takes.
bool Engine::postSome() {
  bool moved = false;
  Batch* batch;
  while (given_.pop(&batch)) {
    batch->busy = true;
    waiting_.push_back(batch);
    moved = true;
  }
  // Whoever gave a batch had registered its regions before: they are on the list by now at the latest.
  if (moved && regionsChanged_.exchange(false, std::memory_order_acq_rel)) sortRegions();
  while (!waiting_.empty()) {
    batch = waiting_.front();
    while (batch->next < batch->requests.size()) {
      if (!hasRoom() || !startNext(batch)) return moved;
      moved = true;
    }
    waiting_.pop_front();
    if (batch->outstanding == 0) endBatch(batch);
  }
  return moved;
}

bool Engine::hasRoom() const { return inFlight_ < inFlightMax_ && (inFlight_ == 0 || bytesInFlight_ < kBytesMax); }

// Starts one work request; false when the provider has no room for it now.
bool Engine::startNext(Batch* batch) {
  const WorkRequest& request = batch->requests[batch->next];
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
  if (local.mr == nullptr || remote.mr == nullptr) {
    spoil(batch, kRdmaOp, local.error != 0 ? local.error : remote.error);
    return true;
  }
  void* here = local.base + request.local;
  const uint64_t there = (virtualAddresses_ ? reinterpret_cast<uint64_t>(remote.base) : 0) + request.remote;
  const uint64_t key = fi_mr_key(remote.mr);
  void* descriptor = fi_mr_desc(local.mr);
  const ssize_t answer =
      batch->isWrite ? fi_write(initiator_, here, request.bytes, descriptor, targetAddress_, there, key, batch)
                     : fi_read(initiator_, here, request.bytes, descriptor, targetAddress_, there, key, batch);
  if (answer == -FI_EAGAIN) return false;
  if (answer != 0) {
    spoil(batch, kRdmaOp, static_cast<int32_t>(-answer));
    return true;
  }
  batch->next++;
  batch->outstanding++;
  inFlight_++;
  batch->bytes += request.bytes;
  bytesInFlight_ += request.bytes;
  return true;
}

// Keeps the first error and posts no more of the batch.
void Engine::spoil(Batch* batch, int32_t code, int32_t error) {
  batch->next = batch->requests.size();
  if (batch->code != kSuccess) return;
  batch->code = code;
  batch->error = error;
}

// Reads completions; the target's own are only read so that its endpoint makes progress.
bool Engine::reap(fid_cq* queue, bool ours) {
  fi_cq_entry entries[kReap];
  const ssize_t count = fi_cq_read(queue, entries, kReap);
  if (count == -FI_EAGAIN || count == 0) return false;
  fi_cq_err_entry failure = {};
  if (count < 0) {
    if (count != -FI_EAVAIL || fi_cq_readerr(queue, &failure, 0) != 1) return false;
    entries[0].op_context = failure.op_context;
  }
  if (!ours) return true;
  for (ssize_t i = 0; i < (count < 0 ? 1 : count); i++) {
    auto* batch = static_cast<Batch*>(entries[i].op_context);
    if (batch == nullptr || batch->outstanding == 0) continue;
    batch->outstanding--;
    // Completions do not tell their sizes: a batch's bytes count until it has ended, or nothing is under way at all.
    if (--inFlight_ == 0) bytesInFlight_ = 0;
    if (count < 0) spoil(batch, kRdmaOp, failure.err);
    if (batch->outstanding > 0 || batch->next < batch->requests.size()) continue;
    // One that was spoiled between two posts still stands in the line, and ends there.
    if (!waiting_.empty() && waiting_.front() == batch) continue;
    endBatch(batch);
  }
  return true;
}

void Engine::endBatch(Batch* batch) {
  Completion& record = options_.records[produced_ & (options_.slots - 1)];
  record = {batch->id, batch->code, batch->error};
  batch->busy = false;
  bytesInFlight_ -= std::min(bytesInFlight_, batch->bytes);
  for (Region* region : {batch->local, batch->remote}) {
    const bool last = region->users.fetch_sub(1, std::memory_order_acq_rel) == 1;
    if (last && region->dead.load(std::memory_order_acquire)) regionsChanged_.store(true, std::memory_order_release);
  }
  free_.push(batch);
  options_.header->produced.store(++produced_, std::memory_order_release);
}

}  // namespace moriarty
