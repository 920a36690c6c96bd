// N-API around the engine of whichever half it is linked with. Every call returns at once; only `release` of an engine that has ended, the finalizer of a
// forgotten one and the end of the environment or process wait for a dispatcher, and only until it has closed its ends.
#include "addon.hpp"
#include "exits.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>

namespace moriarty {

namespace {

// What the layout of the shared memory and the list of functions are; src/node/native-addon.ts expects this number.
constexpr uint32_t kInterface = 4;
constexpr uint32_t kSlotsMax = 1u << 16;
constexpr uint32_t kRunsMax = 1u << 20;
constexpr uint64_t kPatienceMillisMax = 86'400'000;

void stopForHook(void* pointer) { stop(static_cast<Handle*>(pointer)); }

}  // namespace

bool stop(Handle* handle) {
  if (handle->engine == nullptr) return true;
  delist(handle->engine.get());
  handle->engine->beginClose();
  const bool whole = handle->engine->join();
  if (whole) handle->engine.reset();
  else (void)handle->engine.release();  // its thread, or a peer, may still look at it
  // And at its memory.
  if (!whole) new std::shared_ptr<Mapping>(handle->mapping);
  handle->mapping.reset();
  if (handle->waker != nullptr) {
    napi_remove_env_cleanup_hook(handle->env, stopForHook, handle);
    if (whole) napi_release_threadsafe_function(handle->waker, napi_tsfn_release);
  }
  handle->waker = nullptr;
  return whole;
}

napi_value fail(napi_env env, const char* code, const char* text) {
  napi_throw_type_error(env, code, text);
  return nullptr;
}

napi_value numberOf(napi_env env, double value) {
  napi_value made;
  napi_create_double(env, value, &made);
  return made;
}

napi_value textOf(napi_env env, const char* text) {
  napi_value made;
  napi_create_string_utf8(env, text == nullptr ? "" : text, NAPI_AUTO_LENGTH, &made);
  return made;
}

napi_value undefinedOf(napi_env env) {
  napi_value made;
  napi_get_undefined(env, &made);
  return made;
}

napi_value boolOf(napi_env env, bool value) {
  napi_value made;
  napi_get_boolean(env, value, &made);
  return made;
}

Handle* handleOf(napi_env env, napi_value value) {
  void* pointer = nullptr;
  void* instance = nullptr;
  if (napi_get_value_external(env, value, &pointer) != napi_ok || napi_get_instance_data(env, &instance) != napi_ok) return nullptr;
  auto& known = (*static_cast<std::shared_ptr<Instance>*>(instance))->handles;
  return std::find(known.begin(), known.end(), pointer) == known.end() ? nullptr : static_cast<Handle*>(pointer);
}

Handle* engineOf(napi_env env, napi_value value) {
  Handle* const handle = handleOf(env, value);
  if (handle != nullptr && handle->engine != nullptr) return handle;
  fail(env, "NATIVE-HANDLE", "no such engine, or it was released");
  return nullptr;
}

bool integerOf(napi_env env, napi_value value, uint64_t* result) {
  double number;
  if (napi_get_value_double(env, value, &number) != napi_ok || !(number >= 0 && number <= 9007199254740991.0)) return false;
  *result = static_cast<uint64_t>(number);
  return static_cast<double>(*result) == number;
}

bool stringOf(napi_env env, napi_value value, std::string* result) {
  char text[64];
  size_t length;
  if (napi_get_value_string_utf8(env, value, text, sizeof text, &length) != napi_ok) return false;
  result->assign(text, length);
  return true;
}

namespace {

// about(): { interface, library, built, running }, versions as text.
napi_value about(napi_env env, napi_callback_info) {
  const Library library = moriarty::library();
  napi_value made;
  napi_create_object(env, &made);
  napi_set_named_property(env, made, "interface", numberOf(env, kInterface));
  napi_set_named_property(env, made, "library", textOf(env, library.name));
  napi_set_named_property(env, made, "built", textOf(env, library.built.c_str()));
  napi_set_named_property(env, made, "running", textOf(env, library.running.c_str()));
  return made;
}

// errorText(number), of a completion record or of an engine that did not open
napi_value errorText(napi_env env, napi_callback_info info) {
  napi_value values[1];
  uint64_t number;
  if (!arguments(env, info, values) || !integerOf(env, values[0], &number)) return fail(env, "NATIVE-ARGS", "errorText(number)");
  return textOf(env, moriarty::errorText(static_cast<int32_t>(number)).c_str());
}

napi_value bytesOf(napi_env env, const std::vector<uint8_t>& bytes) {
  void* into = nullptr;
  napi_value made;
  napi_create_arraybuffer(env, bytes.size(), &into, &made);
  if (into != nullptr && !bytes.empty()) std::memcpy(into, bytes.data(), bytes.size());
  return made;
}

// repack(kind, bytes): a packed descriptor as the library unpacks and packs it, or null when it cannot.
napi_value repack(napi_env env, napi_callback_info info) {
  napi_value values[2];
  napi_value made;
  uint64_t kind;
  void* bytes;
  size_t count;
  if (!arguments(env, info, values) || !integerOf(env, values[0], &kind) || kind > 1 ||
      napi_get_arraybuffer_info(env, values[1], &bytes, &count) != napi_ok)
    return fail(env, "NATIVE-ARGS", "repack(0 or 1, bytes)");
  std::vector<uint8_t> packed;
  if (moriarty::repack(static_cast<Packed>(kind), static_cast<uint8_t*>(bytes), count, &packed)) return bytesOf(env, packed);
  napi_get_null(env, &made);
  return made;
}

// describe(memory): [engine, memory], packed as the library describes them, or null when it does not.
napi_value describe(napi_env env, napi_callback_info info) {
  napi_value values[1];
  napi_value made;
  void* bytes;
  size_t count;
  if (!arguments(env, info, values) || napi_get_arraybuffer_info(env, values[0], &bytes, &count) != napi_ok)
    return fail(env, "NATIVE-ARGS", "describe(memory)");
  std::vector<uint8_t> engine, region;
  if (!moriarty::describe(static_cast<uint8_t*>(bytes), count, &engine, &region)) {
    napi_get_null(env, &made);
    return made;
  }
  napi_create_array_with_length(env, 2, &made);
  napi_set_element(env, made, 0, bytesOf(env, engine));
  napi_set_element(env, made, 1, bytesOf(env, region));
  return made;
}

// Of an engine that nobody holds any more.
void forget(napi_env env, void* pointer, void*) {
  auto* handle = static_cast<Handle*>(pointer);
  const bool whole = stop(handle);
  auto& known = handle->instance->handles;
  known.erase(std::remove(known.begin(), known.end(), handle), known.end());
  for (napi_ref reference : {handle->memory, handle->control})
    if (reference != nullptr && whole) napi_delete_reference(env, reference);
  delete handle;
}

// open(provider, memory, control, slots, runsMax, host, patienceMillis): the handle of an engine that is opening. With a
// host it can be asked for by other processes.
napi_value open(napi_env env, napi_callback_info info) {
  napi_value values[7];
  EngineOptions options;
  uint64_t slots, runsMax, patienceMillis;
  void* memory;
  void* control;
  size_t memoryBytes, controlBytes;
  if (!arguments(env, info, values) || !stringOf(env, values[0], &options.provider) ||
      napi_get_arraybuffer_info(env, values[1], &memory, &memoryBytes) != napi_ok ||
      napi_get_arraybuffer_info(env, values[2], &control, &controlBytes) != napi_ok ||
      !integerOf(env, values[3], &slots) || !integerOf(env, values[4], &runsMax) || !stringOf(env, values[5], &options.host) ||
      !integerOf(env, values[6], &patienceMillis) || patienceMillis < 1 || patienceMillis > kPatienceMillisMax)
    return fail(env, "NATIVE-ARGS", "open(provider, memory, control, slots, runsMax, host, patienceMillis)");
  if (slots < 2 || slots > kSlotsMax || (slots & (slots - 1)) != 0 || runsMax < 1 || runsMax > kRunsMax)
    return fail(env, "NATIVE-ARGS", "slots must be a power of two from 2 to 65536, runsMax from 1 to 1048576");
  if (memoryBytes == 0 || controlBytes < sizeof(Header) + slots * sizeof(Completion) + runsMax * 3 * sizeof(double) ||
      reinterpret_cast<uintptr_t>(control) % alignof(double) != 0)
    return fail(env, "NATIVE-ARGS", "the memory is empty or the control block too short");
  void* instance;
  napi_get_instance_data(env, &instance);
  auto* handle = new Handle;
  handle->instance = *static_cast<std::shared_ptr<Instance>*>(instance);
  handle->memoryBytes = memoryBytes;
  handle->mapping = mappingAt(memory);
  napi_create_reference(env, values[1], 1, &handle->memory);
  napi_create_reference(env, values[2], 1, &handle->control);
  options.memory = static_cast<uint8_t*>(memory);
  options.memoryBytes = memoryBytes;
  options.header = static_cast<Header*>(control);
  options.records = reinterpret_cast<Completion*>(options.header + 1);
  options.staging = reinterpret_cast<const double*>(options.records + slots);
  options.slots = static_cast<uint32_t>(slots);
  options.runsMax = static_cast<uint32_t>(runsMax);
  options.patienceMillis = static_cast<uint32_t>(patienceMillis);
  handle->env = env;
  stopFirstAtExit();
  try {
    handle->engine = openFabric(options);
  } catch (const std::exception& error) {  // no thread or no memory to be had
    for (napi_ref reference : {handle->memory, handle->control}) napi_delete_reference(env, reference);
    delete handle;
    return fail(env, "NATIVE-THREAD", error.what());
  }
  enlist(handle->engine.get());
  handle->instance->handles.push_back(handle);
  napi_value made;
  napi_create_external(env, handle, forget, nullptr, &made);
  return made;
}

// addRegion(handle, start, end): the key of bytes [start, end).
napi_value addRegion(napi_env env, napi_callback_info info) {
  napi_value values[3];
  uint64_t start, end;
  if (!arguments(env, info, values)) return fail(env, "NATIVE-ARGS", "addRegion(handle, start, end)");
  Handle* handle = engineOf(env, values[0]);
  if (handle == nullptr) return nullptr;
  if (!integerOf(env, values[1], &start) || !integerOf(env, values[2], &end) || start > end || end > handle->memoryBytes)
    return fail(env, "NATIVE-ARGS", "the region does not lie in the memory");
  return numberOf(env, static_cast<double>(handle->engine->addRegion(start, end)));
}

// addDeviceRegion(handle, pointer, bytes, device): the key of GPU memory, 0 when there is none to be had.
napi_value addDeviceRegion(napi_env env, napi_callback_info info) {
  napi_value values[4];
  uint64_t pointer, bytes;
  int32_t device;
  bool exact = false;
  if (!arguments(env, info, values) || napi_get_value_bigint_uint64(env, values[1], &pointer, &exact) != napi_ok || !exact ||
      !integerOf(env, values[2], &bytes) || napi_get_value_int32(env, values[3], &device) != napi_ok)
    return fail(env, "NATIVE-ARGS", "addDeviceRegion(handle, pointer, bytes, device)");
  Handle* handle = engineOf(env, values[0]);
  if (handle == nullptr) return nullptr;
  return numberOf(env, static_cast<double>(handle->engine->addDeviceRegion(pointer, bytes, device)));
}

// dropRegion(handle, key): new batches that name it are refused, posted ones end.
napi_value dropRegion(napi_env env, napi_callback_info info) {
  napi_value values[2];
  uint64_t key;
  if (!arguments(env, info, values) || !integerOf(env, values[1], &key)) return fail(env, "NATIVE-ARGS", "dropRegion(handle, key)");
  Handle* handle = handleOf(env, values[0]);
  if (handle != nullptr && handle->engine != nullptr) handle->engine->dropRegion(key);
  return undefinedOf(env);
}

// post(handle, localKey, remoteKey, isWrite, count, id): 0, or why the batch in the staging area was not taken.
napi_value post(napi_env env, napi_callback_info info) {
  napi_value values[6];
  double local, remote, id;
  bool isWrite;
  uint32_t count;
  if (!arguments(env, info, values) || napi_get_value_double(env, values[1], &local) != napi_ok ||
      napi_get_value_double(env, values[2], &remote) != napi_ok || napi_get_value_bool(env, values[3], &isWrite) != napi_ok ||
      napi_get_value_uint32(env, values[4], &count) != napi_ok || napi_get_value_double(env, values[5], &id) != napi_ok ||
      !(local >= 0 && local < 9e15 && remote >= 0 && remote < 9e15))
    return fail(env, "NATIVE-ARGS", "post(handle, localKey, remoteKey, isWrite, count, id)");
  Handle* handle = handleOf(env, values[0]);
  const auto refusal = handle == nullptr || handle->engine == nullptr
                           ? kNotOpen
                           : handle->engine->post(static_cast<uint64_t>(local), static_cast<uint64_t>(remote), isWrite, count, id);
  napi_value made;
  napi_create_int32(env, refusal, &made);
  return made;
}

// close(handle): begins; the state word says when it has ended.
napi_value close(napi_env env, napi_callback_info info) {
  napi_value values[1];
  if (!arguments(env, info, values)) return fail(env, "NATIVE-ARGS", "close(handle)");
  Handle* handle = handleOf(env, values[0]);
  if (handle != nullptr && handle->engine != nullptr) handle->engine->beginClose();
  return undefinedOf(env);
}

// release(handle): gives the buffers back; true when the engine had ended and they were.
napi_value release(napi_env env, napi_callback_info info) {
  napi_value values[1];
  if (!arguments(env, info, values)) return fail(env, "NATIVE-ARGS", "release(handle)");
  Handle* handle = handleOf(env, values[0]);
  const auto state = handle == nullptr || handle->engine == nullptr ? kClosed : handle->engine->state();
  const bool ended = state == kClosed || state == kFailed;
  // Where a peer may still write to it the memory stays held for ever.
  if (handle != nullptr && ended && stop(handle)) {
    for (napi_ref* reference : {&handle->memory, &handle->control}) {
      if (*reference != nullptr) napi_delete_reference(env, *reference);
      *reference = nullptr;
    }
  }
  return boolOf(env, ended);
}

// setWaker(handle, function): called on this thread, with nothing, once after each `arm`, when something has ended or
// changed. It does not keep the event loop alive unless `holdLoop` says so.
napi_value setWaker(napi_env env, napi_callback_info info) {
  napi_value values[2];
  napi_valuetype type;
  if (!arguments(env, info, values) || napi_typeof(env, values[1], &type) != napi_ok || type != napi_function)
    return fail(env, "NATIVE-ARGS", "setWaker(handle, function)");
  Handle* handle = engineOf(env, values[0]);
  if (handle == nullptr) return nullptr;
  if (handle->waker != nullptr) return fail(env, "NATIVE-ARGS", "the engine has a waker");
  napi_threadsafe_function waker;
  if (napi_create_threadsafe_function(env, values[1], nullptr, textOf(env, "moriarty"), 0, 1, nullptr, nullptr, nullptr, nullptr, &waker) != napi_ok)
    return fail(env, "NATIVE-THREAD", "no thread-safe function can be made");
  napi_unref_threadsafe_function(env, waker);
  handle->waker = waker;
  // Hooks run last in, first out: the dispatcher has to end before the function that it calls does.
  napi_add_env_cleanup_hook(env, stopForHook, handle);
  handle->engine->setWaker([waker] { napi_call_threadsafe_function(waker, nullptr, napi_tsfn_nonblocking); });
  return undefinedOf(env);
}

napi_value arm(napi_env env, napi_callback_info info) {
  napi_value values[1];
  if (!arguments(env, info, values)) return fail(env, "NATIVE-ARGS", "arm(handle)");
  Handle* handle = handleOf(env, values[0]);
  if (handle != nullptr && handle->waker != nullptr) handle->engine->arm();
  return undefinedOf(env);
}

// holdLoop(handle, held): whether the event loop stays alive for the waker.
napi_value holdLoop(napi_env env, napi_callback_info info) {
  napi_value values[2];
  bool held;
  if (!arguments(env, info, values) || napi_get_value_bool(env, values[1], &held) != napi_ok)
    return fail(env, "NATIVE-ARGS", "holdLoop(handle, held)");
  Handle* handle = handleOf(env, values[0]);
  if (handle == nullptr || handle->waker == nullptr) return undefinedOf(env);
  if (held) napi_ref_threadsafe_function(env, handle->waker);
  else napi_unref_threadsafe_function(env, handle->waker);
  return undefinedOf(env);
}

// The environment ends, perhaps with engines at work: their buffers go away after this.
void endInstance(void* pointer) {
  auto& instance = *static_cast<std::shared_ptr<Instance>*>(pointer);
  for (Handle* handle : instance->handles)
    if (handle->engine != nullptr) handle->engine->beginClose();
  for (Handle* handle : instance->handles) stop(handle);
}

void dropInstance(napi_env, void* pointer, void*) { delete static_cast<std::shared_ptr<Instance>*>(pointer); }

}  // namespace

std::vector<Exported> engineFunctions() {
  return {{"about", about},           {"errorText", errorText},   {"open", open},   {"addRegion", addRegion},
          {"dropRegion", dropRegion}, {"post", post},             {"close", close}, {"release", release},
          {"repack", repack},         {"describe", describe},     {"addDeviceRegion", addDeviceRegion},
          {"setWaker", setWaker},     {"arm", arm},               {"holdLoop", holdLoop}};
}

napi_value init(napi_env env, napi_value exports) {
  static std::once_flag prepared;
  std::call_once(prepared, prepareLibrary);
  auto* instance = new std::shared_ptr<Instance>(std::make_shared<Instance>());
  napi_set_instance_data(env, instance, dropInstance, nullptr);
  napi_add_env_cleanup_hook(env, endInstance, instance);
  for (const auto& functions : {engineFunctions(), peerFunctions(), memoryFunctions()})
    for (const auto& entry : functions) {
      napi_value made;
      napi_create_function(env, entry.name, NAPI_AUTO_LENGTH, entry.function, nullptr, &made);
      napi_set_named_property(env, exports, entry.name, made);
    }
  return exports;
}

}  // namespace moriarty

// Called by loader.cpp, once for each environment.
extern "C" __attribute__((visibility("default"))) napi_value moriarty_init(napi_env env, napi_value exports) {
  return moriarty::init(env, exports);
}
