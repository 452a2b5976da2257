#include <tessera/error.h>

namespace tessera {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid-argument";
    case ErrorCode::kFileNotFound:
      return "file-not-found";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kBadSafetensors:
      return "bad-safetensors";
    case ErrorCode::kBadJson:
      return "bad-json";
    case ErrorCode::kBadConfig:
      return "bad-config";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kMissingTensor:
      return "missing-tensor";
    case ErrorCode::kUnexpectedTensor:
      return "unexpected-tensor";
    case ErrorCode::kWrongShape:
      return "wrong-shape";
    case ErrorCode::kBadTokenizer:
      return "bad-tokenizer";
    case ErrorCode::kBadTemplate:
      return "bad-template";
    case ErrorCode::kOutOfMemory:
      return "out-of-memory";
    case ErrorCode::kCompiler:
      return "compiler";
    case ErrorCode::kNotFinite:
      return "not-finite";
    case ErrorCode::kContextOverflow:
      return "context-overflow";
    case ErrorCode::kBadCases:
      return "bad-cases";
    case ErrorCode::kBadPackedFile:
      return "bad-packed-file";
    case ErrorCode::kVerifyFailed:
      return "verify-failed";
  }
  return "unknown";
}

}  // namespace tessera
