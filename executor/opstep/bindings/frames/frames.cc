// The names that Python's compiled code assigns.
#include "opstep/bindings/frames/frames.h"

#include <array>
#include <optional>
#include <string_view>

namespace opstep::python {
namespace {

// The effect of an instruction on names, by opcode.
enum class Does : uint8_t {
  kOther,
  kNothing,      // an inline cache
  kWiden,        // EXTENDED_ARG
  kCopy,         // the value stays, to be assigned again
  kUnpack,       // into the number of values given by its argument
  kStoreLocal,   // of a function, also one that it shares
  kStoreName,    // of a module or a class
  kStoreAttr,    // x.name, whose x was loaded before
  kStoreLocals,  // two locals
  kStoreLoad,    // a local, and then another one is loaded
  kLoadLocal,
  kLoadName,
  kLoadGlobal,
};

constexpr bool kLocalsByOneNumber = PY_VERSION_HEX >= 0x030b0000;
// The last bit of LOAD_GLOBAL's argument has another meaning.
constexpr bool kGlobalsByHalf = PY_VERSION_HEX >= 0x030b0000;

Does DoesWhat(std::string_view name) {
  if (name == "CACHE") return Does::kNothing;
  if (name == "EXTENDED_ARG") return Does::kWiden;
  if (name == "COPY" || name == "DUP_TOP") return Does::kCopy;
  if (name == "UNPACK_SEQUENCE") return Does::kUnpack;
  if (name == "STORE_FAST") return Does::kStoreLocal;
  if (name == "STORE_DEREF") return kLocalsByOneNumber ? Does::kStoreLocal : Does::kStoreLocals;
  if (name == "STORE_NAME" || name == "STORE_GLOBAL") return Does::kStoreName;
  if (name == "STORE_ATTR") return Does::kStoreAttr;
  if (name == "STORE_FAST_STORE_FAST") return Does::kStoreLocals;
  if (name == "STORE_FAST_LOAD_FAST") return Does::kStoreLoad;
  if (name == "LOAD_FAST" || name == "LOAD_FAST_CHECK") return Does::kLoadLocal;
  if (name == "LOAD_DEREF" && kLocalsByOneNumber) return Does::kLoadLocal;
  if (name == "LOAD_NAME") return Does::kLoadName;
  if (name == "LOAD_GLOBAL") return Does::kLoadGlobal;
  return Does::kOther;
}

const std::array<Does, 256>& Opcodes() {
  static const auto* opcodes = [] {
    auto* table = new std::array<Does, 256>{};
    for (const auto& [name, number] :
         py::module_::import("opcode").attr("opmap").cast<py::dict>()) {
      const auto at = number.cast<size_t>();
      if (at < table->size()) (*table)[at] = DoesWhat(name.cast<std::string>());
    }
    return table;
  }();
  return *opcodes;
}

bool Stores(Does what) {
  return what == Does::kStoreLocal || what == Does::kStoreName || what == Does::kStoreAttr ||
         what == Does::kStoreLocals || what == Does::kStoreLoad;
}

// Reads the instructions after a call.
class Reader {
 public:
  Reader(const Code& code, uint32_t place)
      : code_(code), bytes_(py::bytes(code.keep.attr("co_code"))), at_(place + 2) {}

  std::vector<std::string> Targets() {
    Read(1);
    return std::move(targets_);
  }

 private:
  // Assigns the value, or values, on top of the stack.
  void Read(uint32_t values) {
    while (values > 0 && Next()) {
      switch (does_) {
        case Does::kCopy:
          if (kLocalsByOneNumber && argument_ != 1) return;
          ++values;
          break;
        case Does::kUnpack:
          values += argument_ - 1;
          break;
        case Does::kStoreLocal:
          Add(Local(argument_));
          --values;
          break;
        case Does::kStoreName:
          Add(Name(argument_));
          --values;
          break;
        case Does::kStoreLocals:
          if (!kLocalsByOneNumber) return;  // A cell: see DoesWhat.
          Add(Local(argument_ >> 4));
          Add(Local(argument_ & 15));
          values -= std::min(values, 2u);
          break;
        case Does::kStoreLoad:
          Add(Local(argument_ >> 4));
          --values;
          object_ = Local(argument_ & 15);
          if (values > 0) Attribute(values);
          return;
        case Does::kLoadLocal:
          object_ = Local(argument_);
          if (!Attribute(values)) return;
          break;
        case Does::kLoadName:
          object_ = Name(argument_);
          if (!Attribute(values)) return;
          break;
        case Does::kLoadGlobal:
          object_ = Name(kGlobalsByHalf ? argument_ >> 1 : argument_);
          if (!Attribute(values)) return;
          break;
        default:
          return;
      }
    }
  }

