// Running the tessera command as a person would.
#pragma once

#include <string>
#include <vector>

namespace tessera::testing {

struct CommandResult {
  int exit_code = -1;  // 128 + signal where one ended it
  std::string out;
  std::string err;
};

// Where the standard streams go instead.
struct Streams {
  std::string out = {};  // a path; empty: into the result
  std::string err = {};
  bool close_err = false;
};

// Runs the command with these arguments; environment entries "NAME=value" are added.
CommandResult run_tessera(const std::vector<std::string>& arguments,
                          const std::vector<std::string>& environment = {},
                          const Streams& streams = {});

// The same with another program: the first of the words.
CommandResult run_program(std::vector<std::string> words,
                          const std::vector<std::string>& environment = {},
                          const Streams& streams = {});

// A folder of this process, gone at its end: tests of one program run side by side.
std::string own_folder();

}  // namespace tessera::testing
