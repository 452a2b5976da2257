#include "tile/ir/parse.h"

#include <limits>

#include "tile/ir/lexer.h"

namespace tessera::tile::ir {

namespace {

constexpr int kMaxNesting = 40;
constexpr std::size_t kMaxTerms = 64;
constexpr std::int64_t kMaxFactor = std::int64_t{1} << 31;
constexpr std::int64_t kMaxNumber = std::int64_t{1} << 60;

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) {}

  Kernel kernel() {
    Kernel kernel;
    lexer_.expect("kernel");
    kernel.name = lexer_.expect_name("the kernel's name");
    lexer_.expect("{");
    while (declaration(kernel)) {
    }
    kernel.body = block_rest();
    if (lexer_.peek().kind != Token::Kind::kEnd) lexer_.fail("the end");
    return kernel;
  }

 private:
  // Counts nesting for as long as it lives.
  struct Nested {
    explicit Nested(Parser& parser) : depth(parser.depth_) {
      if (++depth > kMaxNesting) parser.lexer_.fail("less nesting");
    }
    ~Nested() { --depth; }
    int& depth;
  };

  bool declaration(Kernel& kernel) {
    if (lexer_.accept("symbol")) {
      Symbol symbol;
      symbol.name = lexer_.expect_name("a symbol's name");
      lexer_.expect("in");
      symbol.low = lexer_.expect_integer("the lowest value");
      lexer_.expect("..");
      if (!lexer_.accept("*")) symbol.high = lexer_.expect_integer("the highest value or *");
      kernel.symbols.push_back(symbol);
      return true;
    }
    for (MemoryKind kind : {MemoryKind::kIn, MemoryKind::kOut, MemoryKind::kInOut,
                            MemoryKind::kLocal, MemoryKind::kScratch, MemoryKind::kTemp}) {
      if (!lexer_.accept(to_string(kind))) continue;
      Memory memory;
      memory.kind = kind;
      memory.name = lexer_.expect_name("a tensor's name");
      lexer_.expect(":");
      memory.element = element();
      memory.panels = lexer_.accept("panels");
      memory.dims = indices();
      if (lexer_.accept("strides")) memory.strides = indices();
      if (lexer_.accept("at")) {
        memory.placed = true;
        memory.offset = sum();
      }
      memory.location = location();
      kernel.memories.push_back(std::move(memory));
      return true;
    }
    if (lexer_.accept("limit")) {
      Limit limit;
      limit.memory = lexer_.expect_name("a tensor's name");
      lexer_.expect("<");
      limit.limit = sum();
      kernel.limits.push_back(std::move(limit));
      return true;
    }
    if (lexer_.accept("option")) {
      Option option;
      option.name = lexer_.expect_name("an option's name");
      lexer_.expect("=");
      option.values = integers();
      kernel.options.push_back(std::move(option));
      return true;
    }
    return false;
  }

  Element element() {
    const std::optional<Element> element = lexer_.peek().kind == Token::Kind::kName
                                               ? element_from_string(lexer_.peek().text)
                                               : std::nullopt;
    if (!element) lexer_.fail("an element type");
    lexer_.take();
    return *element;
  }

  Location location() {
    Location location;
    if (!lexer_.accept("loc")) return location;
    if (lexer_.peek().kind != Token::Kind::kString) lexer_.fail("a file name in quotes");
    location.file = std::string(lexer_.take().text);
    lexer_.expect(":");
    const std::int64_t line = lexer_.expect_integer("a line number");
    if (line > std::numeric_limits<int>::max()) lexer_.fail("a line number");
    location.line = static_cast<int>(line);
    return location;
  }

  std::int64_t integer() {
    const bool negative = lexer_.accept("-");
    const std::int64_t value = lexer_.expect_integer("an integer");
    if (value > kMaxNumber) lexer_.fail("a smaller number");
    return negative ? -value : value;
  }

  std::vector<std::int64_t> integers() {
    std::vector<std::int64_t> values;
    lexer_.expect("[");
    while (!lexer_.accept("]")) {
      if (!values.empty()) lexer_.expect(",");
      values.push_back(integer());
    }
    return values;
  }

  std::vector<IndexExpr> indices() {
    std::vector<IndexExpr> values;
    lexer_.expect("[");
    while (!lexer_.accept("]")) {
      if (!values.empty()) lexer_.expect(",");
      values.push_back(sum());
    }
    return values;
  }

  IndexExpr checked(IndexExpr value, std::int64_t limit) {
    bool fits = value.terms().size() <= kMaxTerms && -limit <= value.constant() &&
                value.constant() <= limit;
    for (const IndexExpr::Term& term : value.terms()) {
      fits = fits && -limit <= term.coefficient && term.coefficient <= limit;
    }
    if (!fits) lexer_.fail("a smaller expression");
    return value;
  }

  IndexExpr sum() {
    const Nested nested(*this);
    IndexExpr value = lexer_.accept("-") ? IndexExpr(0) - product() : product();
    for (;;) {
      if (lexer_.accept("+")) {
        value = checked(value + product(), kMaxNumber);
      } else if (lexer_.accept("-")) {
        value = checked(value - product(), kMaxNumber);
      } else {
        return value;
      }
    }
  }

  IndexExpr product() {
    IndexExpr value = factor();
    while (lexer_.accept("*")) {
      value = checked(checked(value, kMaxFactor) * checked(factor(), kMaxFactor), kMaxNumber);
    }
    return value;
  }

