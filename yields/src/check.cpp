// What a check is: the quantum's word, which each thread has in each program or library, goes down by what the segment weighs; below zero, a
// call in a cold block asks the runtime.
//
// Everything a check needs is in each object (linkonce_odr, hidden): an instrumented program needs no library, and runs without a runtime. The
// function that the runtime offers, `raddle_quantum_used`, is a weak import.
#include "yields.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;
using namespace yields;

// Without a runtime the next check that asks comes after 2^62 units: never.
static constexpr int64_t WithoutRuntime = int64_t(1) << 62;

GlobalVariable *Checks::word(StringRef Name, bool Hidden) {
  Type *I64 = Type::getInt64Ty(M.getContext());
  GlobalVariable *Word = M.getNamedGlobal(Name);
  if (Word && !Word->isDeclaration())
    return Word;
  if (!Word)
    Word = new GlobalVariable(M, I64, false, GlobalValue::ExternalLinkage, nullptr, Name);
  Word->setInitializer(ConstantInt::get(I64, 0));
  Word->setLinkage(Hidden ? GlobalValue::LinkOnceODRLinkage : GlobalValue::WeakODRLinkage);
  Word->setThreadLocalMode(GlobalValue::InitialExecTLSModel);
  if (Hidden)
    Word->setVisibility(GlobalValue::HiddenVisibility);
  Word->setDSOLocal(Hidden);
  Word->setAlignment(Align(8));
  Word->setComdat(M.getOrInsertComdat(Name));
  return Word;
}

// The cold call's target. It keeps all general registers (preserve_most), so that the segment that checks keeps its values in them.
static Function *slowPath(Module &M, GlobalVariable *Quantum) {
  constexpr const char *Name = "__raddle_yield";
  if (Function *There = M.getFunction(Name))
    return There;
  LLVMContext &C = M.getContext();
  Type *Void = Type::getVoidTy(C), *I64 = Type::getInt64Ty(C), *Ptr = PointerType::getUnqual(C);
  FunctionCallee Runtime = M.getOrInsertFunction("raddle_quantum_used", FunctionType::get(Void, {Ptr}, false));
  auto *Import = cast<Function>(Runtime.getCallee());
  if (Import->isDeclaration())
    Import->setLinkage(GlobalValue::ExternalWeakLinkage);
  Function *Slow = Function::Create(FunctionType::get(Void, false), GlobalValue::LinkOnceODRLinkage, Name, &M);
  Slow->setVisibility(GlobalValue::HiddenVisibility);
  Slow->setDSOLocal(true);
  Slow->setCallingConv(CallingConv::PreserveMost);
  Slow->setComdat(M.getOrInsertComdat(Name));
  for (auto Kind : {Attribute::NoInline, Attribute::Cold, Attribute::NoUnwind})
    Slow->addFnAttr(Kind);
  Slow->setUWTableKind(UWTableKind::Async);
  auto *Entry = BasicBlock::Create(C, "", Slow), *With = BasicBlock::Create(C, "with", Slow),
       *Without = BasicBlock::Create(C, "without", Slow);
  IRBuilder<> B(Entry);
  B.CreateCondBr(B.CreateIsNull(Import), Without, With);
  B.SetInsertPoint(With);
  B.CreateCall(Import->getFunctionType(), Import, {Quantum});
  B.CreateRetVoid();
  B.SetInsertPoint(Without);
  B.CreateStore(ConstantInt::getSigned(I64, WithoutRuntime), Quantum);
  B.CreateRetVoid();
  return Slow;
}

Checks::Checks(Module &M, const Limits &L) : M(M), L(L) {
  Quantum = word("__raddle_quantum", true);
  Slow = slowPath(M, Quantum);
  if (L.Measure) {
    Gap = word("__raddle_gap", false);
    Longest = word("__raddle_gap_max", false);
    // Nobody in this module need use it.
    appendToUsed(M, {Longest});
  }
}

// A place in the line table near the check: a debugger that stops in it shows the right function.
static DebugLoc nearby(const Instruction *At) {
  for (const Instruction *I = At; I; I = I->getNextNode())
    if (I->getDebugLoc())
      return I->getDebugLoc();
  return {};
}

void Checks::put(const Place &P) {
  DebugLoc Where = nearby(P.At);
  Instruction *At = P.To ? SplitEdge(P.At->getParent(), P.To)->getTerminator() : P.At;
  IRBuilder<> B(At);
  Type *I64 = B.getInt64Ty();
  if (L.Measure) {
    Value *Now = B.CreateLoad(I64, Gap), *Before = B.CreateLoad(I64, Longest);
    B.CreateStore(B.CreateSelect(B.CreateICmpUGT(Now, Before), Now, Before), Longest);
    B.CreateStore(B.getInt64(0), Gap);
  }
  Value *Left = B.CreateSub(B.CreateLoad(I64, Quantum), B.getInt64(P.Charge));
  B.CreateStore(Left, Quantum);
  Value *Used = B.CreateICmpSLT(Left, B.getInt64(0));
  MDNode *Rarely = MDBuilder(M.getContext()).createBranchWeights(1, 1 << 20);
  Instruction *Then = SplitBlockAndInsertIfThen(Used, At->getIterator(), false, Rarely);
  IRBuilder<> Cold(Then);
  CallInst *Call = Cold.CreateCall(Slow);
  Call->setCallingConv(CallingConv::PreserveMost);
  Call->setDoesNotThrow();
  if (Where)
    Call->setDebugLoc(Where);
}

void Checks::measure(Function &F, const Weights &W) {
  // Checks end blocks, so what a block weighs belongs before the check that it ends with.
  for (BasicBlock &Block : F) {
    uint64_t Weight = W.own(Block);
    BasicBlock::iterator At = Block.getFirstInsertionPt();
    if (At == Block.end() || Weight == 0)
      continue;
    IRBuilder<> B(&Block, At);
    B.CreateStore(B.CreateAdd(B.CreateLoad(B.getInt64Ty(), Gap), B.getInt64(Weight)), Gap);
    for (Instruction &I : Block)
      if (givesWay(I) && I.getNextNode())
        new StoreInst(B.getInt64(0), Gap, I.getNextNode()->getIterator());
  }
}
