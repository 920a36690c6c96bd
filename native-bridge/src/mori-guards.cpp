// What is looked at before MoRI is: each of these would end the process inside it.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <hip/hip_runtime_api.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "mori.hpp"

namespace moriarty {

namespace {

// Never closed again: MoRI-IO loads the same ones for each of its engines, and each time their clean-up would be registered anew.
void* openFirst(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (name == nullptr || *name == '\0') continue;
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

// Whether libibverbs lists any device. Without one MoRI only throws, and no GPU has to be there for that.
bool hasVerbsDevice() {
  void* verbs = openFirst({"libibverbs.so", "libibverbs.so.1"});
  if (verbs == nullptr) return false;
  const auto list = reinterpret_cast<void** (*)(int*)>(dlsym(verbs, "ibv_get_device_list"));
  const auto free = reinterpret_cast<void (*)(void**)>(dlsym(verbs, "ibv_free_device_list"));
  int count = 0;
  if (list != nullptr && free != nullptr)
    if (void** devices = list(&count)) free(devices);
  return count > 0;
}

}  // namespace

// A name would become 255.255.255.255; an address of somebody else cannot be bound. The port is left to the system.
std::string whyNoHost(const std::string& host) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) return "MORI-HOST " + host + " is no dotted IPv4 address";
  const int probe = socket(AF_INET, SOCK_STREAM, 0);
  if (probe < 0) return std::string("MORI-HOST no socket: ") + std::strerror(errno);
  const bool bound = bind(probe, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  const int error = errno;
  close(probe);
  return bound ? "" : "MORI-HOST no port of " + host + " can be bound: " + std::strerror(error);
}

// In the order in which MoRI looks for rocm-smi.
std::string whyNoGpu() {
  if (!hasVerbsDevice()) return "";
  void* smi = openFirst({std::getenv("MORI_ROCM_SMI_PATH"), "librocm_smi64.so.1", "librocm_smi64.so", "/opt/rocm/lib/librocm_smi64.so.1"});
  if (smi == nullptr) return "MORI-GPU librocm_smi64.so cannot be loaded, without which MoRI-IO would end the process";
  const auto init = reinterpret_cast<int (*)(uint64_t)>(dlsym(smi, "rsmi_init"));
  const auto number = reinterpret_cast<int (*)(uint32_t*)>(dlsym(smi, "rsmi_num_monitor_devices"));
  const auto shutDown = reinterpret_cast<int (*)()>(dlsym(smi, "rsmi_shut_down"));
  uint32_t gpus = 0;
  bool whole = init != nullptr && number != nullptr && shutDown != nullptr;
  for (const char* name : {"rsmi_dev_pci_id_get", "rsmi_is_P2P_accessible", "rsmi_topo_get_link_type", "rsmi_topo_get_link_weight",
                           "rsmi_status_string"})
    whole = whole && dlsym(smi, name) != nullptr;
  const bool asked = whole && init(0) == 0;
  const bool told = asked && number(&gpus) == 0;
  if (asked) shutDown();
  if (!told) return "MORI-GPU rocm-smi does not answer, without which MoRI-IO would end the process";
  return gpus > 0 ? "" : "MORI-GPU rocm-smi finds no GPU, without which MoRI-IO would end the process";
}

// The pointer must be what HIP knows as memory of that device.
std::string whyNoDevice(const void* pointer, int32_t device) {
  int devices = 0;
  if (hipGetDeviceCount(&devices) != hipSuccess || device < 0 || device >= devices) return "MORI-DEVICE there is no such GPU";
  hipPointerAttribute_t about = {};
  if (hipPointerGetAttributes(&about, pointer) != hipSuccess || about.device != device) {
    (void)hipGetLastError();
    return "MORI-DEVICE the pointer is no memory of that GPU";
  }
  return "";
}

size_t endOfPart(const std::vector<WorkRequest>& requests, size_t first, bool isWrite) {
  const auto start = [&](size_t i) { return isWrite ? requests[i].remote : requests[i].local; };
  // Ascending ones, which nearly all are, need no book.
  size_t next = first;
  uint64_t top = 0;
  while (next < requests.size() && start(next) >= top) {
    top = start(next) + requests[next].bytes;
    next++;
  }
  if (next == requests.size()) return next;
  std::map<uint64_t, uint64_t> taken;  // start and end, none over another
  for (next = first; next < requests.size(); next++) {
    const uint64_t from = start(next);
    const uint64_t to = from + requests[next].bytes;
    if (from == to) continue;
    const auto above = taken.lower_bound(to);
    if (above != taken.begin() && std::prev(above)->second > from) break;
    taken.emplace(from, to);
  }
  return next;
}

}  // namespace moriarty
