#include "app/compare/child.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"

namespace tessera::app {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr std::array kEndingSignals = {SIGINT, SIGTERM, SIGHUP};

[[noreturn]] void fail_system(const char* what) {
  fail(ErrorCode::kIo, "a child process cannot be run: {} ({})", what, std::strerror(errno));
}

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  void reset(int fd) {
    close();
    fd_ = fd;
  }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

// What a child writes to one of its descriptors.
class Stream {
 public:
  Stream() {
    std::array<int, 2> ends = {};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_system("no pipe");
    read_.reset(ends[0]);
    // Above the numbers that it will get in the child, so that dup2() there overwrites no other.
    write_.reset(::fcntl(ends[1], F_DUPFD_CLOEXEC, 10));
    ::close(ends[1]);
    if (write_.get() < 0 || ::fcntl(read_.get(), F_SETFL, O_NONBLOCK) != 0) fail_system("no pipe");
  }

  int write_end() const { return write_.get(); }
  int read_end() const { return read_.get(); }
  void close_write_end() { write_.close(); }

  // Takes what is there; closes at the end of the stream.
  void take() {
    std::array<char, 65536> piece;
    while (read_.get() >= 0) {
      const ssize_t n = ::read(read_.get(), piece.data(), piece.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n <= 0) return read_.close();
      text_.append(piece.data(), static_cast<std::size_t>(n));
      if (text_.size() > 2 * kMostBytes) text_.erase(0, text_.size() - kMostBytes);
    }
  }

  std::string text() && {
    if (text_.size() > kMostBytes) text_.erase(0, text_.size() - kMostBytes);
    return std::move(text_);
  }

 private:
  Descriptor read_;
  Descriptor write_;
  std::string text_;
};

std::atomic<pid_t> running_group = 0;
static_assert(std::atomic<pid_t>::is_always_lock_free);  // a signal handler reads it

extern "C" void kill_child_and_end(int signal) {
  if (const pid_t group = running_group; group != 0) ::kill(-group, SIGKILL);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

// While it lives, a signal that ends this process ends the child too; in a group of its own, the
// child does not get what the terminal sends.
class EndTogether {
 public:
  EndTogether() {
    ::sigemptyset(&mask_);
    for (std::size_t i = 0; i < kEndingSignals.size(); ++i) {
      ::sigaddset(&mask_, kEndingSignals[i]);
      struct sigaction action = {};
      ::sigaction(kEndingSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler == SIG_IGN) continue;  // nohup
      action.sa_handler = kill_child_and_end;
      ::sigaction(kEndingSignals[i], &action, nullptr);
    }
    // Held back until the child is known.
    ::pthread_sigmask(SIG_BLOCK, &mask_, &mask_before_);
  }
  ~EndTogether() {
    running_group = 0;
    for (std::size_t i = 0; i < kEndingSignals.size(); ++i) {
      ::sigaction(kEndingSignals[i], &before_[i], nullptr);
    }
    ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  }
  EndTogether(const EndTogether&) = delete;
  EndTogether& operator=(const EndTogether&) = delete;

  const sigset_t& mask_of_child() const { return mask_before_; }
  void watch(pid_t child) {
    running_group = child;
    ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  }

 private:
  sigset_t mask_ = {};
  sigset_t mask_before_ = {};
  std::array<struct sigaction, kEndingSignals.size()> before_ = {};
};

// A child and whatever it has started.
class Group {
 public:
  explicit Group(pid_t leader) : leader_(leader) {}
  ~Group() {
    if (leader_ != 0) end();
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // Kills what still runs; returns the status that waitpid() gives of the leader.
  int end() {
    ::kill(-leader_, SIGKILL);  // before it is reaped: its number still means this group
    int status = 0;
    while (::waitpid(leader_, &status, 0) < 0 && errno == EINTR) {
    }
    leader_ = 0;
    return status;
  }

 private:
  pid_t leader_;
};

// 0, or the error.
int spawn(const std::vector<std::string>& words, const std::array<Stream, 3>& streams,
          const sigset_t& mask, pid_t& child) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  for (int i = 0; i < 3; ++i) {
    ::posix_spawn_file_actions_adddup2(&files, streams[static_cast<std::size_t>(i)].write_end(),
                                       STDOUT_FILENO + i);
  }
  sigset_t defaults;
  ::sigemptyset(&defaults);
  for (const int signal : kEndingSignals) ::sigaddset(&defaults, signal);
  ::posix_spawnattr_setflags(
      &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setsigmask(&attributes, &mask);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);

  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const int error = ::posix_spawnp(&child, argv[0], &files, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  return error;
}

// A descriptor that can be polled for the end of the process. The C library has the call from 2.36
// on, but there its header leaves out extern "C".
int open_pidfd(pid_t process) {
  return static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
}

// Reads the streams until the child has ended (true) or the time is over (false).
bool wait_for(int child, std::array<Stream, 3>& streams, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    std::array<pollfd, 4> events = {};
    for (std::size_t i = 0; i < streams.size(); ++i) {
      events[i] = {.fd = streams[i].read_end(), .events = POLLIN, .revents = 0};  // -1: skipped
    }
    events[3] = {.fd = child, .events = POLLIN, .revents = 0};
    constexpr std::int64_t kLongest = 60'000;
    const int n = ::poll(events.data(), events.size(), static_cast<int>(std::min(left, kLongest)));
    if (n < 0 && errno != EINTR) fail_system("poll failed");
    if (n <= 0) continue;
    for (Stream& stream : streams) stream.take();
    if (events[3].revents != 0) return true;
  }
}

// The last line that says something, without "tessera: " in front.
std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string::npos) return {};
  const std::size_t before = text.find_last_of("\r\n", end);
  std::string line = text.substr(before == std::string::npos ? 0 : before + 1);
  line.erase(line.find_last_not_of(" \t\r\n") + 1);
  constexpr std::string_view kOwn = "tessera: ";
  return line.starts_with(kOwn) ? line.substr(kOwn.size()) : line;
}

std::string failure_of(int status, const std::string& err) {
  std::string failure;
  if (WIFSIGNALED(status)) {
    failure =
        fmt::format("ended by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  } else if (WEXITSTATUS(status) != 0) {
    failure = fmt::format("exit code {}", WEXITSTATUS(status));
  } else {
    return {};
  }
  const std::string line = last_line(err);
  return line.empty() ? failure : failure + ": " + line;
}

}  // namespace

ChildResult run_child(const std::vector<std::string>& words, std::chrono::seconds timeout) {
  std::array<Stream, 3> streams;
  EndTogether together;
  ChildResult result;
  const Clock::time_point start = Clock::now();
  pid_t leader = 0;
  if (const int error = spawn(words, streams, together.mask_of_child(), leader); error != 0) {
    result.failure = fmt::format("cannot be started ({})", std::strerror(error));
    return result;
  }
  Group group(leader);
  together.watch(leader);
  for (Stream& stream : streams) stream.close_write_end();

  const Descriptor handle(open_pidfd(leader));
  if (handle.get() < 0) fail_system("pidfd_open failed");
  const bool ended = wait_for(handle.get(), streams, start + timeout);
  result.wall_s = std::chrono::duration<double>(Clock::now() - start).count();
  const int status = group.end();
  for (Stream& stream : streams) stream.take();
  result.out = std::move(streams[0]).text();
  result.err = std::move(streams[1]).text();
  result.report = std::move(streams[2]).text();
  result.failure = ended ? failure_of(status, result.err)
                         : fmt::format("did not end within {} s", timeout.count());
  return result;
}

}  // namespace tessera::app
