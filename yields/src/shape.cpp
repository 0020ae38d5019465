// Makes loops ready, so that a check stands at a chunk of turns instead of at each.
//
// A loop whose test compares an induction variable with a bound is strip-mined: an outer loop sets a nearer bound, the inner loop is the
// loop as it was (a vectorised one keeps its vector body) and costs nothing more for each turn:
//
//     outer:  limit = the bound, or the induction variable `chunk` turns on if that is nearer
//     header: ... the body ...
//     latch:  if (next < limit) goto header
//     left:   if (next < bound) goto outer      a check will stand on this edge
//
// Leaving the inner loop too early is harmless, since `left` asks the loop's own question; leaving it too late cannot be, since each limit is no
// farther than the bound. A variable that does nothing but count down to equality is replaced by one that counts the chunk down to zero, since
// a processor compares with zero for nothing. Another loop with a small body is unrolled with all its exits.
#include "yields.h"
#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/OptimizationRemarkEmitter.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Local.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"
#include "llvm/Transforms/Utils/LoopUtils.h"
#include "llvm/Transforms/Utils/ScalarEvolutionExpander.h"
#include "llvm/Transforms/Utils/UnrollLoop.h"

using namespace llvm;
using namespace yields;

// Loops of a heavier body check at each turn.
static constexpr uint64_t HeaviestMined = 256;
// Heavier bodies are not unrolled: two instructions more are few for them.
static constexpr uint64_t HeaviestUnrolled = 48;
static constexpr uint64_t LargestUnrolled = 64;
// In a larger function the register allocator pays more for the copies than the checks cost: SQLite's interpreter, 4,500 instructions, takes 2 %
// more instructions with its small loops unrolled. Up to there it is the other way round: heap sort and a red-black tree, inlined into one
// function of some 1,500, cost 1.13 and 1.09 times their instructions without, 0.95 and 0.87 with it.
// A loop's surroundings are the outermost loop that contains it: what lies before and after that one needs no register within.
static constexpr unsigned LargestSurroundingsInstructions = 2500;
// Nothing is unrolled any more where the function has grown to that: each loop is looked at with all that is around it, so a function of many loops
// would take the square of their number (800 loops in one: 84 s of processor time and no end without it).
static constexpr unsigned LargestFunctionInstructions = 10000;

namespace {

// A test at the end of a loop that can be given a nearer bound.
struct Test {
  BranchInst *Branch;
  Value *Variable, *Bound;
  CmpInst::Predicate Goes; // The loop goes on while Variable `Goes` Bound.
  const SCEVAddRecExpr *Values;
  int64_t Step;
};

} // namespace

static std::optional<Test> testOf(Loop &L, ScalarEvolution &SE) {
  BasicBlock *Latch = L.getLoopLatch(), *Header = L.getHeader();
  if (!Latch || !L.getLoopPreheader())
    return {};
  auto *Branch = dyn_cast<BranchInst>(Latch->getTerminator());
  if (!Branch || !Branch->isConditional() || Branch->getSuccessor(0) == Branch->getSuccessor(1))
    return {};
  auto *Compare = dyn_cast<ICmpInst>(Branch->getCondition());
  bool GoesOnTrue = Branch->getSuccessor(0) == Header;
  if (!Compare || L.contains(Branch->getSuccessor(GoesOnTrue ? 1 : 0)))
    return {};
  Value *X = Compare->getOperand(0), *Bound = Compare->getOperand(1);
  CmpInst::Predicate Goes = GoesOnTrue ? Compare->getPredicate() : Compare->getInversePredicate();
  if (L.isLoopInvariant(X)) {
    std::swap(X, Bound);
    Goes = CmpInst::getSwappedPredicate(Goes);
  }
  if (!L.isLoopInvariant(Bound) || !SE.isSCEVable(X->getType()) || Goes == CmpInst::ICMP_EQ)
    return {};
  if (X->getType()->isPointerTy() && X->getType()->getPointerAddressSpace() != 0)
    return {};
  auto *Values = dyn_cast<SCEVAddRecExpr>(SE.getSCEV(X));
  if (!Values || Values->getLoop() != &L || !Values->isAffine())
    return {};
  auto *Step = dyn_cast<SCEVConstant>(Values->getStepRecurrence(SE));
  if (!Step || Step->getAPInt().getSignificantBits() > 32 || Step->isZero())
    return {};
  int64_t By = Step->getAPInt().getSExtValue();
  if (Goes == CmpInst::ICMP_NE) {
    // The bound may be stepped over, and met after the variable has gone round: then the number of turns is not what the distance says.
    if (By != 1 && By != -1 && isa<SCEVCouldNotCompute>(SE.getExitCount(&L, Latch)))
      return {};
  } else {
    bool Upwards = Goes == CmpInst::ICMP_SLT || Goes == CmpInst::ICMP_SLE || Goes == CmpInst::ICMP_ULT || Goes == CmpInst::ICMP_ULE;
    if (Upwards != (By > 0))
      return {};
  }
  return Test{Branch, X, Bound, Goes, Values, By};
}

