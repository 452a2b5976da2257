#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tessera/error.h>

#include "tile/jit/cache_folder.h"
#include "tile/jit/compile_cache.h"

namespace tessera::tile {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Code that returns a constant, for this architecture.
CodeImage returning(std::uint32_t value) {
  CodeImage image;
  image.entries = {{"answer", 0}};
#if defined(__x86_64__)
  const std::uint8_t code[] = {0xb8, static_cast<std::uint8_t>(value), 0, 0, 0, 0xc3};  // mov; ret
#else
  const std::uint32_t code[] = {0x52800000u | (value << 5), 0xd65f03c0u};  // mov; ret
#endif
  const auto bytes = std::as_bytes(std::span(code));
  image.code.assign(bytes.begin(), bytes.end());
  return image;
}

class Cache : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tessera-cache-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    folder_ = root_ / "kernels";
  }
  void TearDown() override {
    fs::permissions(root_, fs::perms::owner_all);
    fs::remove_all(root_);
  }

  // A cache whose compiler returns code that returns the number in the request's IR.
  CompileCache::Options options() {
    CompileCache::Options options;
    options.folder = folder_;
    options.warn = [this](const std::string& sentence) { warnings_.push_back(sentence); };
    options.compile = [this](const CompileRequest& request) {
      ++compiled_;
      CodeImage image = returning(static_cast<std::uint32_t>(std::atoi(request.ir.c_str())));
      image.code.resize(image.code.size() + padding_);
      return image;
    };
    return options;
  }
  static CompileRequest request(int value) {
    CompileRequest request;
    request.name = "answer";
    request.ir = std::to_string(value);
    return request;
  }
  static int call(CompileCache& cache, int value) {
    return cache.get(request(value))->function<int()>("answer")();
  }
  fs::path entry(int value) const { return entry_path(folder_, cache_key(request(value))); }

  fs::path root_;
  fs::path folder_;
  std::vector<std::string> warnings_;
  std::atomic<int> compiled_{0};
  std::size_t padding_ = 0;
};

