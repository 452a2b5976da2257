#include "app/arguments.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include "base/fail.h"
#include "io/quote.h"

namespace tessera::app {

namespace {

using Arguments = std::vector<std::string>;

std::size_t subcommand_index(const Arguments& arguments) {
  const auto found = std::ranges::find_if_not(
      arguments, [](const std::string& argument) { return argument.starts_with("-"); });
  return static_cast<std::size_t>(found - arguments.begin());
}

// before: the words of the commands around it.
const CLI::App& chosen_subcommand(const CLI::App& app, const std::string& before,
                                  const std::string& name) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (command->check_name(name)) return *command;
    names.push_back(command->get_name());
  }
  fail(ErrorCode::kInvalidArgument, "there is no command {}; choose one of {}",
       in_quotes(before + name), fmt::join(names, ", "));
}

// The option that the name, without its dashes in front, means; null: none.
const CLI::Option* find_option(const CLI::App& command, const std::string& name) {
  for (const CLI::Option* option : command.get_options()) {
    if (std::ranges::find(option->get_lnames(), name) != option->get_lnames().end()) return option;
  }
  return nullptr;
}

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

struct Spelled {
  std::string name;  // with dashes inside, without those in front
  std::string rest;  // "" or "=VALUE"
};

Spelled spelled(const std::string& argument) {
  const std::size_t end = std::min(argument.find('='), argument.size());
  std::string name = argument.substr(2, end - 2);
  std::ranges::replace(name, '_', '-');
  return {std::move(name), argument.substr(end)};
}

}  // namespace

Arguments normalised(const CLI::App& app, Arguments arguments) {
  const std::size_t start = subcommand_index(arguments);
  if (start == arguments.size()) return arguments;
  const CLI::App* command = &chosen_subcommand(app, "", arguments[start]);
  std::string words_so_far = arguments[start] + " ";

  Arguments result(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(start) + 1);
  for (std::size_t i = start + 1; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!command->get_subcommands(nullptr).empty() && !argument.starts_with("-")) {
      command = &chosen_subcommand(*command, words_so_far, argument);
      words_so_far += argument + " ";
      result.push_back(argument);
      continue;
    }
    if (argument == "--") {
      result.insert(result.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i),
                    arguments.end());
      break;
    }
    const bool is_long = argument.starts_with("--");
    const Spelled words = is_long ? spelled(argument) : Spelled{};
    const CLI::Option* option = is_long ? find_option(*command, words.name) : nullptr;
    if (option == nullptr) {
      result.push_back(argument);
      continue;
    }
    if (takes_value(*option) && words.rest == "=") {  // an empty value, not the next argument
      result.insert(result.end(), {"--" + words.name, ""});
      continue;
    }
    result.push_back("--" + words.name + words.rest);
    if (takes_value(*option) && words.rest.empty() && i + 1 < arguments.size()) {
      result.push_back(arguments[++i]);
    }
  }
  return result;
}

}  // namespace tessera::app