// The variable is there for the test alone.
static bool onlyCounts(PHINode &Carrier, const Test &T) {
  auto *Add = dyn_cast<BinaryOperator>(T.Variable);
  auto *Compare = cast<Instruction>(T.Branch->getCondition());
  if (!Add || Add->getOperand(0) != &Carrier || !isa<ConstantInt>(Add->getOperand(1)) || !Compare->hasOneUse() || !Carrier.hasOneUse())
    return false;
  return all_of(Add->users(), [&](User *U) { return U == &Carrier || U == Compare; });
}

// True if the loop now stands within an outer one; `Turns` is what the inner one makes at most.
static bool stripMine(Loop &L, ScalarEvolution &SE, uint64_t Turns) {
  std::optional<Test> Found = testOf(L, SE);
  if (!Found)
    return false;
  Test &T = *Found;
  BasicBlock *Pre = L.getLoopPreheader(), *Header = L.getHeader(), *Latch = L.getLoopLatch();
  Type *Narrow = T.Variable->getType();
  const DataLayout &DL = Header->getModule()->getDataLayout();
  Type *Number = Narrow->isPointerTy() ? DL.getIntPtrType(Narrow) : Narrow;
  unsigned Bits = Number->getIntegerBitWidth();
  // What `Turns` turns add to the variable must be small beside what it can hold.
  uint64_t By = T.Step < 0 ? -uint64_t(T.Step) : uint64_t(T.Step);
  if (Bits > 64 || Bits < 16)
    return false;
  while (Turns > 1 && By * Turns >= (uint64_t(1) << (Bits - 2)))
    Turns /= 2;
  if (By * Turns >= (uint64_t(1) << (Bits - 2)))
    return false;
  // The header phi that the variable becomes: its value there is the variable's at the last test. Otherwise a phi of our own.
  const SCEV *Before = SE.getMinusSCEV(T.Values->getStart(), T.Values->getStepRecurrence(SE));
  PHINode *Carrier = nullptr;
  for (PHINode &P : Header->phis())
    if (P.getIncomingValueForBlock(Latch) == T.Variable && SE.getSCEV(P.getIncomingValueForBlock(Pre)) == Before)
      Carrier = &P;
  Value *First = nullptr;
  if (!Carrier) {
    SCEVExpander Expander(SE,
#if LLVM_VERSION_MAJOR < 22
                          DL,
#endif
                          "yields");
    if (!Expander.isSafeToExpandAt(Before, Pre->getTerminator()))
      return false;
    First = Expander.expandCodeFor(Before, Narrow, Pre->getTerminator()->getIterator());
  }

  bool Counts = Carrier && T.Goes == CmpInst::ICMP_NE && !Narrow->isPointerTy() && onlyCounts(*Carrier, T);
  LLVMContext &C = Header->getContext();
  Function *F = Header->getParent();
  BasicBlock *Exit = T.Branch->getSuccessor(T.Branch->getSuccessor(0) == Header ? 1 : 0);
  BasicBlock *Outer = BasicBlock::Create(C, "yields.outer", F, Header);
  BasicBlock *Left = BasicBlock::Create(C, "yields.left", F, Latch->getNextNode());
  BasicBlock *Again = BasicBlock::Create(C, "yields.again", F, Left->getNextNode());
  Pre->getTerminator()->replaceSuccessorWith(Header, Outer);

  IRBuilder<> B(Outer);
  Value *Last = nullptr;
  for (PHINode &P : Header->phis()) {
    PHINode *Over = B.CreatePHI(P.getType(), 2, P.getName());
    Over->addIncoming(P.getIncomingValueForBlock(Pre), Pre);
    Over->addIncoming(P.getIncomingValueForBlock(Latch), Again);
    int At = P.getBasicBlockIndex(Pre);
    P.setIncomingValue(At, Over);
    P.setIncomingBlock(At, Outer);
    if (&P == Carrier)
      Last = Over;
  }
  if (!Carrier) {
    PHINode *Over = B.CreatePHI(Narrow, 2);
    Over->addIncoming(First, Pre);
    Over->addIncoming(T.Variable, Again);
    Last = Over;
  }
  // Pointers are compared as such, or the code generator would keep the number beside the pointer and move both at each turn.
  Value *Bound = T.Bound, *Place = Last;
  if (Narrow->isPointerTy()) {
    Last = B.CreatePtrToInt(Last, Number);
    Bound = B.CreatePtrToInt(Bound, Number);
  }
  Value *Far = ConstantInt::get(Number, By * Turns);
  Value *Next = T.Step > 0 ? B.CreateAdd(Last, Far) : B.CreateSub(Last, Far);
  Value *IsFar, *Distance = nullptr;
  if (T.Goes == CmpInst::ICMP_NE) {
    Distance = T.Step > 0 ? B.CreateSub(Bound, Last) : B.CreateSub(Last, Bound);
    IsFar = B.CreateICmpUGT(Distance, Far);
  } else {
    IsFar = B.CreateICmp(CmpInst::getStrictPredicate(T.Goes), Next, Bound);
  }
  if (Narrow->isPointerTy())
    Next = B.CreatePtrAdd(Place, T.Step > 0 ? Far : B.CreateNeg(Far));
  Value *Limit = Counts ? B.CreateSelect(IsFar, Far, Distance, "yields.chunk") : B.CreateSelect(IsFar, Next, T.Bound, "yields.limit");
  B.CreateBr(Header);

  Value *Old = T.Branch->getCondition();
  // What the latch compares, and with what; what is asked after the chunk. Asked there, so that one comparison is made at each turn.
  Value *Compared = T.Variable, *With = Limit, *Asked = T.Variable;
  if (Counts) {
    B.SetInsertPoint(cast<Instruction>(T.Variable));
    Compared = B.CreateSub(Carrier, ConstantInt::get(Number, By), "yields.rest");
    With = ConstantInt::get(Number, 0);
    Carrier->setIncomingValueForBlock(Outer, Limit);
    Carrier->setIncomingValueForBlock(Latch, Compared);
    B.SetInsertPoint(Left);
    Asked = T.Step > 0 ? B.CreateAdd(Last, Limit) : B.CreateSub(Last, Limit);
    cast<PHINode>(Last)->setIncomingValueForBlock(Again, Asked);
  }
  B.SetInsertPoint(T.Branch);
  auto *Inner = B.CreateCondBr(B.CreateICmp(T.Goes, Compared, With), Header, Left);
  Inner->setMetadata(LLVMContext::MD_loop, T.Branch->getMetadata(LLVMContext::MD_loop));
  DebugLoc Where = T.Branch->getDebugLoc();
  Inner->setDebugLoc(Where);
  T.Branch->eraseFromParent();
  B.SetInsertPoint(Left);
  B.CreateCondBr(B.CreateICmp(T.Goes, Asked, T.Bound), Again, Exit)->setDebugLoc(Where);
  B.SetInsertPoint(Again);
  B.CreateBr(Outer)->setDebugLoc(Where);
  Exit->replacePhiUsesWith(Latch, Left);
  RecursivelyDeleteTriviallyDeadInstructions(Old);
  return true;
}

