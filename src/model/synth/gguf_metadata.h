// What a GGUF file says about a DeepSeek-V2 model beside its tensors and its vocabulary.
#pragma once

#include <string_view>

#include "io/gguf_writer.h"
#include "model/config.h"

namespace tessera {

// The keys of the architecture "deepseek2" of llama.cpp. Attention is described in absorbed form:
// one key and value head of kv_lora_rank + qk_rope_dim, and the sizes of real heads beside.
//
// Throws Error(kUnsupported) for what that architecture cannot say.
GgufMetadata gguf_metadata(const ModelConfig& config, std::string_view name, GgmlType type);

}  // namespace tessera
