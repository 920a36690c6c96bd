// What engines of different processes say to each other, and what follows from it: connections, the right to use a region,
// its end, and who polls when. All but the first three functions run in the dispatcher's thread.
#include "engine.hpp"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace moriarty {

namespace {

constexpr size_t kServingMax = 64;
constexpr size_t kAskingMax = 64;
constexpr size_t kNotesMax = 4096;
constexpr size_t kKnownMax = 4096;
// A process that is gone cannot answer any more; a call that has spun for this long will not return.
constexpr Rescue::Limits kOfTheDead{std::chrono::milliseconds(500), std::chrono::milliseconds(200)};

std::string randomText() {
  static const char* const digits = "0123456789abcdef";
  std::string text;
  for (int word = 0; word < 2; word++)
    for (uint64_t number = randomNumber(), place = 0; place < 16; place++) text.push_back(digits[number >> (4 * place) & 15]);
  return text;
}

// Whether the process that a shm lane's address names is gone, or is only kept until its parent has looked.
bool isDeadProcess(const std::string& address) {
  const size_t scheme = address.find("://");
  const long pid = std::strtol(address.c_str() + (scheme == std::string::npos ? 0 : scheme + 3), nullptr, 10);
  if (pid <= 1) return false;
  if (kill(static_cast<pid_t>(pid), 0) != 0) return errno == ESRCH;
  std::ifstream status("/proc/" + std::to_string(pid) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(status)), std::istreambuf_iterator<char>());
  const size_t name = text.rfind(") ");
  return name != std::string::npos && (text[name + 2] == 'Z' || text[name + 2] == 'X');
}

}  // namespace

Door Engine::door() const { return state() == kOpen ? door_ : Door(); }

uint32_t Engine::connect(const Door& door) {
  if (state() != kOpen || options_.host.empty() || door.key.empty() || !isAddress(door.host) || door.port == 0) return 0;
  if (peers_.size() >= kAskingMax) {
    for (auto at = peers_.begin(); at != peers_.end();) at = at->second->state.load() > kOpen ? peers_.erase(at) : std::next(at);
    if (peers_.size() >= kAskingMax) return 0;
  }
  const uint32_t number = nextPeer_++;
  peers_[number] = std::make_shared<Peer>();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    wishes_.push_back({number, peers_[number], door});
  }
  touch();
  return number;
}

void Engine::disconnect(uint32_t peer) {
  if (peers_.count(peer) == 0) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    wishes_.push_back({peer, nullptr, {}});
  }
  touch();
}

std::shared_ptr<const Peer> Engine::peer(uint32_t number) const {
  const auto found = peers_.find(number);
  return found == peers_.end() ? nullptr : found->second;
}

uint64_t Engine::addPeerRegion(uint32_t peer, uint32_t id, uint64_t at, uint64_t bytes) {
  const auto found = peers_.find(peer);
  if (found == peers_.end() || found->second->state.load(std::memory_order_acquire) != kOpen || bytes > UINT64_MAX - at) return 0;
  const std::array<uint64_t, 4> what = {peer, id, at, bytes};
  const auto same = known_.find(what);
  if (same != known_.end() && lives(same->second)) return same->second;
  if (known_.size() >= kKnownMax)
    for (auto each = known_.begin(); each != known_.end();) each = lives(each->second) ? std::next(each) : known_.erase(each);
  auto region = std::make_shared<Region>(bytes, true);
  region->peer = peer;
  region->id = id;
  region->at = at;
  const uint64_t key = keep(region);
  known_[what] = key;
  addArea(std::move(region));
  return key;
}

// The control thread's, and the dispatcher's when it cannot dial.
bool Engine::note(Note note) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (notes_.size() >= kNotesMax && !note.gone) return false;
    if (note.gone) goneLinks_.insert(note.link);
    notes_.push_back(std::move(note));
  }
  touch();
  return true;
}

void Engine::tick() {
  const std::chrono::milliseconds patience(options_.patienceMillis);
  rescue_.watch([this, patience](uint32_t link) {
    std::lock_guard<std::mutex> lock(mutex_);
    return goneLinks_.count(link) > 0 ? kOfTheDead : Rescue::Limits{patience, kOfTheDead.cpu};
  });
}

// The dispatcher's thread from here on.

int Engine::openDoor() {
  if (options_.host.empty()) return 0;
  if (!rescue_.prepare()) return -FI_ENOSYS;
  ControlListener* const listener = this;
  control_ = std::make_unique<Control>(listener);
  door_.host = options_.host;
  door_.key = randomText();
  return -control_->open(options_.host, &door_.port);
}