TEST_F(Cache, CompilesOnceThenReadsMemoryThenDisk) {
  {
    CompileCache cache(options());
    EXPECT_EQ(call(cache, 7), 7);
    EXPECT_EQ(call(cache, 7), 7);
    EXPECT_EQ(cache.statistics().compiled, 1);
    EXPECT_EQ(cache.statistics().from_memory, 1);
  }
  CompileCache cache(options());
  EXPECT_EQ(call(cache, 7), 7);
  EXPECT_EQ(cache.statistics().from_disk, 1);
  EXPECT_EQ(compiled_, 1);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(Cache, EntriesSayWhatTheyAre) {
  CompileCache cache(options());
  CompileRequest first = request(1);
  first.shape_class = "t in 17..*";
  first.cpu = "haswell";
  cache.get(first);
  call(cache, 2);
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(entry(2), now - std::chrono::hours(1));
  std::ofstream(folder_ / "0.kernel") << "garbage";
  fs::last_write_time(folder_ / "0.kernel", now - std::chrono::hours(2));
  const std::vector<CacheEntry> entries = read_entries(folder_);
  ASSERT_EQ(entries.size(), 3u);
  const CodeImage::Origin origin = CodeImage::parse(*entries[0].content.payload).origin;
  EXPECT_EQ(origin.kernel, "answer");
  EXPECT_EQ(origin.shape_class, "t in 17..*");
  EXPECT_EQ(origin.cpu, "haswell");
  EXPECT_EQ(origin.compiler, compiler_identity().to_hex());
  EXPECT_EQ(entries[1].path, entry(2));
  EXPECT_EQ(entries[1].bytes, fs::file_size(entry(2)));
  EXPECT_EQ(entries[1].used, now - std::chrono::hours(1));
  EXPECT_FALSE(entries[2].content.payload.has_value());
  EXPECT_THAT(entries[2].content.damage, HasSubstr("0.kernel"));
}

TEST_F(Cache, TellsRequestsApart) {
  const Hash128 key = cache_key(request(1));
  EXPECT_EQ(cache_key(request(1)), key);
  CompileRequest other = request(1);
  other.options = "x";
  EXPECT_NE(cache_key(other), key);
  other = request(1);
  other.cpu = "haswell";
  EXPECT_NE(cache_key(other), key);
  other = request(1);
  other.front_end = "llvm";
  EXPECT_NE(cache_key(other), key);
  EXPECT_NE(cache_key(request(2)), key);
}

TEST_F(Cache, ADamagedEntryIsCompiledAgainWithOneWarning) {
  const auto write = [&](const std::string& bytes) {
    std::ofstream(entry(7), std::ios::binary | std::ios::trunc) << bytes;
  };
  const auto read = [&](const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  {
    CompileCache cache(options());
    EXPECT_EQ(call(cache, 7), 7);
    EXPECT_EQ(call(cache, 8), 8);
  }
  const std::string whole = read(entry(7));
  std::string flipped = whole;
  flipped.back() ^= 1;
  std::string wrong_header = whole;
  wrong_header[0] ^= 1;
  const std::vector<std::string> damages{"",
                                         "garbage",
                                         whole.substr(0, 20),
                                         whole.substr(0, whole.size() - 1),
                                         whole + "x",
                                         flipped,
                                         wrong_header,
                                         std::string(100000, '\xff'),
                                         read(entry(8))};  // another kernel under this name
  for (const std::string& damage : damages) {
    write(damage);
    warnings_.clear();
    compiled_ = 0;
    {
      CompileCache cache(options());
      EXPECT_EQ(call(cache, 7), 7);
      EXPECT_EQ(call(cache, 7), 7);
    }
    EXPECT_EQ(compiled_, 1);
    ASSERT_EQ(warnings_.size(), 1u) << damage.size();
    EXPECT_THAT(warnings_[0], HasSubstr(entry(7).string()));
    CompileCache again(options());  // mended
    EXPECT_EQ(call(again, 7), 7);
    EXPECT_EQ(compiled_, 1);
    EXPECT_EQ(warnings_.size(), 1u);
  }
}

TEST_F(Cache, EveryTruncationIsNoticed) {
  {
    CompileCache cache(options());
    call(cache, 7);
  }
  const auto size = fs::file_size(entry(7));
  for (std::uintmax_t length = size; length-- > 0;) {
    fs::resize_file(entry(7), length);
    const EntryRead read = read_entry(folder_, cache_key(request(7)));
    EXPECT_FALSE(read.payload.has_value());
    EXPECT_FALSE(read.damage.empty());
  }
}

TEST_F(Cache, AFolderFullOfGarbageDoesNoHarm) {
  fs::create_directories(folder_);
  fs::permissions(folder_, fs::perms::owner_all);
  std::ofstream(folder_ / "00000000000000000000000000000000.kernel") << "garbage";
  std::ofstream(folder_ / "readme.txt") << "not ours";
  fs::create_directory(folder_ / "directory.kernel");
  fs::create_directory(entry(5));
  fs::create_symlink("/nonexistent", folder_ / "dangling.kernel");
  CompileCache cache(options());
  EXPECT_EQ(call(cache, 7), 7);
  EXPECT_TRUE(warnings_.empty());
  EXPECT_EQ(call(cache, 5), 5);  // a folder stands in its place: told, and kept in memory
  EXPECT_FALSE(warnings_.empty());
  EXPECT_TRUE(fs::exists(folder_ / "readme.txt"));
}

TEST_F(Cache, RemovesWhatWasUsedLongestAgo) {
  padding_ = 10000;
  CompileCache::Options bounded = options();
  bounded.max_bytes = 35000;
  {
    CompileCache cache(bounded);
    for (int value : {1, 2, 3}) call(cache, value);
  }
  const auto now = fs::file_time_type::clock::now();
  for (int value : {1, 2, 3})
    fs::last_write_time(entry(value), now - std::chrono::hours(10 - value));
  CompileCache cache(bounded);
  call(cache, 1);  // used now, so 2 is the oldest
  call(cache, 4);
  EXPECT_TRUE(fs::exists(entry(1)));
  EXPECT_FALSE(fs::exists(entry(2)));
  EXPECT_TRUE(fs::exists(entry(3)));
  EXPECT_TRUE(fs::exists(entry(4)));
  EXPECT_LE(cache_use(folder_).bytes, bounded.max_bytes);
  clear_cache(folder_);
  EXPECT_EQ(cache_use(folder_).n_entries, 0u);
}

TEST_F(Cache, RemovesUnfinishedFilesOnlyWhenTheyAreOld) {
  CompileCache cache(options());
  const fs::path fresh = folder_ / "a.part";
  const fs::path old = folder_ / "b.part";
  std::ofstream(fresh) << "x";
  std::ofstream(old) << "x";
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));
  call(cache, 1);
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_FALSE(fs::exists(old));
}

TEST_F(Cache, AFolderThatCannotBeMadeCostsOneWarning) {
  std::ofstream(root_ / "file") << "x";
  folder_ = root_ / "file" / "kernels";
  CompileCache cache(options());
  EXPECT_EQ(call(cache, 1), 1);
  EXPECT_EQ(call(cache, 2), 2);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("in memory only"));
}

