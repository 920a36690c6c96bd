// What Node loads: it has no foreign library in it, and loads the bridge that has (MORIARTY_BRIDGE, a file beside this
// one), without letting that take our signals.
#include <dlfcn.h>
#include <node_api.h>

#include <string>

#include "signals.hpp"

namespace {

using Init = napi_value (*)(napi_env, napi_value);

// The bridge lies beside this file. It stays loaded until the process ends, whatever environments come and go.
Init load(std::string* complaint) {
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&load), &self) == 0) {
    *complaint = "the addon does not know where it is";
    return nullptr;
  }
  const std::string path = self.dli_fname;
  const std::string bridge = path.substr(0, path.rfind('/') + 1) + MORIARTY_BRIDGE;
  const moriarty::KeptSignals kept;
  void* library = dlopen(bridge.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  void* init = library == nullptr ? nullptr : dlsym(library, "moriarty_init");
  if (init == nullptr) *complaint = dlerror();
  return reinterpret_cast<Init>(init);
}

}  // namespace

NAPI_MODULE_INIT() {
  std::string complaint;
  const Init init = load(&complaint);
  if (init != nullptr) return init(env, exports);
  napi_throw_error(env, "NATIVE-LOAD", complaint.c_str());
  return nullptr;
}
