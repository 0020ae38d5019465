// Which functions get checks, and in which order.
//
// Left as they are: declarations, naked functions, resolvers of indirect functions and what they call (in a static program they run before there
// is thread-local storage), interrupt handlers, coroutines that have not been split, functions annotated `raddle_uncooperative`, and the runtime's
// own; and what is a kernel's, by its code model or for want of a red zone.
#include "yields.h"
#include "llvm/ADT/SCCIterator.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Analysis/CallGraph.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/TargetParser/Triple.h"

using namespace llvm;
using namespace yields;

static constexpr const char *Done = "raddle-yields";
static constexpr const char *Excluded = "raddle_uncooperative";

// Functions that carry __attribute__((annotate("raddle_uncooperative"))).
static SmallPtrSet<const Function *, 8> annotated(Module &M) {
  SmallPtrSet<const Function *, 8> Found;
  GlobalVariable *All = M.getNamedGlobal("llvm.global.annotations");
  auto *List = All && All->hasInitializer() ? dyn_cast<ConstantArray>(All->getInitializer()) : nullptr;
  if (!List)
    return Found;
  for (const Use &Entry : List->operands()) {
    auto *Fields = dyn_cast<ConstantStruct>(Entry);
    if (!Fields || Fields->getNumOperands() < 2)
      continue;
    auto *F = dyn_cast<Function>(Fields->getOperand(0)->stripPointerCasts());
    auto *Text = dyn_cast<GlobalVariable>(Fields->getOperand(1)->stripPointerCasts());
    auto *Data = Text && Text->hasInitializer() ? dyn_cast<ConstantDataSequential>(Text->getInitializer()) : nullptr;
    if (F && Data && Data->isCString() && Data->getAsCString() == Excluded)
      Found.insert(F);
  }
  return Found;
}

// Of the runtime's crates, by either mangling. What they do between two of their instructions is not to be interrupted by themselves.
static bool isRuntime(StringRef Name) {
  // Where it calls the program's closures: what is in such a function is the program's (crates/scheduler/src/code_of_program.rs).
  if (Name.contains("15code_of_program"))
    return false;
  for (StringRef Crate : {"14raddle_machine", "14raddle_context", "13raddle_queues", "16raddle_scheduler", "12raddle_posix",
                          "15raddle_drop_in", "6raddle"}) {
    size_t At = Name.find(Crate);
    // A digit before it belongs to the length of another name.
    if (At != StringRef::npos && Name.starts_with("_") && (At == 0 || !isDigit(Name[At - 1])))
      return true;
  }
  return Name.starts_with("raddle_") || Name.starts_with("__raddle_");
}

static bool isLeft(const Function &F, const SmallPtrSetImpl<const Function *> &Annotated, const SmallPtrSetImpl<const Function *> &Resolvers) {
  return F.isDeclaration() || F.hasAvailableExternallyLinkage() || F.hasFnAttribute(Attribute::Naked) ||
         F.hasFnAttribute(Attribute::NoRedZone) || F.hasFnAttribute(Attribute::PresplitCoroutine) || F.hasFnAttribute("interrupt") || F.getCallingConv() == CallingConv::X86_INTR ||
         F.hasFnAttribute("no_caller_saved_registers") || F.hasFnAttribute(Excluded) || F.hasFnAttribute(Done) ||
         Annotated.contains(&F) || Resolvers.contains(&F) || isRuntime(F.getName());
}

// The function, and those that it calls by name, as far as they are in this module.
static void withCallees(const Function &F, SmallPtrSetImpl<const Function *> &All) {
  SmallVector<const Function *, 8> Open{&F};
  while (!Open.empty()) {
    const Function *Next = Open.pop_back_val();
    if (!All.insert(Next).second)
      continue;
    for (const Instruction &I : instructions(*Next))
      if (auto *Call = dyn_cast<CallBase>(&I); Call && Call->getCalledFunction())
        Open.push_back(Call->getCalledFunction());
  }
}

