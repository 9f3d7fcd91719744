// OpSchema: the slots and attributes of an op type, as plain data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "program.pb.h"

namespace opstep {

// The slots and attributes of an op type: plain data, filled in by the op's own file.

struct SlotSchema {
  std::string name;
  std::string doc;
  DTypeSet dtypes;
  bool optional = false;
  // Any number of variables.
  bool variadic = false;
  // Input: only its shape is read, so its memory may already be released.
  bool shape_only = false;
  // Output: the input slot whose memory it may take over (element i depends on element i only).
  std::string inplace_of;
  // … and passes its elements on unchanged, when the number of elements is the same.
  bool unchanged = false;
  // The attribute with the block whose variables these are, for an op that hands values to its
  // block (outputs) and takes results from it (inputs); empty: of the op's own block.
  std::string of_block;
  // Input: outer variables that the op's blocks read or write. Output: those that they write.
  // Filled in when the op is made.
  bool captures = false;
  // The kind of variable that it takes.
  proto::VarKind kind = proto::TENSOR;
};

enum class AttrType {
  kBool,
  kInt,
  kFloat,
  kString,
  kInts,
  kFloats,
  kStrings,
  kDType,
  kBlock,
  kBlocks,
  kTensor
};

struct AttrSchema {
  std::string name;
  AttrType type;
  std::string doc;
  // No default: the attribute must be given.
  std::optional<proto::Attr> default_value;
};

struct OpSchema {
  std::string type;
  std::string doc;
  std::vector<SlotSchema> inputs;
  std::vector<SlotSchema> outputs;
  std::vector<AttrSchema> attrs;

  const SlotSchema* FindInput(std::string_view name) const;
  const SlotSchema* FindOutput(std::string_view name) const;
  const AttrSchema* FindAttr(std::string_view name) const;
};

// The type of an attribute's value; empty for an empty value.
std::optional<AttrType> TypeOf(const proto::Attr& attr);
std::string_view NameOf(AttrType type);

// How `verify` learns about op types without knowing the ops: nullptr for an unknown type.
using SchemaLookup = const OpSchema* (*)(std::string_view type);

// The candidate nearest to `name`, or "" when none is near.
std::string Nearest(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace opstep
