// The pass that puts quantum checks into a program: what its parts say to each other.
//
// Source: F. Negele et al., "The Design and Implementation of a lock-free scheduler", section 3.1. Differs from the paper: a check covers a
// segment of several hundred instructions instead of one basic block, loops are strip-mined or unrolled so that tiny bodies do not check
// at each turn, and no register is reserved: the count within a chunk is the loop's own induction variable.
//
// Reading order: module.cpp (what is instrumented), shape.cpp (loops made ready), paths.cpp (where checks go), check.cpp (what a check is).
#pragma once

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"
#include <optional>

namespace llvm {
class TargetLibraryInfo;
class TargetTransformInfo;
} // namespace llvm

namespace yields {

// Limits, in units of weight: about one machine instruction each.
struct Limits {
  // No path without a check is longer, as far as it stays in one function. Over calls and returns: see docs/preemptible.md.
  uint64_t Gap = 4096;
  // What a strip-mined loop does between two checks.
  uint64_t Chunk = 1024;
  // The longest way through a function without a check; so much is assumed of a call of an unknown function.
  uint64_t Leaf = 512;
  // A loop whose turns cannot be counted ahead is unrolled until its body has about this weight. A check costs it three instructions: two, and one
  // that moves what goes round.
  uint64_t Unrolled = 104;
  // Count what runs between checks, for tests: the program reads `__raddle_gap_max`.
  bool Measure = false;
  // Put no checks in: what a program costs without them is measured on one that is built alike.
  bool Off = false;
};

// What a call of a function, or a turn through a part of one, does to the path that contains it.
struct Passage {
  // From its beginning to its first check, or to its end if there is none on the way: the longest.
  uint64_t Before = 0;
  // From its last check, or its beginning, to its end: the longest.
  uint64_t After = 0;
  // The longest way through without a check; none if each way has one.
  std::optional<uint64_t> Through;
  // As `Through`, but what is likely: loops of unknown length counted by an eighth of what they may do.
  uint64_t Likely = 0;

  static Passage plain(uint64_t Weight) { return {Weight, Weight, Weight, Weight}; }
};

// What functions of this module do, as far as they have been looked at.
using Passages = llvm::DenseMap<const llvm::Function *, Passage>;

// One check to be put in: before an instruction, or, if `To` is there, on the edge from it to that block.
struct Place {
  llvm::Instruction *At = nullptr;
  llvm::BasicBlock *To = nullptr;
  uint64_t Charge = 1;
};

// weights.cpp
bool givesWay(const llvm::Instruction &I);

class Weights {
public:
  Weights(llvm::Function &F, llvm::FunctionAnalysisManager &FAM, const Passages &Known, const Limits &L);
  Passage of(const llvm::Instruction &I) const;
  uint64_t through(const llvm::BasicBlock &B) const;
  // Without what functions do that it calls.
  uint64_t own(const llvm::BasicBlock &B) const;
  // True if the block calls a function that is not known to be small.
  bool calls(const llvm::BasicBlock &B) const;

private:
  uint64_t size(const llvm::Instruction &I) const;
  const llvm::TargetTransformInfo &TTI;
  const llvm::TargetLibraryInfo &TLI;
  const Passages &Known;
  const Limits &L;
};

// What is known of loops after they have been shaped, by header.
struct Turns {
  // Turns that a loop makes at most before it is left: of loops that stay without a check of their own.
  llvm::DenseMap<const llvm::BasicBlock *, uint64_t> Most;
  // Outer loops of strip-mined ones: a turn is a whole chunk.
  llvm::SmallPtrSet<const llvm::BasicBlock *, 8> Chunked;
};

// shape.cpp: strip-mines and unrolls. True if the function has changed.
bool shapeLoops(llvm::Function &F, llvm::FunctionAnalysisManager &FAM, const Passages &Known, const Limits &L, Turns &T);

// paths.cpp: where checks go, and what the function is to its callers then. Of a function that code without checks calls back, no way through is free.
Passage placeChecks(llvm::Function &F, llvm::FunctionAnalysisManager &FAM, const Passages &Known, const Limits &L,
                    const Turns &T, bool CalledBack, llvm::SmallVectorImpl<Place> &Places);

// check.cpp
class Checks {
public:
  Checks(llvm::Module &M, const Limits &L);
  void put(const Place &P);
  // Adds the weight of each block to the count of the gap, for tests. To be called when all checks stand.
  void measure(llvm::Function &F, const Weights &W);

private:
  llvm::GlobalVariable *word(llvm::StringRef Name, bool Hidden);
  llvm::Module &M;
  const Limits &L;
  llvm::GlobalVariable *Quantum;
  llvm::Function *Slow;
  llvm::GlobalVariable *Gap = nullptr, *Longest = nullptr;
};

// module.cpp
struct Yields : llvm::PassInfoMixin<Yields> {
  Limits L;
  explicit Yields(Limits L) : L(L) {}
  llvm::PreservedAnalyses run(llvm::Module &M, llvm::ModuleAnalysisManager &MAM);
  static bool isRequired() { return true; }
};

} // namespace yields