  // object_.name = the value
  bool Attribute(uint32_t& values) {
    if (!Next() || does_ != Does::kStoreAttr) return false;
    Add(object_ + "." + Name(argument_));
    --values;
    return true;
  }

  bool Next() {
    argument_ = 0;
    for (; at_ + 1 < bytes_.size(); at_ += 2) {
      does_ = Opcodes()[static_cast<uint8_t>(bytes_[at_])];
      if (does_ == Does::kNothing) continue;
      argument_ = argument_ << 8 | static_cast<uint8_t>(bytes_[at_ + 1]);
      if (does_ == Does::kWiden) continue;
      at_ += 2;
      return true;
    }
    return false;
  }

  void Add(std::string name) {
    if (!name.empty()) targets_.push_back(std::move(name));
  }
  std::string Name(uint32_t index) const {
    return py::tuple(code_.keep.attr("co_names"))[index].cast<std::string>();
  }
  std::string Local(uint32_t index) const {
    if (kLocalsByOneNumber)
      return code_.keep.attr("_varname_from_oparg")(index).cast<std::string>();
    return py::tuple(code_.keep.attr("co_varnames"))[index].cast<std::string>();
  }

  const Code& code_;
  const std::string bytes_;
  size_t at_;
  Does does_ = Does::kOther;
  uint32_t argument_ = 0;
  std::string object_;
  std::vector<std::string> targets_;
};

// Unless it cannot be typed: the parts of comprehensions have names such as `.0`.
void AddText(py::handle name, std::vector<std::string>& names) {
  if (!PyUnicode_Check(name.ptr()) || !PyUnicode_IsIdentifier(name.ptr())) return;
  if (const char* text = PyUnicode_AsUTF8(name.ptr())) return names.emplace_back(text), void();
  PyErr_Clear();
}

}  // namespace

const std::vector<std::string>& LocalNames(const Code& code) {
  if (code.local_names) return *code.local_names;
  std::vector<std::string> names;
  if (code.keep.attr("co_flags").cast<int>() & CO_OPTIMIZED) {
    for (const char* part : {"co_varnames", "co_cellvars", "co_freevars"}) {
      for (const py::handle name : code.keep.attr(part)) AddText(name, names);
    }
  }
  return *(code.local_names = std::move(names));
}

const std::vector<std::string>& GlobalNames(const Code& code) {
  if (code.global_names) return *code.global_names;
  std::vector<std::string> names;
  const std::string bytes = py::bytes(code.keep.attr("co_code"));
  const py::tuple all = code.keep.attr("co_names");
  std::vector<bool> taken(all.size());
  uint32_t argument = 0;
  for (size_t at = 0; at + 1 < bytes.size(); at += 2) {
    const Does does = Opcodes()[static_cast<uint8_t>(bytes[at])];
    argument = argument << 8 | static_cast<uint8_t>(bytes[at + 1]);
    if (does == Does::kWiden) continue;
    uint32_t index = UINT32_MAX;
    if (does == Does::kLoadName || does == Does::kStoreName) index = argument;
    if (does == Does::kLoadGlobal) index = kGlobalsByHalf ? argument >> 1 : argument;
    if (index < taken.size() && !taken[index]) {
      taken[index] = true;
      AddText(all[index], names);
    }
    argument = 0;
  }
  return *(code.global_names = std::move(names));
}

bool StoresGlobals(const Code& code) {
  if (!code.stores_globals) {
    const std::string bytes = py::bytes(code.keep.attr("co_code"));
    const bool function = (code.keep.attr("co_flags").cast<int>() & CO_OPTIMIZED) != 0;
    code.stores_globals = false;
    for (size_t at = 0; function && at + 1 < bytes.size(); at += 2) {
      if (Opcodes()[static_cast<uint8_t>(bytes[at])] == Does::kStoreName)
        code.stores_globals = true;
    }
  }
  return *code.stores_globals;
}

bool Assigns(const Code& code, uint32_t from, uint32_t to) {
  if (code.stores.empty()) {
    const std::string bytes = py::bytes(code.keep.attr("co_code"));
    uint32_t count = 0;
    for (size_t at = 0; at + 1 < bytes.size(); at += 2) {
      code.stores.push_back(count);
      count += Stores(Opcodes()[static_cast<uint8_t>(bytes[at])]);
    }
    code.stores.push_back(count);
  }
  const size_t last = code.stores.size() - 1;
  return code.stores[std::min<size_t>(from / 2, last)] !=
         code.stores[std::min<size_t>(to / 2, last)];
}

const std::vector<std::string>& TargetsOf(const Code& code, uint32_t place) {
  const auto [it, added] = code.targets.try_emplace(place);
  if (!added) return it->second;
  try {
    it->second = Reader(code, place).Targets();
  } catch (const py::error_already_set&) {
    // Code that another version of Python would write.
  }
  return it->second;
}

}  // namespace opstep::python
