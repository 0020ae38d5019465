// What an instruction weighs: about as many machine instructions as it becomes.
#include "yields.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;
using namespace yields;

// What a call into the C library is counted as: its instructions are not seen, and it does not come back into the program.
static constexpr uint64_t Library = 16;

Weights::Weights(Function &F, FunctionAnalysisManager &FAM, const Passages &Known, const Limits &L)
    : TTI(FAM.getResult<TargetIRAnalysis>(F)), TLI(FAM.getResult<TargetLibraryAnalysis>(F)), Known(Known), L(L) {}

// What the target says; 1 where it says nothing, and no more than 64.
uint64_t Weights::size(const Instruction &I) const {
  InstructionCost Cost = TTI.getInstructionCost(&I, TargetTransformInfo::TCK_CodeSize);
  if (!Cost.isValid() || Cost < 0)
    return 1;
  for (uint64_t Size = 0; Size < 64; ++Size)
    if (Cost <= InstructionCost(Size))
      return Size;
  return 64;
}

// Lines of the text, at least one: macros and `.rept` are not seen.
static uint64_t lines(const InlineAsm &Text) {
  StringRef S = Text.getAsmString();
  return 1 + S.count('\n') + S.count(';');
}

// Other libraries' functions that call none of the program's, and that programs call often.
static bool isLibrary(const Function &F) {
  StringRef Name = F.getName();
  // Allocators: of Rust, too, whose names each compiler makes anew.
  if (F.hasFnAttribute(Attribute::AllocKind))
    return true;
  if (Name.starts_with("_ZSt") && Name.contains("_Rb_tree_"))
    return true;
  return is_contained({"__errno_location", "pthread_mutex_lock", "pthread_mutex_trylock", "pthread_mutex_unlock", "pthread_rwlock_rdlock",
                       "pthread_rwlock_wrlock", "pthread_rwlock_unlock", "pthread_self", "pthread_getspecific", "clock_gettime"},
                      Name);
}

// They let others run: as good as a check.
bool yields::givesWay(const Instruction &I) {
  auto *Call = dyn_cast<CallBase>(&I);
  const Function *Callee = Call ? Call->getCalledFunction() : nullptr;
  return Callee && Callee->isDeclaration() && is_contained({"sched_yield", "thrd_yield", "pthread_yield"}, Callee->getName());
}

// They call functions of the program.
static bool comesBack(LibFunc Which) { return Which == LibFunc_qsort || Which == LibFunc_atexit; }

Passage Weights::of(const Instruction &I) const {
  if (I.isDebugOrPseudoInst() || isa<PHINode>(I))
    return Passage::plain(0);
  auto *Call = dyn_cast<CallBase>(&I);
  if (!Call) {
    return Passage::plain(size(I));
  }
  if (isa<MemIntrinsic>(Call))
    return Passage::plain(Library);
  if (isa<IntrinsicInst>(Call))
    return Passage::plain(size(I));
  if (auto *Text = dyn_cast<InlineAsm>(Call->getCalledOperand()))
    return Passage::plain(lines(*Text));
  uint64_t Arguments = 1 + std::min<uint64_t>(Call->arg_size(), 6);
  const Function *Callee = Call->getCalledFunction();
  // A function that nothing is known of checks, or does at most so much.
  Passage Unknown = Passage::plain(L.Leaf + Arguments);
  Unknown.Likely = std::min<uint64_t>(L.Leaf, 32) + Arguments;
  if (!Callee)
    return Unknown;
  if (auto There = Known.find(Callee); There != Known.end()) {
    Passage P = There->second;
    // What is beyond that is the callee's own segment, not part of the caller's.
    P.Before = std::min(P.Before, L.Leaf) + Arguments;
    P.After = std::min(P.After, L.Leaf) + 1;
    P.Likely += Arguments;
    if (P.Through)
      *P.Through += Arguments;
    return P;
  }
  if (givesWay(I))
    return {Library, 1, {}, Library};
  LibFunc Which;
  if (Callee->isDeclaration() && (TLI.getLibFunc(*Callee, Which) ? !comesBack(Which) : isLibrary(*Callee)))
    return Passage::plain(Library);
  return Unknown;
}

uint64_t Weights::through(const BasicBlock &B) const {
  uint64_t Sum = 0;
  for (const Instruction &I : B)
    Sum += of(I).Through.value_or(L.Leaf);
  return Sum;
}

uint64_t Weights::own(const BasicBlock &B) const {
  uint64_t Sum = 0;
  for (const Instruction &I : B) {
    auto *Call = dyn_cast<CallBase>(&I);
    bool Calls = Call && !isa<IntrinsicInst>(Call) && !isa<InlineAsm>(Call->getCalledOperand());
    Sum += Calls ? 1 + std::min<uint64_t>(Call->arg_size(), 6) : of(I).Through.value_or(0);
  }
  return Sum;
}

bool Weights::calls(const BasicBlock &B) const {
  for (const Instruction &I : B)
    if (auto *Call = dyn_cast<CallBase>(&I); Call && of(I).Through.value_or(L.Leaf) >= L.Leaf)
      return true;
  return false;
}