// What a turn weighs, inner loops at what they do at most, or until they check; none where a function is called that is not known to be small.
static std::optional<uint64_t> bodyOf(const Loop &L, LoopInfo &LI, const Weights &W, const Turns &Known,
                                      const SmallPtrSetImpl<BasicBlock *> &Unrolled) {
  uint64_t Sum = 0;
  for (BasicBlock *B : L.blocks()) {
    uint64_t Times = 1;
    if (W.calls(*B))
      return {};
    for (Loop *Inner = LI.getLoopFor(B); Inner != &L; Inner = Inner->getParentLoop()) {
      if (Unrolled.contains(Inner->getHeader()))
        continue;
      auto There = Known.Most.find(Inner->getHeader());
      if (There == Known.Most.end())
        return {};
      Times *= There->second;
      if (Times > 1000000)
        return {};
    }
    Sum += W.through(*B) * Times;
  }
  return std::max<uint64_t>(Sum, 1);
}

// Compared with what the loop does not change.
static bool isTested(const Instruction &Variable, const Loop &L) {
  return any_of(Variable.users(), [&](const User *U) {
    auto *Compare = dyn_cast<ICmpInst>(U);
    return Compare && L.contains(Compare) && (L.isLoopInvariant(Compare->getOperand(0)) || L.isLoopInvariant(Compare->getOperand(1)));
  });
}

