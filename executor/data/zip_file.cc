// ZipFile and ZipReader: the directory and the members of an archive, checked.
#include "data/zip_file.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/utf8.h"

namespace opstep {
namespace {

constexpr uint32_t kMemberHeader = 0x04034b50;
constexpr uint32_t kDirectoryEntry = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50;
constexpr uint32_t kLocator64 = 0x07064b50;
constexpr size_t kMemberHeaderBytes = 30;
constexpr size_t kDirectoryEntryBytes = 46;
constexpr size_t kEndBytes = 22;
constexpr size_t kEnd64Bytes = 56;
constexpr size_t kLocator64Bytes = 20;
constexpr uint64_t kMaxComment = 0xffff;
// A name and a few numbers for each member: a larger directory does not hold arrays.
constexpr uint64_t kMaxDirectory = 64 << 20;

constexpr uint16_t kEncrypted = 1;
constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;
// Deflate makes 258 bytes of 2 bits at best.
constexpr uint64_t kMostDeflated = 1032;
constexpr size_t kBuffer = 256 << 10;

// Little-endian, as all numbers here.
uint64_t Number(std::string_view bytes, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) {
    value |= uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return value;
}
uint16_t Number16(std::string_view b, size_t at) { return static_cast<uint16_t>(Number(b, at, 2)); }
uint32_t Number32(std::string_view b, size_t at) { return static_cast<uint32_t>(Number(b, at, 4)); }
uint64_t Number64(std::string_view b, size_t at) { return Number(b, at, 8); }

// The sizes and the offset that did not fit into 32 bits are in an extra part, in this order.
bool Widen(std::string_view extra, ZipFile::Member& member) {
  uint64_t* const wide[] = {&member.size, &member.stored, &member.offset};
  const auto open = [](const uint64_t* value) { return *value == 0xffffffff; };
  if (std::none_of(std::begin(wide), std::end(wide), open)) return true;
  while (extra.size() >= 4) {
    const uint16_t id = Number16(extra, 0);
    const size_t size = Number16(extra, 2);
    extra.remove_prefix(4);
    if (size > extra.size()) return false;
    std::string_view part = extra.substr(0, size);
    extra.remove_prefix(size);
    if (id != 1) continue;
    for (uint64_t* value : wide) {
      if (!open(value)) continue;
      if (part.size() < 8) return false;
      *value = Number64(part, 0);
      part.remove_prefix(8);
    }
    return true;
  }
  return false;
}

std::string ReadText(const InputFile& file, uint64_t offset, uint64_t bytes) {
  std::string text(static_cast<size_t>(bytes), '\0');
  file.Read(offset, text.data(), text.size());
  return text;
}

}  // namespace

void ZipFile::Bad(std::string_view what) const {
  Fail(Quoted(file_.path()), " is not a proper zip archive: ", what);
}

ZipFile::ZipFile(const std::string& path) : file_(path) {
  const uint64_t size = file_.size();
  if (size < kEndBytes) Bad("it is too short");
  const uint64_t begin = size - std::min(size, kEndBytes + kMaxComment);
  const std::string tail = ReadText(file_, begin, size - begin);
  // The last place where an end record fits with its comment.
  size_t at = tail.size() - kEndBytes + 1;
  bool found = false;
  while (!found && at-- > 0) {
    found = Number32(tail, at) == kEnd && at + kEndBytes + Number16(tail, at + 20) == tail.size();
  }
  if (!found) Bad("its end is missing");
  const std::string_view end = std::string_view(tail).substr(at);
  uint64_t count = Number16(end, 10);
  uint64_t bytes = Number32(end, 12);
  uint64_t offset = Number32(end, 16);
  uint64_t place = begin + at;
  if (place >= kLocator64Bytes) {
    const std::string locator = ReadText(file_, place - kLocator64Bytes, kLocator64Bytes);
    if (Number32(locator, 0) == kLocator64) {
      const uint64_t where = Number64(locator, 8);
      if (where > place || place - where < kEnd64Bytes + kLocator64Bytes) Bad("its end is damaged");
      const std::string wide = ReadText(file_, where, kEnd64Bytes);
      if (Number32(wide, 0) != kEnd64) Bad("its end is damaged");
      count = Number64(wide, 32);
      bytes = Number64(wide, 40);
      offset = Number64(wide, 48);
      place = where;
    }
  }
  if (bytes > place || offset > place - bytes) Bad("its directory lies outside of it");
  ReadDirectory(offset, bytes, count);
}

void ZipFile::ReadDirectory(uint64_t offset, uint64_t bytes, uint64_t count) {
  OPSTEP_CHECK(bytes <= kMaxDirectory, Quoted(file_.path()), " has a directory of ", bytes,
               " bytes; at most ", kMaxDirectory, " are read");
  const std::string text = ReadText(file_, offset, bytes);
  std::string_view directory = text;
  std::set<std::string, std::less<>> names;
  while (!directory.empty()) {
    members_.push_back(ParseMember(directory));
    if (!names.insert(members_.back().name).second) Bad("a member's name occurs twice");
  }
  if (members_.size() != count) Bad("its directory is damaged");
}

ZipFile::Member ZipFile::ParseMember(std::string_view& directory) const {
  if (directory.size() < kDirectoryEntryBytes || Number32(directory, 0) != kDirectoryEntry) {
    Bad("its directory is damaged");
  }
  Member member;
  member.flags = Number16(directory, 8);
  member.method = Number16(directory, 10);
  member.sum = Number32(directory, 16);
  member.stored = Number32(directory, 20);
  member.size = Number32(directory, 24);
  member.offset = Number32(directory, 42);
  const size_t name = Number16(directory, 28);
  const size_t extra = Number16(directory, 30);
  const size_t comment = Number16(directory, 32);
  const size_t bytes = kDirectoryEntryBytes + name + extra + comment;
  if (bytes > directory.size()) Bad("its directory is damaged");
  member.name = directory.substr(kDirectoryEntryBytes, name);
  if (!IsUtf8(member.name)) Bad("the name of a member is not UTF-8");
  if (!Widen(directory.substr(kDirectoryEntryBytes + name, extra), member)) {
    Bad("its directory is damaged");
  }
  directory.remove_prefix(bytes);
  return member;
}

const ZipFile::Member* ZipFile::Find(std::string_view name) const {
  const auto it = std::find_if(members_.begin(), members_.end(),
                               [&](const Member& member) { return member.name == name; });
  return it == members_.end() ? nullptr : &*it;
}

ZipReader::ZipReader(const ZipFile& zip, const ZipFile::Member& member)
    : file_(zip.file()),
      member_(member),
      what_(Cat("member ", Quoted(member.name), " of ", Quoted(file_.path()))) {
  const uint64_t size = file_.size();
  OPSTEP_CHECK((member.flags & kEncrypted) == 0, what_, " is encrypted, which opstep cannot read");
  OPSTEP_CHECK(member.method == kStored || member.method == kDeflated, what_,
               " is packed by method ", member.method, "; stored and deflated ones can be read");
  OPSTEP_CHECK(size >= kMemberHeaderBytes && member.offset <= size - kMemberHeaderBytes, what_,
               " lies outside of the file");
  const std::string header = ReadText(file_, member.offset, kMemberHeaderBytes);
  OPSTEP_CHECK(Number32(header, 0) == kMemberHeader, what_, " is damaged: it has no header");
  at_ = member.offset + kMemberHeaderBytes + Number16(header, 26) + Number16(header, 28);
  OPSTEP_CHECK(at_ <= size && member.stored <= size - at_, what_, " lies outside of the file");
  // A caller allocates memory for this size.
  const bool possible = member.method == kStored ? member.size == member.stored
                                                 : member.size / kMostDeflated <= member.stored;
  OPSTEP_CHECK(possible, what_, " cannot have ", member.size, " bytes in ", member.stored);
  left_ = member.stored;
  if (member.method == kDeflated) {
    buffer_.resize(static_cast<size_t>(std::min<uint64_t>(kBuffer, member.stored)));
    // Negative: without zlib's own header.
    OPSTEP_CHECK(inflateInit2(&stream_, -MAX_WBITS) == Z_OK, what_,
                 " cannot be unpacked: there is not enough memory");
    inflating_ = true;
  }
}

ZipReader::~ZipReader() {
  if (inflating_) inflateEnd(&stream_);
}

void ZipReader::Read(void* to, size_t bytes) {
  if (bytes == 0) return;
  OPSTEP_CHECK(bytes <= member_.size - done_, what_, " has no more bytes");
  if (inflating_) {
    Inflate(to, bytes);
  } else {
    file_.Read(at_, to, bytes);
    at_ += bytes;
  }
  sum_ = static_cast<uint32_t>(crc32_z(sum_, static_cast<const Bytef*>(to), bytes));
  done_ += bytes;
  OPSTEP_CHECK(done_ < member_.size || sum_ == member_.sum, what_,
               " is damaged: its checksum differs");
}

void ZipReader::Inflate(void* to, size_t bytes) {
  auto* next = static_cast<Bytef*>(to);
  while (bytes > 0) {
    if (stream_.avail_in == 0) {
      stream_.avail_in = static_cast<uInt>(Refill());
      stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
    }
    const auto part = static_cast<uInt>(std::min<size_t>(bytes, 1u << 30));
    stream_.next_out = next;
    stream_.avail_out = part;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    const size_t made = part - stream_.avail_out;
    next += made;
    bytes -= made;
    const bool good = result == Z_OK || (result == Z_STREAM_END && bytes == 0);
    OPSTEP_CHECK(good, what_, " is damaged: it cannot be unpacked");
  }
}

size_t ZipReader::Refill() {
  const auto bytes = static_cast<size_t>(std::min<uint64_t>(left_, buffer_.size()));
  file_.Read(at_, buffer_.data(), bytes);
  at_ += bytes;
  left_ -= bytes;
  return bytes;
}

}  // namespace opstep
