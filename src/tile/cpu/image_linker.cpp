#include "tile/cpu/image_linker.h"

#include <algorithm>
#include <cstdint>

#include <llvm/BinaryFormat/ELF.h>
#include <llvm/ExecutionEngine/JITSymbol.h>
#include <llvm/ExecutionEngine/RuntimeDyld.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>

#include "base/fail.h"

namespace tessera::tile::cpu {

namespace {

constexpr std::size_t kPage = 4096;

std::size_t align_up(std::size_t value, std::size_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// Gives RuntimeDyld places in one block that begins on a page. Data and code share it: their
// distances must not change when the block is copied.
class BlockMemory final : public llvm::RuntimeDyld::MemoryManager {
 public:
  explicit BlockMemory(std::size_t capacity) : memory_(capacity + kPage), capacity_(capacity) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    begin_ = memory_.data() + (kPage - address % kPage) % kPage;
  }

  std::uint8_t* allocateCodeSection(std::uintptr_t size, unsigned alignment, unsigned,
                                    llvm::StringRef) override {
    return allocate(size, alignment);
  }
  std::uint8_t* allocateDataSection(std::uintptr_t size, unsigned alignment, unsigned,
                                    llvm::StringRef, bool) override {
    return allocate(size, alignment);
  }
  void registerEHFrames(std::uint8_t*, std::uint64_t, std::size_t) override {}
  void deregisterEHFrames() override {}
  bool finalizeMemory(std::string*) override { return false; }
  bool allowStubAllocation() const override { return false; }

  std::uint64_t offset_of(std::uint64_t address) const {
    return address - reinterpret_cast<std::uintptr_t>(begin_);
  }
  std::vector<std::byte> block() const {
    const auto bytes = std::as_bytes(std::span(begin_, used_));
    return {bytes.begin(), bytes.end()};
  }

 private:
  // Alignments are at most a page, so offsets are aligned when addresses are.
  std::uint8_t* allocate(std::size_t size, std::size_t alignment) {
    const std::size_t place = align_up(used_, std::max<std::size_t>(alignment, 1));
    if (alignment > kPage || place + size > capacity_) {
      fail(ErrorCode::kCompiler, "a kernel's code is larger than its object");
    }
    used_ = place + size;
    return begin_ + place;
  }

  std::vector<std::uint8_t> memory_;
  std::size_t capacity_;
  std::uint8_t* begin_ = nullptr;
  std::size_t used_ = 0;
};

// There is nothing outside: every name that is looked up is a fault.
class NoSymbols final : public llvm::LegacyJITSymbolResolver {
 public:
  llvm::JITSymbol findSymbol(const std::string& name) override {
    missing_ += missing_.empty() ? name : ", " + name;
    return nullptr;
  }
  llvm::JITSymbol findSymbolInLogicalDylib(const std::string& name) override {
    return findSymbol(name);
  }

 private:
  std::string missing_;
};

bool is_position_independent(unsigned machine, std::uint64_t type) {
  if (machine == llvm::ELF::EM_X86_64) {
    return type == llvm::ELF::R_X86_64_PC32 || type == llvm::ELF::R_X86_64_PLT32 ||
           type == llvm::ELF::R_X86_64_PC64;
  }
  switch (type) {
    case llvm::ELF::R_AARCH64_PREL32:
    case llvm::ELF::R_AARCH64_PREL64:
    case llvm::ELF::R_AARCH64_CALL26:
    case llvm::ELF::R_AARCH64_JUMP26:
    case llvm::ELF::R_AARCH64_ADR_PREL_PG_HI21:
    case llvm::ELF::R_AARCH64_ADD_ABS_LO12_NC:  // within a page: the block begins on one
    case llvm::ELF::R_AARCH64_LDST8_ABS_LO12_NC:
    case llvm::ELF::R_AARCH64_LDST16_ABS_LO12_NC:
    case llvm::ELF::R_AARCH64_LDST32_ABS_LO12_NC:
    case llvm::ELF::R_AARCH64_LDST64_ABS_LO12_NC:
    case llvm::ELF::R_AARCH64_LDST128_ABS_LO12_NC:
      return true;
    default:
      return false;
  }
}

template <typename T>
T unwrap(llvm::Expected<T> value) {
  if (!value) {
    fail(ErrorCode::kCompiler, "a kernel's object file cannot be read: {}",
         llvm::toString(value.takeError()));
  }
  return std::move(*value);
}

void check_references(const llvm::object::ELFObjectFileBase& object) {
  for (const llvm::object::ELFSymbolRef symbol : object.symbols()) {
    const bool is_undefined =
        (unwrap(symbol.getFlags()) & llvm::object::SymbolRef::SF_Undefined) != 0;
    const llvm::StringRef name = unwrap(symbol.getName());
    if (is_undefined && !name.empty()) {
      fail(ErrorCode::kCompiler, "a kernel needs the symbol {}, which generated code must not",
           name.str());
    }
  }
  for (const llvm::object::SectionRef& section : object.sections()) {
    const auto target = unwrap(section.getRelocatedSection());
    if (target == object.section_end() || !(target->isText() || target->isData())) continue;
    if (unwrap(target->getName()) == ".eh_frame") continue;
    for (const llvm::object::RelocationRef& relocation : section.relocations()) {
      if (is_position_independent(object.getEMachine(), relocation.getType())) continue;
      llvm::SmallString<32> type;
      relocation.getTypeName(type);
      fail(ErrorCode::kCompiler, "a kernel's code depends on its address ({})", type.c_str());
    }
  }
}

}  // namespace

CodeImage link_image(std::span<const char> object_file) {
  const llvm::StringRef bytes(object_file.data(), object_file.size());
  const auto object =
      unwrap(llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(bytes, "kernel")));
  const auto& elf = llvm::cast<llvm::object::ELFObjectFileBase>(*object);
  check_references(elf);

  // Sections are aligned to at most a page each.
  std::size_t capacity = object_file.size() + kPage;
  for (const llvm::object::SectionRef& section : elf.sections()) {
    capacity += section.getSize() + section.getAlignment().value();
  }
  BlockMemory memory(capacity);
  NoSymbols no_symbols;
  llvm::RuntimeDyld linker(memory, no_symbols);
  const auto loaded = linker.loadObject(*object);
  if (!linker.hasError()) linker.resolveRelocations();
  if (linker.hasError()) {
    fail(ErrorCode::kCompiler, "a kernel cannot be linked: {}", linker.getErrorString().str());
  }

  CodeImage image;
  for (const llvm::object::ELFSymbolRef symbol : elf.symbols()) {
    const bool is_global = symbol.getBinding() == llvm::ELF::STB_GLOBAL;
    if (!is_global || symbol.getELFType() != llvm::ELF::STT_FUNC) continue;
    const llvm::StringRef name = unwrap(symbol.getName());
    const llvm::JITEvaluatedSymbol found = linker.getSymbol(name);
    image.entries.push_back({name.str(), memory.offset_of(found.getAddress())});
  }
  image.code = memory.block();
  return image;
}

}  // namespace tessera::tile::cpu
