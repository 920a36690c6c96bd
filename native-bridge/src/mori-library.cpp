// What of MoRI-IO belongs to no engine: its version, its descriptors, its logging, and the texts of its errors.
#include <cstdlib>
#include <string_view>

#include "mori.hpp"
#pragma GCC visibility push(default)
#include "mori/utils/mori_log.hpp"
#include "spdlog/sinks/stdout_color_sinks.h"
#pragma GCC visibility pop

// build.sh says what it knows of the headers.
#ifndef MORIARTY_MORI_VERSION
#define MORIARTY_MORI_VERSION "of unknown version"
#endif

namespace moriarty {

namespace {

// MoRI has no numbers for its errors: each text gets one. Never freed, since engines may end after everything else.
struct Texts {
  std::mutex mutex;
  std::vector<std::string> texts;
  std::unordered_map<std::string, int32_t> numbers;
};

Texts& texts() {
  static auto* const all = new Texts;
  return *all;
}

constexpr size_t kTextsMax = 4096;

template <typename Desc>
std::vector<uint8_t> packedOf(const Desc& desc) {
  msgpack::sbuffer buffer;
  msgpack::pack(buffer, desc);
  const auto* data = reinterpret_cast<const uint8_t*>(buffer.data());
  return std::vector<uint8_t>(data, data + buffer.size());
}

template <typename Desc>
Desc unpackedOf(const uint8_t* bytes, size_t count) {
  Desc desc = {};
  msgpack::unpack(reinterpret_cast<const char*>(bytes), count).get().convert(desc);
  return desc;
}

template <typename Desc>
Desc carriedOver(const Desc& desc) {
  const std::vector<uint8_t> packed = packedOf(desc);
  return unpackedOf<Desc>(packed.data(), packed.size());
}

}  // namespace

int32_t keepText(const std::string& text) {
  Texts& all = texts();
  std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.numbers.find(text);
  if (found != all.numbers.end()) return found->second;
  if (all.texts.size() >= kTextsMax) return static_cast<int32_t>(kTextsMax) + 1;
  all.texts.push_back(text);
  const auto number = static_cast<int32_t>(all.texts.size());
  all.numbers.emplace(text, number);
  return number;
}

std::string errorText(int32_t error) {
  Texts& all = texts();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (error >= 1 && static_cast<size_t>(error) <= all.texts.size()) return all.texts[error - 1];
  return error == 0 ? "no error" : "an error whose text was not kept";
}

// Descriptors pass between the two engines as they would between two nodes.
mori::io::MemoryDesc carried(const mori::io::MemoryDesc& desc) { return carriedOver(desc); }
mori::io::EngineDesc carried(const mori::io::EngineDesc& desc) { return carriedOver(desc); }

bool repack(Packed kind, const uint8_t* bytes, size_t count, std::vector<uint8_t>* packed) {
  try {
    *packed = kind == Packed::kEngine ? packedOf(unpackedOf<mori::io::EngineDesc>(bytes, count))
                                      : packedOf(unpackedOf<mori::io::MemoryDesc>(bytes, count));
    return true;
  } catch (...) {
    return false;
  }
}

bool describe(uint8_t* memory, uint64_t bytes, std::vector<uint8_t>* engine, std::vector<uint8_t>* region) {
  try {
    mori::io::IOEngine made("moriarty-described", mori::io::IOEngineConfig{"127.0.0.1", 0});
    *engine = packedOf(made.GetEngineDesc());
    *region = packedOf(made.RegisterMemory(memory, bytes, -1, mori::io::MemoryLocationType::CPU));
    return true;
  } catch (...) {
    return false;
  }
}

Library library() { return {"MoRI-IO", MORIARTY_MORI_VERSION, MORIARTY_MORI_VERSION}; }

// MoRI logs to standard output, where our documents go. Whoever asks for a level gets it on standard error; else only
// what is critical is said. Notifications would let a finished status change again, and nobody here reads them.
void prepareLibrary() {
  const auto asked = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0';
  };
  const char* off = std::getenv("MORI_DISABLE_LOGGING");
  const bool silent = off != nullptr && (std::string_view(off) == "1" || std::string_view(off) == "true");
  const bool wanted = !silent && (asked("MORI_GLOBAL_LOG_LEVEL") || asked("MORI_IO_LOG_LEVEL") || asked("MORI_APP_LOG_LEVEL"));
  if (!wanted) setenv("MORI_GLOBAL_LOG_LEVEL", "critical", 1);
  setenv("MORI_IO_ENABLE_NOTIFICATION", "0", 1);
  try {
    const auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
    mori::ModuleLogger::GetInstance().ForEachLogger([&](const std::string&, auto& logger) {
      logger->sinks().assign(1, sink);
      if (!wanted) logger->set_level(spdlog::level::critical);
    });
  } catch (...) {
    // Then it is as loud as the environment has it.
  }
}

}  // namespace moriarty
