// Running a program as a child process that leaves nothing behind.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace tessera::app {

// Where a child finds a pipe whose content becomes ChildResult::report.
inline constexpr const char* kReportPath = "/dev/fd/3";

struct ChildResult {
  std::string out;  // standard output; of each stream at most the last 64 MiB are kept
  std::string err;
  std::string report;  // what was written to kReportPath
  double wall_s = 0;
  // Why it is of no use: "exit code 2: the last line of its standard error", "did not end within
  // 5 s", "cannot be started (No such file or directory)". Empty: it ended with exit code 0.
  std::string failure;
};

// Runs words[0], looked up in PATH where it has no slash, with standard input empty. The child
// leads a process group of its own, which is killed when the child ends, when `timeout` is over,
// and when this process is ended by SIGINT, SIGTERM or SIGHUP. One child at a time.
ChildResult run_child(const std::vector<std::string>& words, std::chrono::seconds timeout);

// The running program, also where its file was replaced meanwhile.
inline constexpr const char* kOwnProgram = "/proc/self/exe";

}  // namespace tessera::app
