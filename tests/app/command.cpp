#include "tests/app/command.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/io/temporary_folder.h"

namespace tessera::testing {

namespace {

std::string contents(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void redirect(const std::filesystem::path& path, int descriptor) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0) ::_exit(126);  // of the child
  ::dup2(file, descriptor);
}

}  // namespace

std::string own_folder() {
  static const TemporaryFolder folder;
  return folder.name();
}

CommandResult run_tessera(const std::vector<std::string>& arguments,
                          const std::vector<std::string>& environment, const Streams& streams) {
  std::vector<std::string> words = {TESSERA_COMMAND};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_program(std::move(words), environment, streams);
}

CommandResult run_program(std::vector<std::string> words,
                          const std::vector<std::string>& environment, const Streams& streams) {
  std::string folder = ::testing::TempDir() + "/tessera-command-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no temporary folder");
  const std::filesystem::path out = std::filesystem::path(folder) / "out";
  const std::filesystem::path err = std::filesystem::path(folder) / "err";

  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const pid_t child = ::fork();
  if (child == 0) {
    ::unsetenv("MODEL_PATH");
    for (const std::string& entry : environment) {
      const auto equals = entry.find('=');
      ::setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
    }
    redirect(streams.out.empty() ? out : std::filesystem::path(streams.out), STDOUT_FILENO);
    redirect(streams.err.empty() ? err : std::filesystem::path(streams.err), STDERR_FILENO);
    if (streams.close_err) ::close(STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CommandResult result{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                       contents(out), contents(err)};
  std::filesystem::remove_all(folder);
  return result;
}

}  // namespace tessera::testing