  IndexExpr factor() {
    if (lexer_.peek().kind == Token::Kind::kNumber) {
      const std::int64_t value = lexer_.expect_integer("an integer");
      if (value > kMaxNumber) lexer_.fail("a smaller number");
      return value;
    }
    if (lexer_.accept("(")) {
      IndexExpr value = sum();
      lexer_.expect(")");
      return value;
    }
    const std::string name = lexer_.expect_name("an index");
    if (lexer_.at("[")) return checked(IndexExpr::element(name, indices()), kMaxNumber);
    if (!lexer_.accept("(")) return IndexExpr::name(name);
    Atom::Kind kind = Atom::Kind::kProduct;
    if (name == "div") {
      kind = Atom::Kind::kDiv;
    } else if (name == "mod") {
      kind = Atom::Kind::kMod;
    } else if (name == "min") {
      kind = Atom::Kind::kMin;
    } else if (name == "max") {
      kind = Atom::Kind::kMax;
    } else if (name != "mul") {
      lexer_.fail("div, mod, min, max or mul before \"(\"");
    }
    const IndexExpr a = checked(sum(), kMaxFactor);
    lexer_.expect(",");
    const IndexExpr b = checked(sum(), kMaxFactor);
    lexer_.expect(")");
    const bool divides = kind == Atom::Kind::kDiv || kind == Atom::Kind::kMod;
    if (divides && b.is_constant() && b.constant() <= 0) lexer_.fail("a positive divisor");
    return checked(IndexExpr::of(kind, a, b), kMaxNumber);
  }

  Type type() {
    Type type;
    const Element of = element();
    type = Type::full(of, lexer_.at("[") ? integers() : std::vector<std::int64_t>());
    for (std::int64_t extent : type.shape) {
      if (extent < 0) lexer_.fail("a shape without negative extents");
    }
    if (lexer_.accept("valid")) {
      type.valid = indices();
      if (type.valid.size() != type.shape.size()) lexer_.fail("a valid shape of the tile's rank");
    }
    return type;
  }

  std::vector<Var> vars() {
    std::vector<Var> vars;
    lexer_.expect("(");
    bool reduces = false;
    bool first = true;
    while (!lexer_.accept(")")) {
      if (!reduces && lexer_.accept(";")) {
        reduces = true;
      } else if (!first) {
        lexer_.expect(",");
      }
      Var var;
      var.name = lexer_.expect_name("a variable");
      lexer_.expect("<");
      var.extent = sum();
      var.reduces = reduces;
      vars.push_back(std::move(var));
      first = false;
    }
    return vars;
  }

  double number() {
    const bool negative = lexer_.accept("-");
    double value = 0;
    if (lexer_.accept("inf")) {
      value = std::numeric_limits<double>::infinity();
    } else if (lexer_.accept("nan")) {
      value = std::numeric_limits<double>::quiet_NaN();
    } else if (lexer_.peek().kind == Token::Kind::kNumber) {
      value = lexer_.take().number;
    } else {
      lexer_.fail("a number");
    }
    return negative ? -value : value;
  }

  // The rest of a block whose brace is open.
  Block block_rest() {
    const Nested nested(*this);
    Block block;
    while (!lexer_.accept("}")) block.push_back(op());
    return block;
  }

  Op op() {
    Op op;
    if (lexer_.peek().kind == Token::Kind::kValue) {
      op.result = static_cast<int>(lexer_.take().integer);
      lexer_.expect("=");
    }
    const KindInfo* kind =
        lexer_.peek().kind == Token::Kind::kName ? find_kind(lexer_.peek().text) : nullptr;
    if (kind == nullptr) lexer_.fail("an operation");
    if (kind->result != (op.result >= 0)) {
      lexer_.fail(kind->result ? "an operation without a result" : "an operation with a result");
    }
    lexer_.take();
    op.kind = kind->kind;
    while (lexer_.peek().kind == Token::Kind::kValue) {
      op.operands.push_back(static_cast<int>(lexer_.take().integer));
      if (!lexer_.accept(",")) break;
    }
    const std::size_t wanted =
        kind->operands < 0 ? op.operands.size() : static_cast<std::size_t>(kind->operands);
    if (op.operands.size() != wanted || (kind->operands < 0 && wanted == 0)) {
      lexer_.fail("another number of operands");
    }
    if (kind->memory) op.memory = lexer_.expect_name("a tensor");
    const bool optional = op.kind == Kind::kContract;  // has columns once they are shared out
    if (kind->index && (!optional || lexer_.at("["))) op.index = indices();
    if (op.kind == Kind::kConst) op.number = number();
    if (kind->vars != 0) op.vars = vars();
    if (kind->vars == 1 && op.vars.size() != 1) lexer_.fail("exactly one variable");
    if (!kind->ints.empty() && lexer_.accept(kind->ints)) op.ints = integers();
    if (kind->result) {
      lexer_.expect(":");
      op.type = type();
    }
    op.location = location();
    const std::size_t blocks =
        kind->blocks < 0 ? op.ints.size() : static_cast<std::size_t>(kind->blocks);
    for (std::size_t i = 0; i < blocks; ++i) {
      lexer_.expect("{");
      op.blocks.push_back(block_rest());
    }
    return op;
  }

  Lexer lexer_;
  int depth_ = 0;
};

}  // namespace

Kernel parse(std::string_view text) {
  return Parser(text).kernel();
}

}  // namespace tessera::tile::ir
