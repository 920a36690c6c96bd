#include "frames.hpp"

namespace moriarty {

namespace {

// "MORI" and the version of this page: another one is no frame.
constexpr uint64_t kMark = 0x4d4f5249'00000001;

class Writer {
 public:
  void number(uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) out.push_back(static_cast<uint8_t>(value >> (8 * i)));
  }
  void text(const std::string& value) {
    number(value.size(), 2);
    out.insert(out.end(), value.begin(), value.end());
  }
  std::vector<uint8_t> out;
};

class Reader {
 public:
  Reader(const uint8_t* bytes, size_t count) : at_(bytes), left_(count) {}
  bool number(uint64_t* value, size_t bytes) {
    if (left_ < bytes) return false;
    *value = 0;
    for (size_t i = 0; i < bytes; i++) *value |= static_cast<uint64_t>(at_[i]) << (8 * i);
    at_ += bytes;
    left_ -= bytes;
    return true;
  }
  bool text(std::string* value) {
    uint64_t bytes;
    if (!number(&bytes, 2) || bytes > kTextBytesMax || bytes > left_) return false;
    value->assign(reinterpret_cast<const char*>(at_), bytes);
    at_ += bytes;
    left_ -= bytes;
    return true;
  }
  bool atEnd() const { return left_ == 0; }

 private:
  const uint8_t* at_;
  size_t left_;
};

bool readFields(Reader* reader, Frame* frame) {
  uint64_t number;
  switch (frame->word) {
    case Word::kHello: {
      Hello& hello = frame->hello;
      return reader->number(&number, 8) && number == kMark && reader->text(&hello.provider) && reader->text(&hello.to) &&
             reader->text(&hello.from) && reader->text(&hello.address) && reader->number(&hello.greetAt, 8) &&
             reader->number(&hello.greetKey, 8);
    }
    case Word::kClaim:
      return reader->number(&frame->id, 8) && reader->number(&frame->at, 8) && reader->number(&frame->bytes, 8);
    case Word::kGrant:
      if (!reader->number(&frame->id, 8) || !reader->number(&number, 1) || number > 1) return false;
      frame->granted = number == 1;
      return reader->number(&frame->at, 8) && reader->number(&frame->key, 8);
    case Word::kRevoke:
    case Word::kReleased:
      return reader->number(&frame->id, 8);
    case Word::kReady:
    case Word::kAwake:
    case Word::kRest:
    case Word::kBye:
      return true;
  }
  return false;
}

}  // namespace

std::vector<uint8_t> packed(const Frame& frame) {
  Writer writer;
  writer.number(0, kLengthBytes);
  writer.number(static_cast<uint8_t>(frame.word), 1);
  switch (frame.word) {
    case Word::kHello:
      writer.number(kMark, 8);
      for (const std::string* text : {&frame.hello.provider, &frame.hello.to, &frame.hello.from, &frame.hello.address}) writer.text(*text);
      writer.number(frame.hello.greetAt, 8);
      writer.number(frame.hello.greetKey, 8);
      break;
    case Word::kClaim:
      for (uint64_t each : {frame.id, frame.at, frame.bytes}) writer.number(each, 8);
      break;
    case Word::kGrant:
      writer.number(frame.id, 8);
      writer.number(frame.granted ? 1 : 0, 1);
      for (uint64_t each : {frame.at, frame.key}) writer.number(each, 8);
      break;
    case Word::kRevoke:
    case Word::kReleased:
      writer.number(frame.id, 8);
      break;
    default:
      break;
  }
  const uint64_t bytes = writer.out.size() - kLengthBytes;
  for (size_t i = 0; i < kLengthBytes; i++) writer.out[i] = static_cast<uint8_t>(bytes >> (8 * i));
  return writer.out;
}

bool unpacked(const uint8_t* bytes, size_t count, Frame* frame) {
  Reader reader(bytes, count);
  uint64_t word;
  if (!reader.number(&word, 1) || word < static_cast<uint8_t>(Word::kHello) || word > static_cast<uint8_t>(Word::kBye)) return false;
  frame->word = static_cast<Word>(word);
  return readFields(&reader, frame) && reader.atEnd();
}

}  // namespace moriarty
