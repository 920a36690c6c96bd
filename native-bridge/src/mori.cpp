#include "mori.hpp"

#include "exits.hpp"

#include <unistd.h>

#include <chrono>
#include <stdexcept>

namespace moriarty {

using mori::io::BackendType;
using mori::io::IOEngine;
using mori::io::IOEngineSession;
using mori::io::MemoryDesc;
using mori::io::MemoryLocationType;
using mori::io::SizeVec;
using mori::io::StatusCode;
using mori::io::TransferStatus;

// Of mori-library.cpp.
int32_t keepText(const std::string& text);
MemoryDesc carried(const MemoryDesc& desc);
mori::io::EngineDesc carried(const mori::io::EngineDesc& desc);

namespace {

enum End : size_t { kInitiator = 0, kTarget = 1 };

// Turns of the completion thread without an end, after which it naps between turns.
constexpr int kSpinTurns = 500;
constexpr std::chrono::microseconds kNap{50};
// The port by which MoRI marks an engine that has only XGMI, which does not carry CPU memory.
constexpr int kXgmiOnlyPort = 1;
// The dispatcher's own patience with a part of a batch; MoRI waits 5 s for room in a send queue.
constexpr std::chrono::seconds kPartMax{15};
// How long the end of an engine waits for one that is still opening.
constexpr std::chrono::seconds kOpenMax{5};

const std::string kProvider = "rdma";

std::string hostOf(const std::string& provider) {
  if (provider == kProvider) return "127.0.0.1";
  if (provider.compare(0, kProvider.size() + 1, kProvider + ";") != 0)
    throw std::runtime_error("MORI-PROVIDER there is no provider " + provider);
  return provider.substr(kProvider.size() + 1);
}

void throwWhy(const std::string& reason) {
  if (!reason.empty()) throw std::runtime_error(reason);
}

// Calls, and gives whatever was thrown a code of ours.
template <typename Function>
auto coded(const char* code, Function function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::exception& error) {
    throw std::runtime_error(std::string(code) + " " + error.what());
  } catch (...) {
    throw std::runtime_error(std::string(code) + " something was thrown that is no exception");
  }
}

bool over(StatusCode code) { return code != StatusCode::IN_PROGRESS; }

}  // namespace

std::unique_ptr<Fabric> openFabric(const EngineOptions& options) { return std::make_unique<MoriEngine>(options); }

MoriEngine::MoriEngine(const EngineOptions& options) : Fabric(options) {
  auto memory = std::make_unique<Registration>();
  memory->base = options.memory;
  memory->bytes = options.memoryBytes;
  registrations_.push_back(std::move(memory));
  options.header->state.store(kOpening, std::memory_order_release);
  dispatcher_ = std::thread([this] { run(); });
}

MoriEngine::~MoriEngine() {
  beginClose();
  join();
}

uint64_t MoriEngine::addSpan(Registration* registration, uint64_t offset, uint64_t bytes) {
  return keep(std::make_shared<Span>(registration, offset, bytes));
}

uint64_t MoriEngine::addRegion(uint64_t start, uint64_t end) { return addSpan(registrations_[0].get(), start, end - start); }

// MoRI keeps one memory region for each pointer, so a second registration of one would take the first one's away.
uint64_t MoriEngine::addDeviceRegion(uint64_t pointer, uint64_t bytes, int32_t device) {
  auto* base = reinterpret_cast<uint8_t*>(pointer);
  if (base == nullptr || bytes == 0 || bytes > UINT64_MAX - pointer || !whyNoDevice(base, device).empty()) return 0;
  stopFirstAtExit();  // the first look at a GPU loads more of HIP
  for (const auto& known : registrations_) {
    if (known->base != base) continue;
    return known->device == device && bytes <= known->bytes ? addSpan(known.get(), 0, bytes) : 0;
  }
  auto memory = std::make_unique<Registration>();
  memory->base = base;
  memory->bytes = bytes;
  memory->device = device;
  registrations_.push_back(std::move(memory));
  return addSpan(registrations_.back().get(), 0, bytes);
}

void MoriEngine::take(const Order& order, std::vector<WorkRequest>* requests) {
  auto flight = std::make_unique<Flight>(order);
  flight->requests.swap(*requests);
  for (WorkRequest& request : flight->requests) {
    request.local += flight->local->offset;
    request.remote += flight->remote->offset;
  }
  {
    std::lock_guard<std::mutex> lock(givenMutex_);
    given_.push_back(std::move(flight));
  }
  givenWake_.notify_one();
}

void MoriEngine::rouse() {
  // Whoever has just looked and found nothing waits by the time that this has the lock.
  { std::lock_guard<std::mutex> lock(givenMutex_); }
  givenWake_.notify_one();
}

