// The one exception type of the library.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace tessera {

// What kind of thing went wrong. The names are stable: programs may switch on them.
enum class ErrorCode {
  kInvalidArgument,  // a value the caller passed (option, token id, sampling number)
  kFileNotFound,
  kIo,              // a file that exists but cannot be read or written
  kBadSafetensors,  // the container is damaged
  kBadJson,
  kBadConfig,         // config.json: a value missing, of the wrong type or contradictory
  kUnsupported,       // well formed, but not something this build can run
  kMissingTensor,     // the model needs it, the files lack it
  kUnexpectedTensor,  // the files have it, the model does not know it
  kWrongShape,
  kBadPackedFile,  // damaged, cut off, of another version or of another model
  kBadTokenizer,
  kBadTemplate,
  kOutOfMemory,      // what is needed exceeds what is free, or threads cannot be started
  kContextOverflow,  // more tokens than the context holds
  kNotFinite,        // a computation gave NaN or infinity
  kBadCases,         // a file of test cases: a value missing, of the wrong type or contradictory
  kVerifyFailed,     // an implementation of an operator differs from its reference
  kCompiler,         // the run-time compiler is missing or failed
};

// A stable name such as "missing-tensor".
std::string_view to_string(ErrorCode code);

// Thrown by every function of the library that can fail. what() is one sentence that names the
// thing (file, tensor, option) and says what to do about it.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& sentence) : std::runtime_error(sentence), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace tessera