TEST_F(Cache, AFolderThatOthersCanWriteIsNotUsed) {
  fs::create_directories(folder_);
  fs::permissions(folder_, fs::perms::all);
  CompileCache cache(options());
  EXPECT_EQ(call(cache, 1), 1);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_FALSE(fs::exists(entry(1)));
}

// Runs body in a child process; returns its exit status.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

TEST_F(Cache, AReadOnlyFolderIsReadAndCostsOneWarning) {
  {
    CompileCache cache(options());
    call(cache, 1);
  }
  const int status = in_child([&] {
    if (::geteuid() == 0) {  // root may write anywhere
      if (::chown(root_.c_str(), 65534, 65534) != 0) return 10;
      if (::chown(folder_.c_str(), 65534, 65534) != 0) return 11;
      if (::chown(entry(1).c_str(), 65534, 65534) != 0) return 12;
    }
    fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
    if (::geteuid() == 0 && (::setegid(65534) != 0 || ::seteuid(65534) != 0)) return 13;
    CompileCache cache(options());
    if (call(cache, 1) != 1 || cache.statistics().from_disk != 1) return 1;
    if (call(cache, 2) != 2 || call(cache, 3) != 3) return 2;
    return warnings_.size() == 1 ? 0 : 3;
  });
  fs::permissions(folder_, fs::perms::owner_all);
  EXPECT_EQ(status, 0);
}

TEST_F(Cache, SeveralProcessesAtOnceGetRightCode) {
  padding_ = 50000;
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      int wrong = 0;
      for (int round = 0; round < 20; ++round) {
        CompileCache::Options bounded = options();
        bounded.max_bytes = 300000;  // evicts while others read
        CompileCache cache(bounded);
        for (int value = 0; value < 8; ++value)
          wrong += call(cache, (value + child) % 8) != (value + child) % 8;
      }
      ::_exit(wrong == 0 && warnings_.empty() ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (pid_t pid : children) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  CompileCache cache(options());
  for (int value = 0; value < 8; ++value) EXPECT_EQ(call(cache, value), value);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(Cache, ThreadsWaitForOneCompilation) {
  CompileCache::Options slow = options();
  slow.compile = [compile = slow.compile](const CompileRequest& request) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    return compile(request);
  };
  CompileCache cache(slow);
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { right += call(cache, 9) == 9; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 8);
  EXPECT_EQ(compiled_, 1);
}

TEST_F(Cache, AFailedCompilationIsNotKept) {
  CompileCache::Options failing = options();
  int calls = 0;
  failing.compile = [&](const CompileRequest&) -> CodeImage {
    if (++calls == 1) throw Error(ErrorCode::kCompiler, "no");
    return returning(3);
  };
  CompileCache cache(failing);
  EXPECT_THROW(call(cache, 3), Error);
  EXPECT_EQ(call(cache, 3), 3);
  EXPECT_EQ(call(cache, 3), 3);
}

TEST_F(Cache, CodeForAnotherCpuIsRefusedWithASentence) {
  CompileCache::Options foreign = options();
  foreign.compile = [](const CompileRequest&) {
    CodeImage image = returning(1);
    image.cannot_run = "code for znver9 cannot run on this machine";
    return image;
  };
  CompileCache cache(foreign);
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      call(cache, 1);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_THAT(error.what(), HasSubstr("znver9"));
    }
  }
  EXPECT_TRUE(warnings_.empty());
}

TEST(CodeImage, ParsesWhatItSerialisedAndNothingElse) {
  const std::vector<std::byte> bytes = returning(5).serialize();
  EXPECT_EQ(CodeImage::parse(bytes).serialize(), bytes);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THROW(CodeImage::parse(std::span(bytes).first(length)), Error);
  }
  CodeImage outside = returning(5);
  outside.entries[0].offset = 1000;
  EXPECT_THROW(CodeImage::parse(outside.serialize()), Error);
}

TEST(CacheFolder, FollowsTheEnvironment) {
  ::setenv("TESSERA_CACHE_DIR", "/a", 1);
  EXPECT_EQ(default_cache_folder(), "/a");
  ::unsetenv("TESSERA_CACHE_DIR");
  ::setenv("XDG_CACHE_HOME", "/b", 1);
  EXPECT_EQ(default_cache_folder(), "/b/tessera/kernels");
  ::unsetenv("XDG_CACHE_HOME");
  ::setenv("HOME", "/c", 1);
  EXPECT_EQ(default_cache_folder(), "/c/.cache/tessera/kernels");
}

}  // namespace
}  // namespace tessera::tile
