// The parsed form of a chat template.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/template_value.h"

namespace tessera::text {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

enum class ExpressionKind {
  kLiteral,      // literal
  kName,         // name
  kList,         // children; tuples as well
  kDict,         // children: key, value, key, value, ...
  kAttribute,    // children[0].name
  kSubscript,    // children[0][children[1]]
  kSlice,        // children[0][begin:end:step]; children[1..3], null where left out
  kCall,         // children[0](children[1..], keywords)
  kFilter,       // children[0] | name(children[1..], keywords)
  kTest,         // children[0] is name(children[1..])
  kNegate,       // -children[0]
  kPlus,         // +children[0]
  kNot,          // not children[0]
  kAnd,          // children[0] and children[1]
  kOr,           // children[0] or children[1]
  kArithmetic,   // children[0] name children[1], name one of + - * / // % ~
  kCompare,      // children[0] operators[0] children[1] operators[1] children[2] ...
  kConditional,  // children[0] if children[1] else children[2], which may be null
};

struct Expression {
  ExpressionKind kind;
  int line = 0;
  std::string name;
  Value literal;
  std::vector<ExpressionPtr> children;
  std::vector<std::pair<std::string, ExpressionPtr>> keywords;
  std::vector<std::string> operators;
  int height = 1;  // of the tree below, which bounds recursion over it
};

struct Statement;
using Block = std::vector<Statement>;

enum class StatementKind {
  kText,      // text
  kPrint,     // expressions[0]
  kIf,        // expressions[i] guards blocks[i]; one block more: else
  kFor,       // targets in expressions[0], if expressions[1] (or null); blocks: body, else
  kSet,       // targets = expressions[0]; attribute not empty: targets[0].attribute
  kSetBlock,  // targets[0] = output of blocks[0]
  kBreak,
  kContinue,
};

struct Statement {
  StatementKind kind;
  int line = 0;
  std::string text;
  std::vector<std::string> targets;
  std::string attribute;
  std::vector<ExpressionPtr> expressions;
  std::vector<Block> blocks;
};

}  // namespace tessera::text
