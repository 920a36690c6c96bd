// What two engines say to each other over their control connection, as bytes. A frame is a length of four bytes, then a
// type of one, then its fields; numbers are little-endian, texts and bytes have a length of two bytes before them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moriarty {

enum class Word : uint8_t {
  kHello = 1,     // the first of both sides: who it is, whom it wants, and the address of its lane
  kReady = 2,     // asker: a first byte has landed, so both ends are mapped or connected
  kClaim = 3,     // asker: may I use this region
  kGrant = 4,     // answer: yes with its key and address, or no
  kRevoke = 5,    // the region is taken back
  kReleased = 6,  // asker: nothing of mine names it any more
  kAwake = 7,     // asker: something is on its way, poll
  kRest = 8,      // asker: nothing is
  kBye = 9,       // the end, on purpose
};

struct Hello {
  std::string provider;
  std::string to;       // key of the engine that is wanted
  std::string from;     // key of the engine that speaks
  std::string address;  // of its lane, as the provider names it
  uint64_t greetAt = 0;   // where a first byte may be written, and under which key
  uint64_t greetKey = 0;
};

struct Frame {
  Word word = Word::kBye;
  Hello hello;         // of kHello alone
  uint64_t id = 0;     // of a region
  uint64_t at = 0;     // address, in kClaim the virtual one
  uint64_t bytes = 0;
  uint64_t key = 0;
  bool granted = false;
};

constexpr uint32_t kFrameBytesMax = 2048;
constexpr uint32_t kTextBytesMax = 512;
constexpr size_t kLengthBytes = 4;

std::vector<uint8_t> packed(const Frame& frame);
// False for whatever is no frame, is too long or has something left over. `bytes` has no length before it.
bool unpacked(const uint8_t* bytes, size_t count, Frame* frame);

}  // namespace moriarty
