// What concerns engines of other processes.
#include "addon.hpp"

namespace moriarty {

namespace {

void put(napi_env env, napi_value into, const char* name, napi_value value) { napi_set_named_property(env, into, name, value); }

// door(handle): { key, host, port } where others can ask for the engine, or null.
napi_value door(napi_env env, napi_callback_info info) {
  napi_value values[1];
  napi_value made;
  if (!arguments(env, info, values)) return fail(env, "NATIVE-ARGS", "door(handle)");
  Handle* handle = engineOf(env, values[0]);
  if (handle == nullptr) return nullptr;
  const Door door = handle->engine->door();
  if (door.key.empty()) {
    napi_get_null(env, &made);
    return made;
  }
  napi_create_object(env, &made);
  put(env, made, "key", textOf(env, door.key.c_str()));
  put(env, made, "host", textOf(env, door.host.c_str()));
  put(env, made, "port", numberOf(env, door.port));
  return made;
}

// addressOf(handle, start): where that byte of the memory is, as a bigint.
napi_value addressOf(napi_env env, napi_callback_info info) {
  napi_value values[2];
  napi_value made;
  uint64_t start;
  if (!arguments(env, info, values) || !integerOf(env, values[1], &start)) return fail(env, "NATIVE-ARGS", "addressOf(handle, start)");
  Handle* handle = engineOf(env, values[0]);
  if (handle == nullptr) return nullptr;
  napi_create_bigint_uint64(env, handle->engine->addressOf(start), &made);
  return made;
}

// connect(handle, key, host, port): the number of a connection that is being made, 0 when there can be none.
napi_value connect(napi_env env, napi_callback_info info) {
  napi_value values[4];
  Door door;
  uint64_t port;
  if (!arguments(env, info, values) || !stringOf(env, values[1], &door.key) || !stringOf(env, values[2], &door.host) ||
      !integerOf(env, values[3], &port) || port < 1 || port > 65'535)
    return fail(env, "NATIVE-ARGS", "connect(handle, key, host, port)");
  door.port = static_cast<uint16_t>(port);
  Handle* handle = engineOf(env, values[0]);
  return handle == nullptr ? nullptr : numberOf(env, handle->engine->connect(door));
}

bool numberedEngine(napi_env env, napi_callback_info info, const char* usage, Handle** handle, uint32_t* number) {
  napi_value values[2];
  uint64_t read;
  if (!arguments(env, info, values) || !integerOf(env, values[1], &read) || read > UINT32_MAX) {
    fail(env, "NATIVE-ARGS", usage);
    return false;
  }
  *number = static_cast<uint32_t>(read);
  *handle = engineOf(env, values[0]);
  return *handle != nullptr;
}

// disconnect(handle, peer)
napi_value disconnect(napi_env env, napi_callback_info info) {
  Handle* handle;
  uint32_t number;
  if (!numberedEngine(env, info, "disconnect(handle, peer)", &handle, &number)) return nullptr;
  handle->engine->disconnect(number);
  return undefinedOf(env);
}

// peerState(handle, peer): { state, error }; an unknown one is closed.
napi_value peerState(napi_env env, napi_callback_info info) {
  Handle* handle;
  uint32_t number;
  napi_value made;
  if (!numberedEngine(env, info, "peerState(handle, peer)", &handle, &number)) return nullptr;
  const auto peer = handle->engine->peer(number);
  napi_create_object(env, &made);
  put(env, made, "state", numberOf(env, peer == nullptr ? kClosed : peer->state.load(std::memory_order_acquire)));
  put(env, made, "error", numberOf(env, peer == nullptr ? 0 : peer->error.load()));
  return made;
}

// addPeerRegion(handle, peer, id, address, bytes): the key, or 0 when there is no such connection.
napi_value addPeerRegion(napi_env env, napi_callback_info info) {
  napi_value values[5];
  uint64_t peer, id, at, bytes;
  bool exact = false;
  if (!arguments(env, info, values) || !integerOf(env, values[1], &peer) || peer > UINT32_MAX || !integerOf(env, values[2], &id) ||
      id > UINT32_MAX || napi_get_value_bigint_uint64(env, values[3], &at, &exact) != napi_ok || !exact || !integerOf(env, values[4], &bytes))
    return fail(env, "NATIVE-ARGS", "addPeerRegion(handle, peer, id, address, bytes)");
  Handle* handle = engineOf(env, values[0]);
  if (handle == nullptr) return nullptr;
  return numberOf(env, static_cast<double>(handle->engine->addPeerRegion(static_cast<uint32_t>(peer), static_cast<uint32_t>(id), at, bytes)));
}

// isGone(handle, key): whether nobody can touch any more what the key named.
napi_value isGone(napi_env env, napi_callback_info info) {
  napi_value values[2];
  uint64_t key;
  if (!arguments(env, info, values) || !integerOf(env, values[1], &key)) return fail(env, "NATIVE-ARGS", "isGone(handle, key)");
  Handle* handle = handleOf(env, values[0]);
  return boolOf(env, handle == nullptr || handle->engine == nullptr || handle->engine->isGone(key));
}

}  // namespace

std::vector<Exported> peerFunctions() {
  return {{"door", door},           {"addressOf", addressOf},         {"connect", connect}, {"disconnect", disconnect},
          {"peerState", peerState}, {"addPeerRegion", addPeerRegion}, {"isGone", isGone}};
}

}  // namespace moriarty