static size_t surroundings(const Loop &L) {
  size_t Sum = 0;
  for (const BasicBlock *B : L.getOutermostLoop()->blocks())
    Sum += B->size();
  return Sum;
}

// A way back out of a switch gets a block of its own: the unroller takes no other ends of a turn than branches.
static bool endByBranch(const Loop &L, LoopInfo &LI, DominatorTree &DT) {
  BasicBlock *Latch = L.getLoopLatch(), *Header = L.getHeader();
  if (!isa<SwitchInst>(Latch->getTerminator()) || count(successors(Latch), Header) != 1)
    return false;
  SplitEdge(Latch, Header, &DT, &LI);
  return true;
}

// As the optimiser leaves a loop that it has unrolled without knowing how long it is: it counts turns several at a time, up to a multiple of that.
static bool isUnrolled(const Loop &L, ScalarEvolution &SE) {
  auto *Branch = dyn_cast<BranchInst>(L.getLoopLatch()->getTerminator());
  auto *Compare = Branch && Branch->isConditional() ? dyn_cast<ICmpInst>(Branch->getCondition()) : nullptr;
  if (!Compare || !Compare->isEquality() || !SE.isSCEVable(Compare->getOperand(0)->getType()))
    return false;
  auto *Values = dyn_cast<SCEVAddRecExpr>(SE.getSCEV(Compare->getOperand(0)));
  auto *Step = Values && Values->getLoop() == &L ? dyn_cast<SCEVConstant>(Values->getStepRecurrence(SE)) : nullptr;
  if (!Step || !L.isLoopInvariant(Compare->getOperand(1)))
    return false;
  APInt By = Step->getAPInt().abs();
  return By.ugt(1) && By.isPowerOf2() && SE.getConstantMultiple(SE.getSCEV(Compare->getOperand(1))).urem(By) == 0;
}

static bool unroll(Loop &L, uint64_t Body, LoopInfo &LI, DominatorTree &DT, ScalarEvolution &SE, FunctionAnalysisManager &FAM,
                   const Limits &Lim) {
  Function &F = *L.getHeader()->getParent();
  size_t Size = 0;
  for (BasicBlock *B : L.blocks()) {
    for (Instruction &I : *B) {
      if (auto *Call = dyn_cast<CallBase>(&I); Call && (Call->isConvergent() || Call->cannotDuplicate() || !isa<IntrinsicInst>(Call)))
        return false;
      Size += !I.isDebugOrPseudoInst();
    }
  }
  auto *Branch = dyn_cast<BranchInst>(L.getLoopLatch()->getTerminator());
  bool Exits = Branch && Branch->isConditional() && L.isLoopExiting(L.getLoopLatch());
  if (!Branch || !(Exits || Branch->isUnconditional()) || Size > LargestUnrolled || F.hasOptSize() || F.hasMinSize() ||
      surroundings(L) > LargestSurroundingsInstructions || F.getInstructionCount() > LargestFunctionInstructions ||
      L.getHeader()->hasAddressTaken() || !L.isInnermost() || !L.isSafeToClone())
    return false;
  unsigned Count = (Lim.Unrolled + Body - 1) / Body;
  while (Count > 1 && Count * Size > 512)
    Count /= 2;
  if (Count < 2)
    return false;
  // Two kinds of variables for which the code generator would otherwise keep one variable for each copy of the body, computed ahead of the loop and
  // in registers all through it: those whose step is not a constant, and those that a test compares with a bound.
  for (PHINode &P : L.getHeader()->phis()) {
    if (!SE.isSCEVable(P.getType()))
      continue;
    auto *Values = dyn_cast<SCEVAddRecExpr>(SE.getSCEV(&P));
    auto *Next = dyn_cast<Instruction>(P.getIncomingValueForBlock(L.getLoopLatch()));
    if (!Values || Values->getLoop() != &L || !Next || isa<PHINode>(Next) || !L.contains(Next))
      continue;
    if (isa<SCEVConstant>(Values->getStepRecurrence(SE)) && !isTested(P, L) && !isTested(*Next, L))
      continue;
    auto *Frozen = new FreezeInst(Next, "", std::next(Next->getIterator()));
    Next->replaceUsesWithIf(Frozen, [&](Use &U) { return U.getUser() != Frozen; });
    SE.forgetLoop(&L);
  }
  UnrollLoopOptions Options{};
  Options.Count = Count;
  Options.Force = true;
  Options.ForgetAllSCEV = true;
  OptimizationRemarkEmitter ORE(&F);
  return UnrollLoop(&L, Options, &LI, &SE, &DT, &FAM.getResult<AssumptionAnalysis>(F), &FAM.getResult<TargetIRAnalysis>(F), &ORE,
                    true) != LoopUnrollResult::Unmodified;
}