Lane* Engine::laneOf(uint32_t link) const {
  for (const auto& lane : lanes_)
    if (lane->toPeer() && lane->link == link) return lane.get();
  return nullptr;
}

Lane* Engine::askingLane(uint32_t peer) const {
  for (const auto& lane : lanes_)
    if (lane->role == Role::kAsking && lane->number == peer) return lane.get();
  return nullptr;
}

void Engine::sendWord(const Lane& lane, Word word, uint64_t id) {
  Frame frame;
  frame.word = word;
  frame.id = id;
  control_->send(lane.link, frame);
}

Frame Engine::helloTo(const std::string& key, const Lane& lane) const {
  Frame frame;
  frame.word = Word::kHello;
  frame.hello = {options_.provider, key, door_.key, lane.address(), 0, 0};
  frame.hello.greetAt = ports_.virtualAddresses ? reinterpret_cast<uint64_t>(greetBytes_) : 0;
  frame.hello.greetKey = fi_mr_key(greeting_->mr);
  return frame;
}

// Whether somebody who knows our key speaks, with an address that can be given to the provider.
bool Engine::isFit(const Hello& hello) const {
  return hello.to == door_.key && hello.provider == options_.provider && isLaneAddress(options_.provider, hello.address);
}

void Engine::startDialling(Wish wish) {
  if (wish.peer == nullptr) {
    if (Lane* const lane = askingLane(wish.number)) lose(lane, FI_ESHUTDOWN);
    return;
  }
  lanes_.push_back(std::make_unique<Lane>(Role::kAsking));
  Lane* const lane = lanes_.back().get();
  lane->number = wish.number;
  lane->peer = std::move(wish.peer);
  lane->door = std::move(wish.door);
  lane->stage = Stage::kDialing;
  lane->rescue = &rescue_;
  const int error = openLane(lane);
  if (error != 0) return lose(lane, -error);
  lane->link = control_->dial(lane->door.host, lane->door.port);
  control_->send(lane->link, helloTo(lane->door.key, *lane));
}

void Engine::heed(Note* note) {
  Lane* const lane = laneOf(note->link);
  if (lane == nullptr) {
    if (!note->gone && note->frame.word == Word::kHello) serve(note->link, note->frame.hello);
    else if (!note->gone) control_->hangUp(note->link);
    return;
  }
  if (note->gone) lose(lane, note->error == 0 ? FI_ECONNRESET : note->error);
  else if (note->frame.word == Word::kBye) lose(lane, FI_ESHUTDOWN);
  else if (lane->role == Role::kServing) heedServing(lane, note->frame);
  else heedAsking(lane, note->frame);
}

void Engine::serve(uint32_t link, const Hello& hello) {
  const auto serving = std::count_if(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane->role == Role::kServing; });
  if (!isFit(hello) || static_cast<size_t>(serving) >= kServingMax) return control_->hangUp(link);
  lanes_.push_back(std::make_unique<Lane>(Role::kServing));
  Lane* const lane = lanes_.back().get();
  lane->link = link;
  lane->stage = Stage::kGreeting;
  lane->rescue = &rescue_;
  lane->polled = true;
  int error = openLane(lane);
  if (error == 0) error = lane->reach(hello.address);
  if (error != 0) return lose(lane, -error);
  control_->send(link, helloTo(hello.from, *lane));
}

void Engine::heedServing(Lane* lane, const Frame& frame) {
  switch (frame.word) {
    case Word::kReady:
      lane->stage = Stage::kOpen;
      lane->forgetName();
      break;
    case Word::kAwake:
      lane->polled = true;
      break;
    case Word::kRest:
      lane->polled = lane->stage != Stage::kOpen;
      break;
    case Word::kClaim:
      answerClaim(lane, frame);
      break;
    case Word::kReleased:
      for (auto& region : regions_)
        if (!region->atPeer && region->id == frame.id) region->grantedTo.erase(lane);
      break;
    default:
      lose(lane, EPROTO);
  }
}

