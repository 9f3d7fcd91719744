// Safetensors files: checking the header, reading and writing tensors.
#include "base/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <utility>

#include "base/file_tensor.h"
#include "base/json.h"

namespace opstep {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie");

constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;
constexpr std::string_view kMetadata = "__metadata__";
// In the order of DType.
constexpr std::array<std::string_view, 11> kNames = {"",    "F32", "F64", "F16", "BF16", "I8",
                                                     "I16", "I32", "I64", "U8",  "BOOL"};

DType DTypeOfName(const std::string& name, const std::string& what) {
  const auto* found = std::find(kNames.begin() + 1, kNames.end(), name);
  OPSTEP_CHECK(found != kNames.end(), what, " has dtype ", Quoted(name),
               ", which opstep does not know");
  return static_cast<DType>(found - kNames.begin());
}

// {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
SafetensorsFile::Entry ReadEntry(JsonReader& json, const std::string& what) {
  SafetensorsFile::Entry entry;
  int seen = 0;
  int64_t end = 0;
  json.Need('{');
  for (bool first = true; json.More(first, '}');) {
    const std::string key = json.String();
    json.Need(':');
    const int bit = key == "dtype" ? 1 : key == "shape" ? 2 : key == "data_offsets" ? 4 : 0;
    OPSTEP_CHECK(bit != 0, what, " has the unknown field ", Quoted(key));
    OPSTEP_CHECK((seen & bit) == 0, what, " has the field ", Quoted(key), " twice");
    seen |= bit;
    if (bit == 1) {
      entry.type.dtype = DTypeOfName(json.String(), what);
    } else if (bit == 2) {
      json.Need('[');
      for (bool first_size = true; json.More(first_size, ']');) {
        OPSTEP_CHECK(entry.type.dims.rank() < Dims::kMaxRank, what, " has more than ",
                     Dims::kMaxRank, " dimensions");
        entry.type.dims.push_back(json.Natural());
      }
    } else {
      json.Need('[');
      entry.begin = static_cast<uint64_t>(json.Natural());
      json.Need(',');
      end = json.Natural();
      json.Need(']');
    }
  }
  OPSTEP_CHECK(seen == 7, what, " has no ",
               (seen & 1) == 0   ? "dtype"
               : (seen & 2) == 0 ? "shape"
                                 : "data_offsets");
  entry.bytes = CheckedBytes(entry.type, what);
  OPSTEP_CHECK(static_cast<uint64_t>(end) >= entry.begin &&
                   static_cast<uint64_t>(end) - entry.begin == entry.bytes,
               what, " is ", entry.type.ToString(), " and needs ", entry.bytes,
               " bytes, but its place is from ", entry.begin, " to ", end);
  return entry;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  const std::string name = Quoted(path);
  OPSTEP_CHECK(file_.size() >= 8, name, " is too short to be a safetensors file");
  uint64_t length = 0;
  file_.Read(0, &length, sizeof(length));
  OPSTEP_CHECK(length <= kMaxSafetensorsHeader && length >= 2, name,
               " is not a safetensors file: its header would have ", length, " bytes");
  OPSTEP_CHECK(length <= file_.size() - 8, name, " is not whole: its header is cut");
  std::string header(static_cast<size_t>(length), '\0');
  file_.Read(8, header.data(), header.size());
  OPSTEP_CHECK(header[0] == '{', name, " is not a safetensors file: its header is not JSON");
  ParseHeader(header);
  CheckPlaces(file_.size() - 8 - length);
  for (auto& [key, entry] : entries_) entry.begin += 8 + length;
}

void SafetensorsFile::ParseHeader(const std::string& header) {
  JsonReader json(header, Quoted(path()) + " has a bad header");
  json.Need('{');
  bool has_metadata = false;
  for (bool first = true; json.More(first, '}');) {
    const std::string name = json.String();
    const std::string what = Cat(Quoted(path()), ": tensor ", Quoted(name));
    json.Need(':');
    bool added = true;
    if (name == kMetadata) {
      added = !std::exchange(has_metadata, true);
      json.Need('{');
      for (bool first_pair = true; json.More(first_pair, '}');) {
        json.String();
        json.Need(':');
        json.String();
      }
    } else {
      added = entries_.emplace(name, ReadEntry(json, what)).second;
    }
    OPSTEP_CHECK(added, what, " occurs twice");
  }
  json.End();
}

// One after the other, no bytes shared and none left out.
void SafetensorsFile::CheckPlaces(uint64_t data_bytes) const {
  std::vector<std::pair<const Entry*, const std::string*>> order;
  for (const auto& [name, entry] : entries_) order.emplace_back(&entry, &name);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first->begin, a.first->bytes) < std::pair(b.first->begin, b.first->bytes);
  });
  uint64_t end = 0;
  for (const auto& [entry, name] : order) {
    OPSTEP_CHECK(entry->begin == end, Quoted(path()), ": tensor ", Quoted(*name),
                 entry->begin < end ? " overlaps the one before it" : " leaves a hole before it");
    end += entry->bytes;  // at most data_bytes
    OPSTEP_CHECK(end <= data_bytes, Quoted(path()), " is not whole: tensor ", Quoted(*name),
                 " ends at byte ", end, " but there are ", data_bytes);
  }
  OPSTEP_CHECK(end == data_bytes, Quoted(path()), " has ", data_bytes - end,
               " bytes that belong to no tensor");
}

const SafetensorsFile::Entry& SafetensorsFile::Get(const std::string& name) const {
  const auto found = entries_.find(name);
  OPSTEP_CHECK(found != entries_.end(), Quoted(path()), " has no tensor ", Quoted(name));
  return found->second;
}

void SafetensorsFile::Read(const Entry& entry, void* to) const {
  file_.Read(entry.begin, to, static_cast<size_t>(entry.bytes));
  CheckBools(entry.type.dtype, to, static_cast<size_t>(entry.bytes), Quoted(path()));
}

void WriteSafetensors(const std::string& path, std::vector<NamedTensor> tensors, bool overwrite) {
  // Wide elements first: so all are aligned when the file is mapped.
  std::sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) {
    const size_t x = SizeOf(a.tensor.dtype), y = SizeOf(b.tensor.dtype);
    return x != y ? x > y : a.name < b.name;
  });
  std::string header = "{";
  uint64_t end = 0;
  std::set<std::string_view> names;
  for (const NamedTensor& item : tensors) {
    OPSTEP_CHECK(names.insert(item.name).second, "cannot write ", Quoted(path),
                 ": two tensors are called ", Quoted(item.name));
    OPSTEP_CHECK(item.name != kMetadata, "cannot write ", Quoted(path),
                 ": no tensor can be called ", kMetadata);
    if (header.size() > 1) header += ',';
    header += JsonString(item.name) + ":{\"dtype\":\"";
    header += kNames[static_cast<size_t>(item.tensor.dtype)];
    header += "\",\"shape\":[";
    for (int i = 0; i < item.tensor.dims.rank(); ++i)
      header += Cat(i > 0 ? "," : "", item.tensor.dims[i]);
    header += Cat("],\"data_offsets\":[", end, ",", end + item.tensor.bytes(), "]}");
    end += item.tensor.bytes();
  }
  header += '}';
  header.append((8 - header.size() % 8) % 8, ' ');
  OutputFile file(path, overwrite);
  const uint64_t length = header.size();
  file.Write(&length, sizeof(length));
  file.Write(header);
  for (const NamedTensor& item : tensors) file.Write(item.tensor.data, item.tensor.bytes());
  file.Commit();
}

}  // namespace opstep
