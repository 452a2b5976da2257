#include "app/compare/child.h"

#include <array>
#include <chrono>
#include <csignal>
#include <string>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tessera::app {
namespace {

constexpr std::chrono::seconds kLong{60};

ChildResult shell(const std::string& script, std::chrono::seconds timeout = kLong) {
  return run_child({"sh", "-c", script}, timeout);
}

// A pipe that children inherit: it ends when the last of them has ended.
class Lifeline {
 public:
  Lifeline() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  ~Lifeline() {
    let_go();
    ::close(ends_[0]);
  }
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  void let_go() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }
  std::string descriptor() const { return std::to_string(ends_[1]); }

  // What comes within 20 s: a character, or 0 at the end.
  int next() {
    pollfd event = {.fd = ends_[0], .events = POLLIN, .revents = 0};
    char c = 0;
    if (::poll(&event, 1, 20'000) != 1) return -1;
    return ::read(ends_[0], &c, 1) == 1 ? c : 0;
  }

 private:
  std::array<int, 2> ends_ = {};
};

TEST(Child, KeepsItsStreamsApart) {
  const ChildResult result = shell("echo out; echo err >&2; echo report > /dev/fd/3; cat");
  EXPECT_EQ(result.failure, "");
  EXPECT_EQ(result.out, "out\n");
  EXPECT_EQ(result.err, "err\n");
  EXPECT_EQ(result.report, "report\n");
  EXPECT_GT(result.wall_s, 0);
}

TEST(Child, MayWriteMuch) {
  const ChildResult result = shell("head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2");
  EXPECT_EQ(result.failure, "");
  EXPECT_EQ(result.out.size(), 3'000'000u);
  EXPECT_EQ(result.err.size(), 3'000'000u);
}

TEST(Child, FailuresHaveTheirReason) {
  EXPECT_EQ(shell("exit 3").failure, "exit code 3");
  EXPECT_EQ(shell("echo one >&2; echo two >&2; echo >&2; exit 3").failure, "exit code 3: two");
  EXPECT_EQ(shell("echo 'tessera: no such file' >&2; exit 1").failure, "exit code 1: no such file");
  EXPECT_EQ(shell("kill -SEGV $$").failure, "ended by signal 11 (Segmentation fault)");
  EXPECT_EQ(run_child({"/no/such/program"}, kLong).failure,
            "cannot be started (No such file or directory)");
}

TEST(Child, IsKilledAfterTheTimeoutWithAllItStarted) {
  Lifeline lifeline;
  const ChildResult result = shell("sleep 100 & sleep 100", std::chrono::seconds(1));
  EXPECT_EQ(result.failure, "did not end within 1 s");
  EXPECT_LT(result.wall_s, 20);
  lifeline.let_go();
  EXPECT_EQ(lifeline.next(), 0);
}

TEST(Child, LeavesNothingBehind) {
  Lifeline lifeline;
  EXPECT_EQ(shell("sleep 100 & exit 0").failure, "");
  lifeline.let_go();
  EXPECT_EQ(lifeline.next(), 0);
}

TEST(Child, EndsWithItsParent) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Lifeline lifeline;
    const pid_t parent = ::fork();
    if (parent == 0) {
      shell("echo x >&" + lifeline.descriptor() + "; sleep 100");
      ::_exit(0);
    }
    EXPECT_EQ(lifeline.next(), 'x');
    EXPECT_EQ(lifeline.next(), '\n');
    ::kill(parent, signal);
    int status = 0;
    ::waitpid(parent, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), signal);
    lifeline.let_go();
    EXPECT_EQ(lifeline.next(), 0);
  }
}

}  // namespace
}  // namespace tessera::app
