// How LLVM finds the pass: at the end of the optimiser (clang -fpass-plugin, ThinLTO), at the end of full link-time optimisation, and by
// the name `raddle-yields<gap=4096;chunk=1024;leaf=512;unrolled=104;measure;off>` for opt.
#include "yields.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Passes/PassBuilder.h"
#if LLVM_VERSION_MAJOR >= 22
#include "llvm/Plugins/PassPlugin.h"
#else
#include "llvm/Passes/PassPlugin.h"
#endif
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>

using namespace llvm;

// False, with a line on standard error, if the text is not a list of limits.
static bool parse(StringRef Text, yields::Limits &L) {
  SmallVector<StringRef, 4> Parts;
  Text.split(Parts, ';', -1, false);
  for (StringRef Part : Parts) {
    auto [Name, Value] = Part.split('=');
    uint64_t *To = StringSwitch<uint64_t *>(Name)
                       .Case("gap", &L.Gap)
                       .Case("chunk", &L.Chunk)
                       .Case("leaf", &L.Leaf)
                       .Case("unrolled", &L.Unrolled)
                       .Default(nullptr);
    if (Name == "measure" && Value.empty()) {
      L.Measure = true;
    } else if (Name == "off" && Value.empty()) {
      L.Off = true;
    } else if (!To || Value.getAsInteger(10, *To) || *To == 0 || *To > 1000000000) {
      errs() << "raddle-yields: `" << Part << "` is no limit; limits are gap=, chunk=, leaf=, unrolled= with a number from 1 to 10^9, measure, and off\n";
      return false;
    }
  }
  if (L.Chunk > L.Gap || L.Leaf > L.Gap) {
    errs() << "raddle-yields: chunk and leaf are at most gap\n";
    return false;
  }
  return true;
}

// The limits of a compiler that is told nothing by name: RADDLE_YIELDS holds the list.
static yields::Limits limits() {
  yields::Limits L;
  if (const char *Text = std::getenv("RADDLE_YIELDS"))
    if (!parse(Text, L))
      std::exit(1);
  return L;
}

// True in a linker that makes a program without the C library's start files: the names of all of them end like that.
static bool startsByItself() {
  auto Read = [](StringRef Path) { return MemoryBuffer::getFileAsStream(Path); };
  auto Line = Read("/proc/self/cmdline");
  if (!Line)
    return false;
  SmallVector<StringRef, 64> Words;
  (*Line)->getBuffer().split(Words, '\0', -1, false);
  if (Words.empty() || !Words.front().ends_with("lld"))
    return false;
  for (StringRef Word : Words) {
    if (Word == "-shared" || Word == "-r" || Word == "--relocatable" || Word.ends_with("crt1.o"))
      return false;
    // A long line comes in a file.
    if (Word.consume_front("@"))
      if (auto File = Read(Word); !File || (*File)->getBuffer().contains("crt1.o") || (*File)->getBuffer().contains("-shared"))
        return false;
  }
  return true;
}

// At the link. A check there would write to where no thread-local storage is.
static yields::Limits limitsOfLink() {
  yields::Limits L = limits();
  static const bool Bare = startsByItself();
  if (Bare && !L.Off) {
    errs() << "raddle-yields: this program is linked without the C library's start files, so nothing sets up the thread-local storage that "
              "checks count in: build it without raddle\n";
    std::exit(1);
  }
  return L;
}

static void registerCallbacks(PassBuilder &PB) {
  PB.registerPipelineParsingCallback([](StringRef Name, ModulePassManager &MPM, ArrayRef<PassBuilder::PipelineElement>) {
    if (!Name.consume_front("raddle-yields"))
      return false;
    yields::Limits L = limitsOfLink();
    if (!Name.empty() && !(Name.consume_front("<") && Name.consume_back(">") && parse(Name, L)))
      return false;
    MPM.addPass(yields::Yields(L));
    return true;
  });
#if LLVM_VERSION_MAJOR >= 20
  PB.registerOptimizerLastEPCallback([](ModulePassManager &MPM, OptimizationLevel Level, ThinOrFullLTOPhase Phase) {
    // Before the link the checks would stand in the way of inlining, which there is none of at level 0; and a thin link at that level asks nobody.
    if ((Phase != ThinOrFullLTOPhase::ThinLTOPreLink || Level == OptimizationLevel::O0) && Phase != ThinOrFullLTOPhase::FullLTOPreLink)
      MPM.addPass(yields::Yields(Phase == ThinOrFullLTOPhase::ThinLTOPostLink ? limitsOfLink() : limits()));
  });
#else
  PB.registerOptimizerLastEPCallback([](ModulePassManager &MPM, OptimizationLevel) { MPM.addPass(yields::Yields(limits())); });
#endif
  PB.registerFullLinkTimeOptimizationLastEPCallback(
      [](ModulePassManager &MPM, OptimizationLevel) { MPM.addPass(yields::Yields(limitsOfLink())); });
}

extern "C" LLVM_ATTRIBUTE_WEAK __attribute__((visibility("default"))) PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "raddle-yields", "1", registerCallbacks};
}
