// What the files of the addon share: handles of engines, and reading arguments.
#pragma once

#include <node_api.h>

#include <memory>
#include <string>
#include <vector>

#include "fabric.hpp"

namespace moriarty {

struct Handle;

// Of one environment: the main thread's or a worker's.
struct Instance {
  std::vector<Handle*> handles;
};

// Whole pages that the bridge has mapped for JavaScript.
struct Mapping {
  Mapping(uint8_t* from, uint64_t count) : start(from), bytes(count) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();
  uint8_t* const start;
  const uint64_t bytes;
};
// Null for memory that is not of the bridge.
std::shared_ptr<Mapping> mappingAt(const void* start);

struct Handle {
  std::shared_ptr<Instance> instance;
  std::unique_ptr<Fabric> engine;  // empty once released
  uint64_t memoryBytes = 0;
  napi_ref memory = nullptr;
  std::shared_ptr<Mapping> mapping;  // of that memory, until the engine is gone
  napi_ref control = nullptr;
  napi_env env = nullptr;
  napi_threadsafe_function waker = nullptr;
};

// Closes and joins; false when the engine's memory must never be given back.
bool stop(Handle* handle);
// Of the environment: null for whatever is no handle.
Handle* handleOf(napi_env env, napi_value value);
// The same, of an engine that was not released; else an error is thrown.
Handle* engineOf(napi_env env, napi_value value);

napi_value fail(napi_env env, const char* code, const char* text);
napi_value numberOf(napi_env env, double value);
napi_value textOf(napi_env env, const char* text);
napi_value undefinedOf(napi_env env);
napi_value boolOf(napi_env env, bool value);
// An integer from 0 to 2^53 - 1, or false.
bool integerOf(napi_env env, napi_value value, uint64_t* result);
// Of less than 64 bytes.
bool stringOf(napi_env env, napi_value value, std::string* result);

template <size_t N>
bool arguments(napi_env env, napi_callback_info info, napi_value (&values)[N]) {
  size_t count = N;
  return napi_get_cb_info(env, info, &count, values, nullptr, nullptr) == napi_ok && count >= N;
}

struct Exported {
  const char* name;
  napi_callback function;
};
// Of addon-peers.cpp and addon-memory.cpp.
std::vector<Exported> peerFunctions();
std::vector<Exported> memoryFunctions();

}  // namespace moriarty