void Engine::heedAsking(Lane* lane, const Frame& frame) {
  if (frame.word == Word::kHello && lane->stage == Stage::kDialing) {
    if (!isFit(frame.hello) || frame.hello.from != lane->door.key) return lose(lane, EPROTO);
    const int error = lane->reach(frame.hello.address);
    if (error != 0) return lose(lane, -error);
    lane->greetAt = frame.hello.greetAt;
    lane->greetKey = frame.hello.greetKey;
    lane->stage = Stage::kGreeting;
    lane->toldAwake = true;
    return;
  }
  const auto found = lane->claims.find(frame.id);
  const bool known = found != lane->claims.end();
  if (frame.word == Word::kGrant) {
    if (known && !found->second->granted) heedGrant(lane, found->second.get(), frame);
    else if (!known && frame.granted) sendWord(*lane, Word::kReleased, frame.id);
  } else if (frame.word == Word::kRevoke) {
    if (!known) return sendWord(*lane, Word::kReleased, frame.id);
    Region* const region = found->second.get();
    region->dead.store(true, std::memory_order_release);
    region->revoked = true;
    changed_.store(true, std::memory_order_release);
    releaseIfIdle(region);
  } else {
    lose(lane, EPROTO);
  }
}

void Engine::heedGrant(Lane* lane, Region* region, const Frame& grant) {
  region->at = grant.at;
  region->key = grant.key;
  region->granted = grant.granted;
  if (grant.granted) return;
  region->dead.store(true, std::memory_order_release);
  changed_.store(true, std::memory_order_release);
  lane->claims.erase(region->id);
}

// One byte from end to end, as within the process: it makes both sides map or connect, and what cannot work says so now.
void Engine::greet(Lane* lane) {
  if (!lane->greeted) {
    const ssize_t answer = lane->start(greetBatch_, {0, 1, 1}, lane->greetKey, lane->greetAt);
    if (answer != 0 && answer != -FI_EAGAIN) return lose(lane, static_cast<int>(-answer));
    lane->greeted = answer == 0;
  }
  fi_cq_entry entry = {};
  fi_cq_err_entry failure = {};
  const ssize_t count = lane->stuck ? -FI_EAGAIN : lane->reap(&entry, 1, &failure);
  if (count == -FI_EAVAIL) return lose(lane, failure.err);
  if (count != 1 || !lane->greeted) return;
  // The other one's too: it may be killed before it comes to that, and that it is its own the byte has shown.
  lane->forgetName();
  if (options_.provider == "shm") forgetNameOf(lane->theirAddress);
  lane->stage = Stage::kOpen;
  sendWord(*lane, Word::kReady);
  lane->peer->state.store(kOpen, std::memory_order_release);
  wakeOwner();
}

// Asks for the right to use it. One that was given up and is still in use is waited for: a lane has each region once.
void Engine::claim(const std::shared_ptr<Region>& region) {
  Lane* const lane = askingLane(region->peer);
  const auto known = lane == nullptr ? decltype(lane->claims.end()){} : lane->claims.find(region->id);
  const bool taken = lane != nullptr && known != lane->claims.end();
  if (taken && known->second->dead.load(std::memory_order_acquire)) return;
  region->claimed = true;
  if (lane == nullptr || taken) {
    region->dead.store(true, std::memory_order_release);
    changed_.store(true, std::memory_order_release);
    return;
  }
  region->lane = lane;
  lane->claims[region->id] = region;
  Frame frame;
  frame.word = Word::kClaim;
  frame.id = region->id;
  frame.at = region->at;
  frame.bytes = region->bytes;
  control_->send(lane->link, frame);
}

// A descriptor must be of a region that is there, and say of it what is so.
void Engine::answerClaim(Lane* lane, const Frame& claim) {
  Frame frame;
  frame.word = Word::kGrant;
  frame.id = claim.id;
  for (auto& region : regions_) {
    if (region->atPeer || region->id != claim.id || region->dead.load(std::memory_order_acquire)) continue;
    const auto base = reinterpret_cast<uint64_t>(region->base);
    if (base != claim.at || region->bytes != claim.bytes || (region->mr == nullptr && region->bytes > 0)) break;
    frame.granted = true;
    frame.at = ports_.virtualAddresses ? base : 0;
    frame.key = region->mr == nullptr ? 0 : fi_mr_key(region->mr);
    region->grantedTo.insert(lane);
  }
  control_->send(lane->link, frame);
}

void Engine::revoke(Region* region) {
  if (region->revoked) return;
  region->revoked = true;
  for (const Lane* lane : region->grantedTo) sendWord(*lane, Word::kRevoke, region->id);
}

// To the engine whose region it is: nothing of ours can touch it any more.
void Engine::releaseIfIdle(Region* region) {
  if (!region->atPeer || !region->revoked || region->operations > 0) return;
  giveUp(region);
}