static bool isVector(const Loop &L) {
  for (BasicBlock *B : L.blocks())
    for (Instruction &I : *B)
      if (I.getType()->isVectorTy())
        return true;
  return false;
}

// Does one loop that has not been looked at. True if there was one; `Changed` if it is not what it was.
static bool shapeOne(Function &F, FunctionAnalysisManager &FAM, const Passages &Known, const Limits &L, Turns &T,
                     SmallPtrSetImpl<BasicBlock *> &Seen, SmallPtrSetImpl<BasicBlock *> &Unrolled, bool &Changed) {
  auto &LI = FAM.getResult<LoopAnalysis>(F);
  auto &DT = FAM.getResult<DominatorTreeAnalysis>(F);
  auto &SE = FAM.getResult<ScalarEvolutionAnalysis>(F);
  Weights W(F, FAM, Known, L);
  // Inner ones first.
  SmallVector<Loop *, 4> Loops = LI.getLoopsInPreorder();
  for (Loop *Here : reverse(Loops)) {
    BasicBlock *Header = Here->getHeader();
    if (!Seen.insert(Header).second)
      continue;
    if (simplifyLoop(Here, &DT, &LI, &SE, &FAM.getResult<AssumptionAnalysis>(F), nullptr, false))
      Changed = true;
    std::optional<uint64_t> Body = bodyOf(*Here, LI, W, T, Unrolled);
    if (!Body || !Here->isLoopSimplifyForm())
      continue;
    if (uint64_t Most = SE.getSmallConstantMaxTripCount(Here); Most && Most * *Body <= L.Gap / 4 * 3) {
      T.Most[Header] = Most;
      continue;
    }
    // SCEV is asked for values of this loop, which must be used outside through phis only.
    formLCSSARecursively(*Here, DT, &LI, &SE);
    bool Long = SE.getSmallConstantTripCount(Here) > 0 || isVector(*Here);
    // What the optimiser has unrolled it takes for long, too.
    bool Mined = Long || !Here->isInnermost() || isUnrolled(*Here, SE) || findOptionMDForLoop(Here, "llvm.loop.unroll.disable");
    if (Mined && *Body <= HeaviestMined && *Body * 4 <= L.Chunk && stripMine(*Here, SE, L.Chunk / *Body)) {
      T.Most[Header] = L.Chunk / *Body;
      // The outer loop's turns are chunks: it is done, too.
      Seen.insert(Header->getPrevNode());
      T.Chunked.insert(Header->getPrevNode());
      return Changed = true;
    }
    if (Long || *Body > HeaviestUnrolled || L.Unrolled < 2 * *Body)
      continue;
    Changed |= endByBranch(*Here, LI, DT);
    if (unroll(*Here, *Body, LI, DT, SE, FAM, L)) {
      Unrolled.insert(Header);
      return Changed = true;
    }
  }
  return false;
}

bool yields::shapeLoops(Function &F, FunctionAnalysisManager &FAM, const Passages &Known, const Limits &L, Turns &T) {
  bool Any = false;
  SmallPtrSet<BasicBlock *, 16> Seen, Unrolled;
  for (bool More = true; More;) {
    bool Changed = false;
    More = shapeOne(F, FAM, Known, L, T, Seen, Unrolled, Changed);
    if (Changed)
      FAM.invalidate(F, PreservedAnalyses::none());
    Any |= Changed;
  }
  return Any;
}
