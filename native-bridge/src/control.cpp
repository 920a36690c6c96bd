#include "control.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace moriarty {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTickMillis = 100;
// Ticks go on for a while after the last link: the dispatcher may hang in a call that concerns it.
constexpr std::chrono::seconds kTickAfter(60);
// Links that have not said hello; one more is closed at once. And how long they may take for it.
constexpr size_t kStrangersMax = 16;
constexpr std::chrono::seconds kHelloMax(5);
constexpr std::chrono::milliseconds kLeaveMax(500);
// What one link may have unread at us and unsent by us: an engine says little.
constexpr size_t kOutBytesMax = 1u << 20;

sockaddr_in addressOf(const std::string& host, uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  return address;
}

int newSocket() { return socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

void hurry(int socket) {
  const int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

uint32_t lengthOf(const std::vector<uint8_t>& bytes) {
  return static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8 | static_cast<uint32_t>(bytes[2]) << 16 |
         static_cast<uint32_t>(bytes[3]) << 24;
}

}  // namespace

bool isAddress(const std::string& host) {
  in_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1;
}

Control::~Control() { stop(); }

int Control::open(const std::string& host, uint16_t* port) {
  sockaddr_in address = addressOf(host, 0);
  socklen_t bytes = sizeof address;
  listening_ = newSocket();
  wakeUp_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (listening_ < 0 || wakeUp_ < 0) return errno;
  if (bind(listening_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return errno;
  if (listen(listening_, 64) != 0) return errno;
  if (getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return errno;
  *port = ntohs(address.sin_port);
  thread_ = std::thread([this] { run(); });
  return 0;
}

void Control::stop() {
  stopping_.store(true, std::memory_order_release);
  if (thread_.joinable()) {
    wake();
    thread_.join();
  }
  for (auto& [number, link] : links_) ::close(link.socket);
  links_.clear();
  for (int* each : {&listening_, &wakeUp_}) {
    if (*each >= 0) ::close(*each);
    *each = -1;
  }
}

void Control::wake() {
  const uint64_t one = 1;
  (void)!write(wakeUp_, &one, sizeof one);
}

uint32_t Control::dial(const std::string& host, uint16_t port) {
  const int made = newSocket();
  const sockaddr_in address = addressOf(host, port);
  int error = made < 0 ? errno : 0;
  if (error == 0 && connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 && errno != EINPROGRESS) error = errno;
  std::lock_guard<std::mutex> lock(mutex_);
  const uint32_t number = nextLink_++;
  if (error != 0) {
    if (made >= 0) ::close(made);
    Note note;
    note.link = number;
    note.gone = true;
    note.error = error;
    listener_->note(note);
    return number;
  }
  hurry(made);
  Link& link = links_[number];
  link.socket = made;
  link.connecting = true;
  link.known = true;
  wake();
  return number;
}

void Control::send(uint32_t number, const Frame& frame) {
  const std::vector<uint8_t> bytes = packed(frame);
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = links_.find(number);
  if (found == links_.end() || found->second.leaving) return;
  Link& link = found->second;
  link.out.insert(link.out.end(), bytes.begin(), bytes.end());
  // A doorbell must not wait for the other thread to wake up.
  if (!link.connecting) writeSome(number, &link);
  if (!link.out.empty()) wake();
}

void Control::hangUp(uint32_t number) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = links_.find(number);
  if (found == links_.end()) return;
  found->second.leaving = true;
  found->second.until = Clock::now() + kLeaveMax;
  wake();
}

// The control thread from here on.

void Control::run() {
  std::vector<pollfd> watched;
  std::vector<uint32_t> numbers;
  const auto flushed = [this] {
    for (auto& [number, link] : links_)
      if (link.leaving && !link.out.empty()) return false;
    return true;
  };
  for (;;) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      dropLate();
      if (stopping_.load(std::memory_order_acquire) && flushed()) return;
      watched.assign({{listening_, POLLIN, 0}, {wakeUp_, POLLIN, 0}});
      numbers.assign({0, 0});
      for (auto& [number, link] : links_) {
        const bool sends = link.connecting || !link.out.empty();
        watched.push_back({link.socket, static_cast<short>((link.leaving ? 0 : POLLIN) | (sends ? POLLOUT : 0)), 0});
        numbers.push_back(number);
      }
    }
    if (watched.size() > 2) tickUntil_ = Clock::now() + kTickAfter;
    poll(watched.data(), watched.size(), Clock::now() < tickUntil_ ? kTickMillis : -1);
    if (watched[1].revents != 0) {
      uint64_t count;
      (void)!read(wakeUp_, &count, sizeof count);
    }
    if (watched[0].revents != 0) acceptOne();
    std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 2; i < watched.size(); i++) {
      const auto found = links_.find(numbers[i]);
      if (found == links_.end() || watched[i].revents == 0) continue;
      if ((watched[i].revents & (POLLIN | POLLERR | POLLHUP)) != 0 && !found->second.connecting && !found->second.leaving)
        readSome(numbers[i], &found->second);
      const auto still = links_.find(numbers[i]);
      if (still != links_.end() && (watched[i].revents & (POLLOUT | POLLERR | POLLHUP)) != 0) writeSome(numbers[i], &still->second);
    }
    listener_->tick();
  }
}

