// Schemas: finding slots and attributes; the nearest name.
#include "ir/schema.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace opstep {
namespace {

constexpr size_t kLongestName = 300;

template <typename T>
const T* FindNamed(const std::vector<T>& items, std::string_view name) {
  for (const T& item : items) {
    if (item.name == name) return &item;
  }
  return nullptr;
}

// Letters to insert, remove, change or swap with their neighbour: "rleu" is 1 from "relu".
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last, row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, change});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

bool BeginAlike(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return !a.empty() && !b.empty() && lower(a[0]) == lower(b[0]);
}

}  // namespace

const SlotSchema* OpSchema::FindInput(std::string_view name) const {
  return FindNamed(inputs, name);
}
const SlotSchema* OpSchema::FindOutput(std::string_view name) const {
  return FindNamed(outputs, name);
}
const AttrSchema* OpSchema::FindAttr(std::string_view name) const { return FindNamed(attrs, name); }

std::optional<AttrType> TypeOf(const proto::Attr& attr) {
  switch (attr.value_case()) {
    case proto::Attr::kB:
      return AttrType::kBool;
    case proto::Attr::kI:
      return AttrType::kInt;
    case proto::Attr::kF:
      return AttrType::kFloat;
    case proto::Attr::kS:
      return AttrType::kString;
    case proto::Attr::kInts:
      return AttrType::kInts;
    case proto::Attr::kFloats:
      return AttrType::kFloats;
    case proto::Attr::kStrings:
      return AttrType::kStrings;
    case proto::Attr::kDtype:
      return AttrType::kDType;
    case proto::Attr::kBlock:
      return AttrType::kBlock;
    case proto::Attr::kBlocks:
      return AttrType::kBlocks;
    case proto::Attr::kTensor:
      return AttrType::kTensor;
    case proto::Attr::VALUE_NOT_SET:
      return std::nullopt;
  }
  return std::nullopt;
}

std::string_view NameOf(AttrType type) {
  switch (type) {
    case AttrType::kBool:
      return "bool";
    case AttrType::kInt:
      return "int";
    case AttrType::kFloat:
      return "float";
    case AttrType::kString:
      return "string";
    case AttrType::kInts:
      return "ints";
    case AttrType::kFloats:
      return "floats";
    case AttrType::kStrings:
      return "strings";
    case AttrType::kDType:
      return "dtype";
    case AttrType::kBlock:
      return "block";
    case AttrType::kBlocks:
      return "blocks";
    case AttrType::kTensor:
      return "tensor";
  }
  return "?";
}

std::string Nearest(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  // Nobody typed such a long name, and comparing it would take long.
  if (name.size() > kLongestName) return best;
  // Names further away than a third of their length are no help.
  size_t best_distance = std::max<size_t>(name.size() / 3, 1) + 1;
  for (const std::string& candidate : candidates) {
    // Any letter is one step away from any other.
    if (name.size() == 1 && !BeginAlike(name, candidate)) continue;
    const size_t distance = EditDistance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace opstep
