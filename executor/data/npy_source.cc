// NpySource: arrays of .npy and .npz files, one part at a time.
#include "data/npy_source.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/npy.h"
#include "data/zip_file.h"

namespace opstep {
namespace {

constexpr std::string_view kPacked = ".npz";
constexpr std::string_view kPlain = ".npy";

bool IsPacked(const std::string& path) { return path.ends_with(kPacked); }

std::string WithoutEnding(std::string name) {
  if (name.ends_with(kPlain)) name.resize(name.size() - kPlain.size());
  return name;
}

// "x" of "data/x.npy".
std::string Stem(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return WithoutEnding(slash == std::string::npos ? path : path.substr(slash + 1));
}

void CheckNames(const std::vector<std::string>& names) {
  std::set<std::string> seen;
  for (const std::string& name : names) {
    OPSTEP_CHECK(!name.empty(), "a field has an empty name");
    OPSTEP_CHECK(seen.insert(name).second, "the field ", Quoted(name), " occurs twice");
  }
}

std::vector<std::string> NamesOf(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  if (!IsPacked(paths[0])) {
    for (const std::string& path : paths) names.push_back(Stem(path));
    return names;
  }
  const ZipFile zip(paths[0]);
  for (const ZipFile::Member& member : zip.members()) {
    if (member.name.ends_with(kPlain)) names.push_back(WithoutEnding(member.name));
  }
  OPSTEP_CHECK(!names.empty(), Quoted(paths[0]), " holds no arrays");
  return names;
}

VarType ReadFile(const std::string& path, Tensor* array) {
  const NpyFile file(path);
  if (array != nullptr) {
    *array = Tensor::Allocate(file.type());
    file.Read(array->data);
  }
  return file.type();
}

VarType ReadMember(const ZipFile& zip, const std::string& name, Tensor* array) {
  const ZipFile::Member* member = zip.Find(name + std::string(kPlain));
  OPSTEP_CHECK(member != nullptr, Quoted(zip.file().path()), " holds no array ", Quoted(name));
  ZipReader reader(zip, *member);
  const auto next = [&](void* to, size_t bytes) { reader.Read(to, bytes); };
  const NpyHeader header = ReadNpyHeader(next, member->size, reader.what());
  if (array != nullptr) {
    *array = Tensor::Allocate(header.type);
    ReadNpyData(header, next, array->data, reader.what());
  }
  return header.type;
}

VarType RowOf(const VarType& type) {
  return {type.dtype, Dims(std::span<const int64_t>(type.dims.begin() + 1, type.dims.end()))};
}

}  // namespace

void NpySource::Check(const std::vector<std::string>& paths,
                      const std::vector<std::string>& names) {
  OPSTEP_CHECK(!paths.empty(), "paths is empty: name a file");
  CheckNames(names);
  const auto packed = std::count_if(paths.begin(), paths.end(), IsPacked);
  OPSTEP_CHECK(packed == 0 || packed == std::ssize(paths),
               "paths has both .npz and .npy files; make a reader for each kind");
  OPSTEP_CHECK(packed > 0 || names.empty() || paths.size() % names.size() == 0, "there are ",
               paths.size(), " files for ", names.size(),
               " fields; each field needs as many files as the others");
}

NpySource::NpySource(std::vector<std::string> paths, std::vector<std::string> names)
    : paths_((Check(paths, names), std::move(paths))), packed_(IsPacked(paths_[0])) {
  if (names.empty()) names = NamesOf(paths_);
  CheckNames(names);
  for (std::string& name : names) fields_.push_back({std::move(name), {}});
  const size_t parts = packed_ ? paths_.size() : paths_.size() / fields_.size();
  for (size_t part = 0; part < parts; ++part) AddPart(part);
}

std::string NpySource::PlaceOf(size_t part, size_t field) const {
  if (!packed_) return Quoted(paths_[part * fields_.size() + field]);
  return Cat(Quoted(fields_[field].name), " of ", Quoted(paths_[part]));
}

std::vector<VarType> NpySource::ReadPart(size_t part, std::vector<Tensor>* arrays) const {
  std::vector<VarType> types;
  std::optional<ZipFile> zip;
  if (packed_) zip.emplace(paths_[part]);
  if (arrays != nullptr) arrays->resize(fields_.size());
  for (size_t f = 0; f < fields_.size(); ++f) {
    Tensor* array = arrays == nullptr ? nullptr : &(*arrays)[f];
    types.push_back(zip ? ReadMember(*zip, fields_[f].name, array)
                        : ReadFile(paths_[part * fields_.size() + f], array));
  }
  return types;
}

void NpySource::AddPart(size_t part) {
  std::vector<VarType> types = ReadPart(part, nullptr);
  for (size_t f = 0; f < fields_.size(); ++f) {
    OPSTEP_CHECK(types[f].dims.rank() > 0, PlaceOf(part, f),
                 " is a single number, not one for each record");
    OPSTEP_CHECK(types[f].dims[0] == types[0].dims[0], PlaceOf(part, f), " has ", types[f].dims[0],
                 " rows but ", PlaceOf(part, 0), " has ", types[0].dims[0]);
    const VarType row = RowOf(types[f]);
    if (part == 0) fields_[f].type = row;
    OPSTEP_CHECK(row == fields_[f].type, PlaceOf(part, f), " has rows of ", row.ToString(), " but ",
                 PlaceOf(0, f), " has rows of ", fields_[f].type.ToString());
  }
  int64_t end = 0;
  OPSTEP_CHECK(!__builtin_add_overflow(first_.back(), types[0].dims[0], &end), PlaceOf(part, 0),
               " has too many rows");
  first_.push_back(end);
  types_.push_back(std::move(types));
}

void NpySource::Load(size_t part) {
  // First, so that two parts are not in memory at once.
  arrays_.clear();
  loaded_ = SIZE_MAX;
  std::vector<Tensor> arrays;
  const std::vector<VarType> types = ReadPart(part, &arrays);
  for (size_t f = 0; f < fields_.size(); ++f) {
    OPSTEP_CHECK(types[f] == types_[part][f], PlaceOf(part, f), " was ", types_[part][f].ToString(),
                 " when it was opened but is now ", types[f].ToString());
  }
  arrays_ = std::move(arrays);
  loaded_ = part;
}

void NpySource::Restart(uint64_t) { next_ = 0; }

bool NpySource::Next(SourceRecord& record) {
  if (next_ == size()) return false;
  // The last part that begins here or before; an empty one begins where the next one does.
  const auto after = std::upper_bound(first_.begin(), first_.end(), next_);
  const auto part = static_cast<size_t>(after - first_.begin()) - 1;
  if (part != loaded_) Load(part);
  const auto row = static_cast<size_t>(next_ - first_[part]);
  record.clear();
  for (size_t f = 0; f < fields_.size(); ++f) {
    Tensor& value = record.emplace_back(fields_[f].type);
    value.data = arrays_[f].as<char>() + row * value.bytes();
    value.owner = arrays_[f].owner;
  }
  ++next_;
  return true;
}

uint64_t NpySource::Skip(uint64_t count) {
  const uint64_t skipped = std::min(count, static_cast<uint64_t>(size() - next_));
  next_ += static_cast<int64_t>(skipped);
  return skipped;
}

}  // namespace opstep