void Control::acceptOne() {
  const int made = accept4(listening_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (made < 0) {
    // Without a descriptor to be had the listener stays readable: not a loop that burns a core.
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return;
  }
  hurry(made);
  std::lock_guard<std::mutex> lock(mutex_);
  size_t strangers = 0;
  for (const auto& [number, link] : links_) strangers += link.known ? 0 : 1;
  if (strangers >= kStrangersMax) {
    ::close(made);
    return;
  }
  Link& link = links_[nextLink_++];
  link.socket = made;
  link.until = Clock::now() + kHelloMax;
}

void Control::readSome(uint32_t number, Link* link) {
  uint8_t bytes[4096];
  const ssize_t count = recv(link->socket, bytes, sizeof bytes, 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return drop(number, count == 0 ? 0 : errno);
  link->in.insert(link->in.end(), bytes, bytes + count);
  if (!takeFrames(number, link)) drop(number, EPROTO);
}

// False when something is no frame. A stranger's first must be a hello, and nobody says hello twice.
bool Control::takeFrames(uint32_t number, Link* link) {
  while (link->in.size() >= kLengthBytes) {
    const uint32_t bytes = lengthOf(link->in);
    if (bytes == 0 || bytes > kFrameBytesMax) return false;
    if (link->in.size() < kLengthBytes + bytes) break;
    Note note;
    note.link = number;
    if (!unpacked(link->in.data() + kLengthBytes, bytes, &note.frame)) return false;
    if (!link->known && note.frame.word != Word::kHello) return false;
    link->known = true;
    link->in.erase(link->in.begin(), link->in.begin() + static_cast<ptrdiff_t>(kLengthBytes + bytes));
    if (!listener_->note(std::move(note))) return false;
  }
  return true;
}

void Control::writeSome(uint32_t number, Link* link) {
  if (link->connecting) {
    int error = 0;
    socklen_t bytes = sizeof error;
    getsockopt(link->socket, SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error != 0) return drop(number, error);
    link->connecting = false;
  }
  if (link->out.empty()) return;
  const ssize_t count = ::send(link->socket, link->out.data(), link->out.size(), MSG_NOSIGNAL);
  if (count > 0) link->out.erase(link->out.begin(), link->out.begin() + count);
  // A reader sees the end of the connection; here it is only not written to any more.
  if ((count < 0 && errno != EAGAIN && errno != EINTR) || link->out.size() > kOutBytesMax) link->out.clear();
}

void Control::drop(uint32_t number, int error) {
  const auto found = links_.find(number);
  ::close(found->second.socket);
  const bool told = found->second.known && !found->second.leaving;
  links_.erase(found);
  if (!told) return;
  Note note;
  note.link = number;
  note.gone = true;
  note.error = error;
  listener_->note(std::move(note));
}

void Control::dropLate() {
  const auto now = Clock::now();
  for (auto at = links_.begin(); at != links_.end();) {
    const auto here = at++;
    const Link& link = here->second;
    if (link.leaving ? link.out.empty() || now > link.until : !link.known && now > link.until) drop(here->first, ETIMEDOUT);
  }
}

}  // namespace moriarty