// MoRI can hang for ever while it looks at the machine, as at a NIC without a PCI address. It has no memory of ours then.
bool MoriEngine::join() {
  if (!dispatcher_.joinable()) return !abandoned_;
  if (dispatcher_.get_id() == std::this_thread::get_id()) return false;  // MoRI ends the process from within a call
  const auto deadline = std::chrono::steady_clock::now() + kOpenMax;
  while (state() == kOpening && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  {
    std::lock_guard<std::mutex> lock(givenMutex_);
    abandoned_ = state() == kOpening && !exposed_;
  }
  if (abandoned_) dispatcher_.detach();
  else dispatcher_.join();
  return !abandoned_;
}

// The dispatcher's thread from here on.

void MoriEngine::run() {
  try {
    open();
    watcher_ = std::thread([this] { watch(); });
  } catch (const std::exception& error) {
    shut();
    tell(kFailed, keepText(error.what()));
    return;
  }
  tell(kOpen, 0);  // nobody abandons it once it is exposed
  for (;;) {
    std::unique_ptr<Flight> flight;
    {
      std::unique_lock<std::mutex> lock(givenMutex_);
      givenWake_.wait(lock, [this] { return !given_.empty() || closing_.load(std::memory_order_relaxed); });
      if (closing_.load(std::memory_order_relaxed)) break;
      flight = std::move(given_.front());
      given_.pop_front();
    }
    dispatch(std::move(flight));
  }
  {
    std::lock_guard<std::mutex> lock(flyingMutex_);
    watching_ = false;
  }
  flyingWake_.notify_one();
  watcher_.join();
  // With the engines go their memory regions, and then nothing can land any more. MoRI tells nobody what it leaves.
  shut();
  for (auto* left : {&flying_, &launched_})
    for (const auto& flight : *left) record(flight->id, kBadState, 0);
  std::lock_guard<std::mutex> lock(givenMutex_);
  for (const auto& flight : given_) record(flight->id, kBadState, 0);
  given_.clear();
  tellState(kClosed);
}

void MoriEngine::tell(State state, int32_t error) {
  std::lock_guard<std::mutex> lock(givenMutex_);
  if (abandoned_) return;
  tellState(state, error);
}

// The order in which MoRI learns of things: a backend knows nothing that came before it.
void MoriEngine::open() {
  const std::string host = hostOf(options_.provider);
  throwWhy(whyNoHost(host));
  throwWhy(whyNoGpu());
  for (const size_t end : {kInitiator, kTarget}) openEnd(end, host);
  coded("MORI-PEER", [this] {
    ends_[kInitiator]->RegisterRemoteEngine(carried(ends_[kTarget]->GetEngineDesc()));
    ends_[kTarget]->RegisterRemoteEngine(carried(ends_[kInitiator]->GetEngineDesc()));
  });
  {
    std::lock_guard<std::mutex> lock(givenMutex_);
    if (closing_.load(std::memory_order_relaxed)) throw std::runtime_error("MORI-CLOSED it was closed while it opened");
    exposed_ = true;
  }
  sessionOf(registrations_[0].get(), registrations_[0].get());
}

void MoriEngine::openEnd(size_t end, const std::string& host) {
  static std::atomic<uint32_t> opened{0};
  const std::string key = "moriarty-" + std::to_string(getpid()) + "-" + std::to_string(opened++);
  coded("MORI-BACKEND", [&] {
    ends_[end] = std::make_unique<IOEngine>(key, mori::io::IOEngineConfig{host, 0});
    mori::io::RdmaBackendConfig config;
    config.enableNotification = false;
    ends_[end]->CreateBackend(BackendType::RDMA, config);
  });
  stopFirstAtExit();  // that loads verbs and its provider, rocm-smi and parts of HIP
  if (ends_[end]->GetEngineDesc().port == kXgmiOnlyPort)
    throw std::runtime_error("MORI-XGMI-ONLY MoRI-IO fell back to XGMI, which does not carry CPU memory; unset MORI_DISABLE_AUTO_XGMI");
}

const MemoryDesc& MoriEngine::descriptorOf(Registration* registration, size_t end) {
  auto& desc = registration->at[end];
  const auto where = registration->device < 0 ? MemoryLocationType::CPU : MemoryLocationType::GPU;
  if (!desc) desc = ends_[end]->RegisterMemory(registration->base, registration->bytes, registration->device, where);
  return *desc;
}

IOEngineSession& MoriEngine::sessionOf(Registration* local, Registration* remote) {
  const std::pair<Registration*, Registration*> pair(local, remote);
  const auto found = sessions_.find(pair);
  if (found != sessions_.end()) return found->second;
  return coded("MORI-SESSION", [&]() -> IOEngineSession& {
    auto made = ends_[kInitiator]->CreateSession(descriptorOf(local, kInitiator), carried(descriptorOf(remote, kTarget)));
    if (!made) throw std::runtime_error("no backend carries this pair of memories");
    return sessions_.emplace(pair, std::move(*made)).first->second;
  });
}

void MoriEngine::dispatch(std::unique_ptr<Flight> flight) {
  try {
    if (flight->local->dead.load(std::memory_order_acquire) || flight->remote->dead.load(std::memory_order_acquire))
      throw std::runtime_error("remote access error");
    IOEngineSession& session = sessionOf(flight->local->registration, flight->remote->registration);
    size_t from = 0;
    for (;;) {
      const size_t to = endOfPart(flight->requests, from, flight->isWrite);
      launch(session, *flight, from, to);
      if (to == flight->requests.size()) break;
      // Runs onto the same bytes land in the order of the batch: the rest waits for this part.
      if (!waitFor(*flight)) break;
      recycle(flight->status);
      from = to;
    }
  } catch (const std::exception& error) {
    // Its status, if it has one, may be written to later and is never used again.
    flight->status = nullptr;
    flight->code = kRdmaOp;
    flight->error = keepText(error.what());
  }
  {
    std::lock_guard<std::mutex> lock(flyingMutex_);
    launched_.push_back(std::move(flight));
  }
  flyingWake_.notify_one();
}

void MoriEngine::launch(IOEngineSession& session, Flight& flight, size_t from, size_t to) {
  SizeVec local, remote, bytes;
  for (SizeVec* each : {&local, &remote, &bytes}) each->reserve(to - from);
  for (size_t i = from; i < to; i++) {
    local.push_back(flight.requests[i].local);
    remote.push_back(flight.requests[i].remote);
    bytes.push_back(flight.requests[i].bytes);
  }
  flight.status = freshStatus();
  coded("MORI-POST", [&] {
    if (flight.isWrite) session.BatchWrite(local, remote, bytes, flight.status, nextTransfer_++);
    else session.BatchRead(local, remote, bytes, flight.status, nextTransfer_++);
  });
}

// Whether the part has ended well; else its status is left as the end of the batch.
bool MoriEngine::waitFor(const Flight& flight) {
  const auto deadline = std::chrono::steady_clock::now() + kPartMax;
  for (int turn = 0;; turn++) {
    const StatusCode code = flight.status->Code();
    if (over(code)) return code == StatusCode::SUCCESS;
    if (closing_.load(std::memory_order_acquire)) return false;
    if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("MORI-SILENT a part of the batch has no end");
    if (turn > kSpinTurns) std::this_thread::sleep_for(kNap);
  }
}

void MoriEngine::shut() {
  sessions_.clear();
  for (auto& end : ends_) {
    try {
      end.reset();
    } catch (...) {
      // Nothing is left to be done with it.
    }
  }
}

// The completion thread from here on.

void MoriEngine::watch() {
  int idle = 0;
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(flyingMutex_);
      if (flying_.empty()) flyingWake_.wait(lock, [this] { return !launched_.empty() || !watching_; });
      for (auto& flight : launched_) flying_.push_back(std::move(flight));
      launched_.clear();
      if (!watching_) return;
    }
    // In order, so that batches that have all ended are told in the order in which they were posted.
    const size_t before = flying_.size();
    std::erase_if(flying_, [this](const std::unique_ptr<Flight>& flight) { return ended(*flight); });
    idle = flying_.size() < before ? 0 : idle + 1;
    if (idle > kSpinTurns) std::this_thread::sleep_for(kNap);
  }
}

bool MoriEngine::ended(Flight& flight) {
  if (flight.status == nullptr) {
    record(flight.id, flight.code, flight.error);
    return true;
  }
  const StatusCode code = flight.status->Code();
  if (!over(code)) return false;
  if (code == StatusCode::SUCCESS) {
    recycle(flight.status);
    record(flight.id, kSuccess, 0);
  } else if (code == StatusCode::INIT) {
    record(flight.id, kRdmaOp, keepText("MORI-STATUS MoRI-IO did not begin the transfer"));
  } else {
    record(flight.id, static_cast<int32_t>(code), keepText(flight.status->Message()));
  }
  return true;
}

void MoriEngine::recycle(TransferStatus* status) {
  std::lock_guard<std::mutex> lock(statusMutex_);
  idle_.push_back(status);
}

TransferStatus* MoriEngine::freshStatus() {
  std::lock_guard<std::mutex> lock(statusMutex_);
  if (idle_.empty()) {
    statuses_.push_back(std::make_unique<TransferStatus>());
    return statuses_.back().get();
  }
  TransferStatus* status = idle_.back();
  idle_.pop_back();
  status->SetCode(StatusCode::INIT);
  return status;
}

}  // namespace moriarty
