#include "lane.hpp"

#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <algorithm>
#include <cstring>

namespace moriarty {

namespace {

// Operations and bytes under way at once, beyond the first operation. A provider may move all it was given within one
// call, and only between calls does the dispatcher look up: to close, and to tell what has ended. More gained nothing.
constexpr size_t kOperationsMax = 128;
constexpr uint64_t kBytesMax = 4u << 20;

// The shm provider moves a run by process_vm_readv, which looks at each page: with huge ones it is two to three times as fast.
constexpr uintptr_t kHugePageBytes = 2u << 20;
constexpr int kCollapse = 25;  // MADV_COLLAPSE of Linux 6.1, which not all headers name

const std::string kShmScheme = "fi_shm://";

template <typename Object>
void closeIt(Object** object) {
  if (*object != nullptr) fi_close(&(*object)->fid);
  *object = nullptr;
}

// The file's name in /dev/shm; empty when it is not one of the shm provider's own: a pid, a user and a count.
std::string fileOf(const std::string& address) {
  const std::string text(address.c_str());
  const size_t scheme = text.find("://");
  const std::string file = scheme == std::string::npos ? text : text.substr(scheme + 3);
  const bool plain = !file.empty() && file[0] != ':' && file.find(':') != std::string::npos &&
                     file.find_first_not_of("0123456789:") == std::string::npos;
  return plain ? file : "";
}

}  // namespace

HugePages::HugePages(uint8_t* start, uint64_t bytes)
    : from_((reinterpret_cast<uintptr_t>(start) + kHugePageBytes - 1) & ~(kHugePageBytes - 1)),
      to_(std::max(from_, (reinterpret_cast<uintptr_t>(start) + bytes) & ~(kHugePageBytes - 1))) {
  if (from_ < to_) (void)madvise(reinterpret_cast<void*>(from_), to_ - from_, MADV_HUGEPAGE);
}

void HugePages::gather(const uint8_t* start, uint64_t bytes) const {
  const uintptr_t first = reinterpret_cast<uintptr_t>(start) & ~(kHugePageBytes - 1);
  const uintptr_t last = (reinterpret_cast<uintptr_t>(start) + bytes + kHugePageBytes - 1) & ~(kHugePageBytes - 1);
  const uintptr_t from = std::max(first, from_), to = std::min(last, to_);
  if (bytes >= kHugePageBytes && from < to) (void)madvise(reinterpret_cast<void*>(from), to - from, kCollapse);
}

fi_info* hintsFor(const std::string& provider) {
  fi_info* hints = fi_allocinfo();
  if (hints == nullptr) return nullptr;
  hints->caps = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  hints->mode = 0;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
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

uint64_t randomNumber() {
  uint64_t number = 0;
  while (getrandom(&number, sizeof number, 0) != sizeof number) continue;
  return number;
}

bool isLaneAddress(const std::string& provider, const std::string& address) {
  if (provider == "shm") {
    const size_t scheme = address.compare(0, kShmScheme.size(), kShmScheme) == 0 ? kShmScheme.size() : 0;
    return address.size() < 64 && address.size() > scheme + 1 && address.find('\0') == address.size() - 1 && !fileOf(address).empty();
  }
  sockaddr_in name;
  if (address.size() != sizeof name) return false;
  memcpy(&name, address.data(), sizeof name);
  // The host part 127: this version opens its lanes on loopback and on nothing else.
  return name.sin_family == AF_INET && name.sin_port != 0 && ntohl(name.sin_addr.s_addr) >> 24 == 127;
}

void forgetNameOf(const std::string& address) {
  const std::string file = fileOf(address);
  if (!file.empty()) shm_unlink(("/" + file).c_str());
}

int Ports::open(const std::string& provider) {
  int error = findProvider(provider, &info);
  if (error != 0) return error;
  virtualAddresses = (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  inFlightMax = std::min(std::max<size_t>(info->tx_attr->size, 1), kOperationsMax);
  if ((error = fi_fabric(info->fabric_attr, &fabric, nullptr)) != 0) return error;
  return fi_domain(fabric, info, &domain, nullptr);
}

void Ports::close() {
  closeIt(&domain);
  closeIt(&fabric);
  if (info != nullptr) fi_freeinfo(info);
  info = nullptr;
}

int Ports::registerRegion(Region* region) {
  if (region->bytes == 0) return 0;
  const uint64_t access = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  const size_t keyBytes = info->domain_attr->mr_key_size;
  const uint64_t key = randomNumber() >> (keyBytes >= 8 ? 1 : 64 - 8 * std::max<size_t>(keyBytes, 1));
  int error = fi_mr_reg(domain, region->base, region->bytes, access, 0, key, 0, &region->mr, nullptr);
  // Some NICs (cxi) keep regions by endpoint: it is the one that is posted to.
  const bool byEndpoint = (info->domain_attr->mr_mode & FI_MR_ENDPOINT) != 0;
  if (error == 0 && byEndpoint) error = fi_mr_bind(region->mr, &served->fid, 0);
  if (error == 0 && byEndpoint) error = fi_mr_enable(region->mr);
  region->error = -error;
  return region->error;
}

int Lane::open(Ports* shared) {
  ports = shared;
  movedAt = Clock::now();
  fi_av_attr pages = {};
  pages.type = FI_AV_TABLE;
  fi_cq_attr attributes = {};
  attributes.size = 2 * ports->inFlightMax;
  attributes.format = FI_CQ_FORMAT_CONTEXT;
  attributes.wait_obj = FI_WAIT_NONE;
  int error = fi_av_open(ports->domain, &pages, &book, nullptr);
  if (error == 0) error = fi_cq_open(ports->domain, &attributes, &queue, nullptr);
  if (error == 0) error = fi_endpoint(ports->domain, ports->info, &end, nullptr);
  if (error == 0) error = fi_ep_bind(end, &book->fid, 0);
  if (error == 0) error = fi_ep_bind(end, &queue->fid, FI_TRANSMIT | FI_RECV);
  return error == 0 ? fi_enable(end) : error;
}

std::string Lane::address() const {
  uint8_t name[512] = {};
  size_t bytes = sizeof name;
  if (end == nullptr || fi_getname(&end->fid, name, &bytes) != 0 || bytes > sizeof name) return "";
  return std::string(reinterpret_cast<const char*>(name), bytes);
}

int Lane::reach(const std::string& address) {
  theirAddress = address;
  return fi_av_insert(book, address.data(), 1, &there, 0, nullptr) == 1 ? 0 : -FI_EADDRNOTAVAIL;
}

void Lane::close() {
  if (stuck) return;
  closeIt(&end);
  closeIt(&queue);
  closeIt(&book);
}

void Lane::forgetName() const {
  if (ports->info->addr_format == FI_ADDR_STR) forgetNameOf(address());
}

bool Lane::hasRoom() const { return inFlight < ports->inFlightMax && (inFlight == 0 || bytesInFlight < kBytesMax); }

ssize_t Lane::start(const Batch& batch, const WorkRequest& request, uint64_t key, uint64_t at) {
  void* const here = batch.local->base + request.local;
  void* const descriptor = fi_mr_desc(batch.local->mr);
  void* const context = const_cast<Batch*>(&batch);
  ssize_t answer = -FI_EAGAIN;
  const auto post = [&] {
    answer = batch.isWrite ? fi_write(end, here, request.bytes, descriptor, there, at + request.remote, key, context)
                           : fi_read(end, here, request.bytes, descriptor, there, at + request.remote, key, context);
  };
  if (rescue == nullptr) post();
  else if (!rescue->call(link, post)) stuck = true;
  return stuck ? -FI_EAGAIN : answer;
}

ssize_t Lane::reap(fi_cq_entry* entries, size_t count, fi_cq_err_entry* failure) {
  ssize_t answer = -FI_EAGAIN;
  const auto read = [&] {
    answer = fi_cq_read(queue, entries, count);
    if (answer != -FI_EAVAIL) return;
    if (fi_cq_readerr(queue, failure, 0) == 1) entries[0].op_context = failure->op_context;
    else answer = -FI_EAGAIN;
  };
  if (rescue == nullptr) read();
  else if (!rescue->call(link, read)) stuck = true;
  return stuck ? -FI_EAGAIN : answer;
}

}  // namespace moriarty
