#pragma once

#include <cctype>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "debug.pb.h"

// The language's text to its message, for tests: what the debug server does with Python's parser.
class ExpressionText {
 public:
  using Expr = opstep::proto::Expr;

  static Expr Parse(const std::string& text) {
    ExpressionText parser(text);
    Expr e = parser.Or();
    if (!parser.token_.empty())
      throw std::logic_error("cannot parse " + text + " at " + parser.token_);
    return e;
  }

 private:
  explicit ExpressionText(const std::string& text) : text_(text) { Advance(); }

  void Advance() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    const size_t start = at_;
    token_.clear();
    if (at_ == text_.size()) return;
    const auto peek = [&](size_t k) { return at_ + k < text_.size() ? text_[at_ + k] : '\0'; };
    const auto word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    };
    if (text_.compare(at_, 3, "...") == 0) {
      at_ += 3;
    } else if (std::isdigit(static_cast<unsigned char>(peek(0)))) {
      while (word(peek(0)) || peek(0) == '.' || (peek(0) == '-' && text_[at_ - 1] == 'e')) ++at_;
    } else if (word(peek(0))) {
      while (word(peek(0))) ++at_;
    } else if (peek(0) == '"') {
      at_ = text_.find('"', at_ + 1) + 1;
    } else {
      for (const char* two : {"**", "//", "==", "!=", "<=", ">="}) {
        if (text_.compare(at_, 2, two) == 0) at_ += 1;
      }
      at_ += 1;
    }
    token_ = text_.substr(start, at_ - start);
  }

  bool Accept(const std::string& token) {
    if (token_ != token) return false;
    Advance();
    return true;
  }
  void Expect(const std::string& token) {
    if (!Accept(token)) throw std::logic_error("expected " + token + " in " + text_);
  }

  Expr Logic(bool is_or, Expr (ExpressionText::*next)()) {
    Expr first = (this->*next)();
    const std::string word = is_or ? "or" : "and";
    if (token_ != word) return first;
    Expr e;
    e.mutable_logic()->set_is_or(is_or);
    *e.mutable_logic()->add_values() = first;
    while (Accept(word)) *e.mutable_logic()->add_values() = (this->*next)();
    return e;
  }
  Expr Or() { return Logic(true, &ExpressionText::And); }
  Expr And() { return Logic(false, &ExpressionText::Not); }

  Expr MakeUnary(Expr::Unary::Op op, Expr value) {
    Expr e;
    e.mutable_unary()->set_op(op);
    *e.mutable_unary()->mutable_value() = std::move(value);
    return e;
  }
  Expr Not() { return Accept("not") ? MakeUnary(Expr::Unary::NOT, Not()) : Compare(); }

  Expr Compare() {
    Expr first = Operators(0);
    Expr e;
    static const std::vector<std::string> kOps = {"==", "!=", "<", "<=", ">", ">="};
    for (;;) {
      size_t i = 0;
      while (i < kOps.size() && token_ != kOps[i]) ++i;
      if (i == kOps.size()) break;
      Advance();
      e.mutable_compare()->add_ops(static_cast<Expr::Compare::Op>(i));
      *e.mutable_compare()->add_rest() = Operators(0);
    }
    if (!e.has_compare()) return first;
    *e.mutable_compare()->mutable_first() = std::move(first);
    return e;
  }

  Expr Operators(size_t level) {
    using B = Expr::Binary;
    static const std::vector<std::vector<std::pair<std::string, B::Op>>> kLevels = {
        {{"|", B::OR}},
        {{"^", B::XOR}},
        {{"&", B::AND}},
        {{"+", B::ADD}, {"-", B::SUBTRACT}},
        {{"*", B::MULTIPLY},
         {"/", B::DIVIDE},
         {"//", B::FLOOR_DIVIDE},
         {"%", B::MODULO},
         {"@", B::MATMUL}}};
    if (level == kLevels.size()) return Sign();
    Expr left = Operators(level + 1);
    for (bool more = true; more;) {
      more = false;
      for (const auto& [symbol, op] : kLevels[level]) {
        if (!Accept(symbol)) continue;
        left = MakeBinary(op, std::move(left), Operators(level + 1));
        more = true;
        break;
      }
    }
    return left;
  }
  Expr MakeBinary(Expr::Binary::Op op, Expr left, Expr right) {
    Expr e;
    e.mutable_binary()->set_op(op);
    *e.mutable_binary()->mutable_left() = std::move(left);
    *e.mutable_binary()->mutable_right() = std::move(right);
    return e;
  }

  Expr Sign() {
    if (Accept("-")) return MakeUnary(Expr::Unary::NEGATE, Sign());
    if (Accept("+")) return MakeUnary(Expr::Unary::PLUS, Sign());
    if (Accept("~")) return MakeUnary(Expr::Unary::INVERT, Sign());
    Expr base = Postfix();
    return Accept("**") ? MakeBinary(Expr::Binary::POWER, std::move(base), Sign()) : base;
  }

  void Arguments(Expr::Call* call) {
    while (!Accept(")")) {
      Expr e = Or();
      if (Accept("=")) {
        call->add_keywords()->set_name(e.name());
        *call->mutable_keywords(call->keywords_size() - 1)->mutable_value() = Or();
      } else {
        *call->add_args() = std::move(e);
      }
      if (token_ != ")") Expect(",");
    }
  }

  void OneSubscript(Expr::Subscript* s) {
    if (Accept("...")) return s->set_ellipsis(true);
    Expr start;
    if (token_ != ":") start = Or();
    if (token_ != ":") {
      *s->mutable_index() = std::move(start);
      return;
    }
    auto* range = s->mutable_range();
    if (start.node_case() != Expr::NODE_NOT_SET) *range->mutable_start() = std::move(start);
    Expect(":");
    const auto bound = [&] { return token_ != ":" && token_ != "]" && token_ != ","; };
    if (bound()) *range->mutable_stop() = Or();
    if (Accept(":") && bound()) *range->mutable_step() = Or();
  }

  Expr Postfix() {
    Expr value = Atom();
    for (;;) {
      Expr e;
      if (Accept(".")) {
        const std::string name = token_;
        Advance();
        if (Accept("(")) {
          e.mutable_call()->set_function(name);
          *e.mutable_call()->add_args() = std::move(value);
          Arguments(e.mutable_call());
        } else {
          e.mutable_attribute()->set_name(name);
          *e.mutable_attribute()->mutable_value() = std::move(value);
        }
      } else if (token_ == "(" && value.node_case() == Expr::kName) {
        Advance();
        e.mutable_call()->set_function(value.name());
        Arguments(e.mutable_call());
      } else if (Accept("[")) {
        *e.mutable_index()->mutable_value() = std::move(value);
        do {
          OneSubscript(e.mutable_index()->add_subscripts());
        } while (Accept(","));
        Expect("]");
      } else {
        return value;
      }
      value = std::move(e);
    }
  }

  Expr Sequence(const std::string& close) {
    Expr e;
    e.mutable_list();
    bool comma = false;
    while (!Accept(close)) {
      *e.mutable_list()->add_values() = Or();
      comma = Accept(",");
    }
    // (x) is x; (x,) is a tuple.
    if (close == ")" && e.list().values_size() == 1 && !comma) return Expr(e.list().values(0));
    return e;
  }

  Expr Atom() {
    if (Accept("(")) return Sequence(")");
    if (Accept("[")) return Sequence("]");
    const std::string token = token_;
    Advance();
    Expr e;
    if (token.empty()) throw std::logic_error("unexpected end of " + text_);
    if (token[0] == '"') {
      e.set_s(token.substr(1, token.size() - 2));
    } else if (std::isdigit(static_cast<unsigned char>(token[0]))) {
      if (token.find_first_of(".e") == std::string::npos) {
        e.set_i(std::strtoll(token.c_str(), nullptr, 10));
      } else {
        e.set_f(std::strtod(token.c_str(), nullptr));
      }
    } else if (token == "True" || token == "False") {
      e.set_b(token == "True");
    } else {
      e.set_name(token);
    }
    return e;
  }

  std::string text_, token_;
  size_t at_ = 0;
};