void Engine::giveUp(Region* region) {
  if (region->lane == nullptr) return;
  auto& claims = region->lane->claims;
  const auto found = claims.find(region->id);
  if (found == claims.end() || found->second.get() != region) return;
  if (region->granted) sendWord(*region->lane, Word::kReleased, region->id);
  claims.erase(found);
  // Another one of the same region may be waiting for this.
  changed_.store(true, std::memory_order_release);
}

// Ends whatever was to go by the lane. Its endpoint goes first, so that nothing lands afterwards.
void Engine::lose(Lane* lane, int error) {
  settle(lane);
  leaked_ = leaked_ || lane->stuck;
  lane->forgetName();
  lane->close();
  if (!lane->theirAddress.empty() && options_.provider == "shm" && isDeadProcess(lane->theirAddress)) forgetNameOf(lane->theirAddress);
  // Whoever sees a batch end for it sees why.
  if (lane->peer != nullptr) {
    lane->peer->error.store(error);
    lane->peer->state.store(lane->stage == Stage::kOpen ? kClosed : kFailed, std::memory_order_release);
    wakeOwner();
  }
  for (auto& each : batches_) {
    if (!each->busy || each->lane != lane) continue;
    each->remote->operations -= each->outstanding;
    spoil(each.get(), kRdmaOp, error);
    endBatch(each.get());
  }
  for (auto& region : regions_) {
    region->grantedTo.erase(lane);
    if (region->lane != lane) continue;
    region->dead.store(true, std::memory_order_release);
    region->lane = nullptr;
  }
  changed_.store(true, std::memory_order_release);
  if (lane->link != 0) {
    sendWord(*lane, Word::kBye);
    control_->hangUp(lane->link);
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    goneLinks_.erase(lane->link);
  }
  const auto at = std::find_if(lanes_.begin(), lanes_.end(), [lane](const auto& each) { return each.get() == lane; });
  lost_.push_back(std::move(*at));
  lanes_.erase(at);
}

void Engine::sweepLost() { lost_.clear(); }

// A peer that lives and does nothing is given up too.
void Engine::checkPatience() {
  sweepLost();
  const auto now = Clock::now();
  for (size_t i = 0; i < lanes_.size(); i++) {
    Lane* const lane = lanes_[i].get();
    if (!lane->toPeer()) continue;
    const bool opening = lane->stage != Stage::kOpen;
    if (lane->moved || (!opening && (lane->role == Role::kServing || !isBusy(*lane)))) lane->movedAt = now;
    lane->moved = false;
    const auto patience = opening ? std::chrono::milliseconds(kMeetMax) : std::chrono::milliseconds(options_.patienceMillis);
    if (now - lane->movedAt > patience) lose(lane, FI_ETIMEDOUT);
  }
}

// Nothing is under way: the peers need not poll for us.
void Engine::quietPeers() {
  for (auto& lane : lanes_) {
    if (lane->role != Role::kAsking || lane->stage != Stage::kOpen || !lane->toldAwake) continue;
    sendWord(*lane, Word::kRest);
    lane->toldAwake = false;
  }
}

// What a peer has been asked to do may still land here, and over shm it is the peer that writes what we read: so its end
// is waited for, unless the peer has none.
void Engine::drain() {
  const auto deadline = Clock::now() + kDrainMax;
  const auto isDrained = [this] {
    return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane->role != Role::kAsking || lane->inFlight == 0; });
  };
  while (!isDrained() && Clock::now() < deadline) {
    if (changed_.exchange(false, std::memory_order_acq_rel)) sortChanges();
    bool moved = false;
    for (size_t i = 0; i < lanes_.size(); i++) {
      Lane* const lane = lanes_[i].get();
      if (lane->toPeer() && lane->stage == Stage::kOpen) moved = reap(lane) || moved;
      if (lane->stuck) lose(lane, EOWNERDEAD);
    }
    if (!moved) std::this_thread::yield();
  }
  for (const auto& batch : batches_)
    exposed_ = exposed_ || (batch->busy && !batch->isWrite && batch->outstanding > 0 && batch->lane != nullptr && batch->lane->toPeer() &&
                            options_.provider == "shm");
}

void Engine::sayBye() {
  for (const auto& lane : lanes_) {
    if (lane->link == 0) continue;
    sendWord(*lane, Word::kBye);
    control_->hangUp(lane->link);
  }
}

}  // namespace moriarty