// Handed to a function of another module, such as qsort, which may call it in a loop that has no checks.
static bool isCalledBack(const Function &F) {
  for (const Use &U : F.uses())
    if (auto *Call = dyn_cast<CallBase>(U.getUser()); Call && !Call->isCallee(&U))
      if (const Function *To = Call->getCalledFunction(); !To || (To->isDeclaration() && !To->isIntrinsic()))
        return true;
  return false;
}

// A check writes the quantum's word and may let other threads run: what was found out about the function does not hold any more.
static void forgetPurity(Function &F) {
  F.removeFnAttr(Attribute::Memory);
  for (auto Kind : {Attribute::NoSync, Attribute::NoFree, Attribute::Speculatable, Attribute::NoRecurse})
    F.removeFnAttr(Kind);
  for (User *U : F.users())
    if (auto *Call = dyn_cast<CallBase>(U); Call && Call->getCalledFunction() == &F)
      Call->removeFnAttr(Attribute::Memory);
}

// Jumps that come back to the middle (setjmp), and blocks that are named by address: such functions keep the loops they have.
static bool mayShape(const Function &F) {
  if (F.hasFnAttribute(Attribute::OptimizeNone) || F.callsFunctionThatReturnsTwice())
    return false;
  for (const BasicBlock &B : F)
    if (isa<IndirectBrInst>(B.getTerminator()) || isa<CallBrInst>(B.getTerminator()) || (B.isEHPad() && !B.isLandingPad()))
      return false;
  return true;
}

PreservedAnalyses Yields::run(Module &M, ModuleAnalysisManager &MAM) {
  Triple Target(M.getTargetTriple());
  if (L.Off || M.getCodeModel() == CodeModel::Kernel || !Target.isOSLinux() || !Target.isArch64Bit() || !(Target.getArch() == Triple::x86_64 || Target.getArch() == Triple::aarch64))
    return PreservedAnalyses::all();
  auto &FAM = MAM.getResult<FunctionAnalysisManagerModuleProxy>(M).getManager();
  SmallPtrSet<const Function *, 8> Annotated = annotated(M), Resolvers;
  for (GlobalIFunc &I : M.ifuncs())
    if (const Function *R = I.getResolverFunction())
      withCallees(*R, Resolvers);

  // Callees before callers, so that a caller knows what its calls do.
  SmallVector<Function *, 64> Order;
  {
    CallGraph Graph(M);
    for (auto Group = scc_begin(&Graph); !Group.isAtEnd(); ++Group)
      for (CallGraphNode *N : *Group)
        if (Function *F = N->getFunction(); F && !isLeft(*F, Annotated, Resolvers))
          Order.push_back(F);
  }
  Passages Known;
  std::optional<Checks> Emitter;
  SmallVector<Function *, 64> Changed;
  for (Function *F : Order) {
    Turns T;
    if (mayShape(*F))
      shapeLoops(*F, FAM, Known, L, T);
    SmallVector<Place, 16> Places;
    Passage All = placeChecks(*F, FAM, Known, L, T, isCalledBack(*F), Places);
    // Who is linked in its place does as every function does, which is what an unknown one is taken for.
    if (!F->isInterposable())
      Known[F] = All;
    F->addFnAttr(Done);
    if (Places.empty())
      continue;
    if (!Emitter)
      Emitter.emplace(M, L);
    // Edges first: their ends are still whole.
    for (bool Edges : {true, false})
      for (const Place &P : Places)
        if ((P.To != nullptr) == Edges)
          Emitter->put(P);
    forgetPurity(*F);
    FAM.invalidate(*F, PreservedAnalyses::none());
    Changed.push_back(F);
  }
  if (L.Measure) {
    if (!Emitter)
      Emitter.emplace(M, L);
    for (Function *F : Order)
      Emitter->measure(*F, Weights(*F, FAM, Known, L));
  }
  return PreservedAnalyses::none();
}
