// Where checks go: on a function's graph with loops folded into nodes, innermost loops first.
//
// Rules, and what each is for:
// R1. A loop without a known small number of turns has a check on each way round: the only cycles without one are bounded.
// R2. No way from check to check, as far as it stays in one function, weighs more than `Gap`: a check goes before the node that would exceed it.
// R3. No way through a function without a check weighs more than `Leaf`. A call of an unknown function is counted `Leaf` and more, so a function
//     that calls one has a check: recursion, direct and indirect, is covered. The check stands at the first node from which no light way goes to
//     the end: an early return stays free.
#include "yields.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/Analysis/BlockFrequencyInfo.h"
#include "llvm/Analysis/BranchProbabilityInfo.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;
using namespace yields;

static constexpr uint64_t Never = uint64_t(1) << 40;

// What a function that only hands on weighs at most, in instructions, its call's arguments included. Checks in a Rust program (std, serde_json, regex)
// with 0, 8, 16 and 32: 5,975, 5,854, 5,706 and 5,698; its formatting takes 0.4 % more instructions with 0, and the same with the others. Each such
// function adds as much to the bound at most.
static constexpr uint64_t HandsOnInstructions = 16;

// One straight line to one call, of a function that is known by name and is no part of a circle in this module: a check here would only stand
// before that of the function that is called. A circle of such functions has no way out.
static bool handsOn(const Function &F, const Weights &W, const Passages &Known) {
  if (F.size() != 1 || !isa<ReturnInst>(F.front().getTerminator()))
    return false;
  const Function *To = nullptr;
  for (const Instruction &I : F.front()) {
    auto *Call = dyn_cast<CallBase>(&I);
    if (!Call || isa<IntrinsicInst>(Call))
      continue;
    if (To || !(To = Call->getCalledFunction()))
      return false;
  }
  return To && (To->isDeclaration() || Known.contains(To)) && W.own(F.front()) <= HandsOnInstructions;
}

namespace {

struct Node {
  BasicBlock *Block;
  Loop *Sub; // Folded into this node; null for a block.
  SmallVector<unsigned, 2> Next, Previous;
  SmallVector<double, 2> Flows; // How often each edge to `Next` is taken.
  double Left = 0;              // How often the region is left from here.
  bool Leaves = false; // An edge goes out of the region, or the function ends here.
  bool Forced = false; // An edge back that belongs to no natural loop ends here.
};

// State of a path at a point.
struct Path {
  bool Reached = false;
  uint64_t Since = 0;                // Since the last check, or the region's beginning: the longest.
  double Likely = 0;                 // The same on the average, less what a check before has charged ahead.
  double Flow = 0;                   // How often the ways that have met here are taken.
  std::optional<uint64_t> FromStart; // Without any check since the region's beginning: the longest.

  void meet(const Path &Other, double Often) {
    if (!Other.Reached)
      return;
    Likely = !Reached || Flow + Often <= 0 ? std::max(Likely, Other.Likely) : (Likely * Flow + Other.Likely * Often) / (Flow + Often);
    Flow += Often;
    Reached = true;
    Since = std::max(Since, Other.Since);
    if (Other.FromStart)
      FromStart = std::max(FromStart.value_or(0), *Other.FromStart);
  }

  // What lies ahead up to there has been charged.
  void check(double Ahead = 0) {
    Since = 0;
    Likely = -Ahead;
    FromStart.reset();
  }

  uint64_t charge() const { return Likely < 1 ? 0 : uint64_t(Likely); }

  void pass(const Passage &P) {
    if (P.Through) {
      Since = std::max(Since + *P.Through, P.After);
      Likely += P.Likely;
      if (FromStart)
        *FromStart += *P.Through;
    } else {
      Since = P.After;
      Likely = double(std::min(P.Likely, P.After));
      FromStart.reset();
    }
  }
};

class Placer {
public:
  Placer(Function &F, FunctionAnalysisManager &FAM, const Passages &Known, const Limits &L, const Turns &T,
         bool CalledBack, SmallVectorImpl<Place> &Places)
      : F(F), LI(FAM.getResult<LoopAnalysis>(F)), BFI(FAM.getResult<BlockFrequencyAnalysis>(F)),
        BPI(FAM.getResult<BranchProbabilityAnalysis>(F)), W(F, FAM, Known, L), L(L), T(T),
        Light(CalledBack ? 0 : handsOn(F, W, Known) ? L.Leaf + 2 * HandsOnInstructions : L.Leaf),
        Places(Places) {}

  Passage function() {
    for (Loop *Top : LI)
      inner(*Top);
    return region(nullptr);
  }

private:
  void inner(Loop &Here) {
    for (Loop *Sub : Here)
      inner(*Sub);
    Folded[&Here] = region(&Here);
  }

  // Of which the block is a part: the outermost loop inside the region, or none.
  Loop *sub(BasicBlock *B, Loop *Region) {
    Loop *Found = LI.getLoopFor(B);
    if (Found == Region)
      return nullptr;
    while (Found && Found->getParentLoop() != Region)
      Found = Found->getParentLoop();
    return Found;
  }

  void build(Loop *Region);
  void number(unsigned At, SmallVectorImpl<char> &State);
  Passage region(Loop *Region);
  void block(BasicBlock &B, Path &P);
  void put(Instruction *At, BasicBlock *To, uint64_t Charge) { Places.push_back({At, To, std::max<uint64_t>(Charge, 1)}); }
  void putBefore(const Node &N, uint64_t Charge);
  void putOnEdge(BasicBlock *Latch, BasicBlock *Header, uint64_t Charge);

  Function &F;
  LoopInfo &LI;
  BlockFrequencyInfo &BFI;
  BranchProbabilityInfo &BPI;
  Weights W;
  const Limits &L;
  const Turns &T;
  // What a way through the function may weigh without a check.
  const uint64_t Light;
  SmallVectorImpl<Place> &Places;
  DenseMap<Loop *, Passage> Folded;
  // Of the region that is looked at.
  std::vector<Node> Nodes;
  std::vector<unsigned> Order;
  uint64_t Prefix = 0; // The longest from the region's beginning to a check.
};

} // namespace

void Placer::build(Loop *Region) {
  Nodes.clear();
  Order.clear();
  DenseMap<BasicBlock *, unsigned> Of;
  SmallVector<BasicBlock *, 32> Blocks;
  if (Region)
    Blocks.append(Region->block_begin(), Region->block_end());
  else
    for (BasicBlock &B : F)
      Blocks.push_back(&B);
  BasicBlock *Entry = Region ? Region->getHeader() : &F.getEntryBlock();
  auto nodeOf = [&](BasicBlock *B) {
    Loop *Sub = sub(B, Region);
    BasicBlock *Key = Sub ? Sub->getHeader() : B;
    auto [There, New] = Of.try_emplace(Key, Nodes.size());
    if (New)
      Nodes.push_back({Key, Sub, {}, {}, {}});
    return There->second;
  };
  nodeOf(Entry);
  for (BasicBlock *B : Blocks) {
    unsigned From = nodeOf(B);
    double Often = double(BFI.getBlockFreq(B).getFrequency());
    if (succ_empty(B)) {
      Nodes[From].Leaves = true;
      Nodes[From].Left += Often;
    }
    SmallPtrSet<BasicBlock *, 4> Met;
    for (BasicBlock *To : successors(B)) {
      if (!Met.insert(To).second)
        continue;
      BranchProbability Part = BPI.getEdgeProbability(B, To);
      double Flow = Often * Part.getNumerator() / BranchProbability::getDenominator();
      if (Region && !Region->contains(To)) {
        Nodes[From].Leaves = true;
        Nodes[From].Left += Flow;
        continue;
      }
      if (Region && To == Entry)
        continue;
      unsigned Into = nodeOf(To);
      if (Into != From) {
        auto *There = find(Nodes[From].Next, Into);
        if (There == Nodes[From].Next.end()) {
          Nodes[From].Next.push_back(Into);
          Nodes[From].Flows.push_back(Flow);
        } else {
          Nodes[From].Flows[There - Nodes[From].Next.begin()] += Flow;
        }
      } else if (!Nodes[From].Sub)
        Nodes[From].Forced = true; // A block that is its own successor, and no loop: unreachable code.
    }
  }
  // Depth first; edges back are dropped, and their ends check.
  std::vector<std::pair<unsigned, unsigned>> Stack{{0, 0}};
  std::vector<char> State(Nodes.size(), 0);
  State[0] = 1;
  while (!Stack.empty()) {
    auto &[At, Edge] = Stack.back();
    if (Edge == Nodes[At].Next.size()) {
      State[At] = 2;
      Order.push_back(At);
      Stack.pop_back();
      continue;
    }
    unsigned Into = Nodes[At].Next[Edge];
    if (State[Into] == 1) {
      Nodes[Into].Forced = true;
      Nodes[At].Next.erase(Nodes[At].Next.begin() + Edge);
      Nodes[At].Flows.erase(Nodes[At].Flows.begin() + Edge);
      continue;
    }
    ++Edge;
    if (State[Into] == 0) {
      State[Into] = 1;
      Stack.push_back({Into, 0});
    }
  }
  std::reverse(Order.begin(), Order.end());
  for (unsigned At : Order)
    for (unsigned Into : Nodes[At].Next)
      Nodes[Into].Previous.push_back(At);
}

// The first place in a block where one may stand: behind the slots of the entry block, which must stay in it.
static Instruction *firstPlace(BasicBlock &B) {
  BasicBlock::iterator At = B.getFirstInsertionPt();
  if (At == B.end())
    return nullptr;
  if (B.isEntryBlock())
    for (BasicBlock::iterator I = At; I != B.end(); ++I)
      if (isa<AllocaInst>(I) && cast<AllocaInst>(I)->isStaticAlloca())
        At = std::next(I);
  // What must be near the beginning stays there.
  for (; At != B.end(); ++At)
    if (auto *Call = dyn_cast<IntrinsicInst>(At); !Call || Call->getIntrinsicID() != Intrinsic::localescape)
      break;
  return &*At;
}

void Placer::putBefore(const Node &N, uint64_t Charge) {
  BasicBlock *Pre = N.Sub ? N.Sub->getLoopPreheader() : nullptr;
  Instruction *At = Pre ? Pre->getTerminator() : firstPlace(*N.Block);
  if (At)
    put(At, nullptr, Charge);
}

void Placer::putOnEdge(BasicBlock *Latch, BasicBlock *Header, uint64_t Charge) {
  Instruction *End = Latch->getTerminator();
  auto *Branch = dyn_cast<BranchInst>(End);
  bool One = Branch && Branch->isConditional() && Branch->getSuccessor(0) != Branch->getSuccessor(1);
  put(End, One ? Header : nullptr, Charge);
}

// Through one block, with checks where it is too long.
void Placer::block(BasicBlock &B, Path &P) {
  Instruction *First = firstPlace(B);
  bool May = false;
  for (Instruction &I : B) {
    May |= &I == First;
    Passage Here = W.of(I);
    auto *Before = dyn_cast_or_null<CallInst>(I.getPrevNode());
    bool Tail = Before && Before->isMustTailCall();
    if (May && !Tail && P.Since > 0 && P.Since + Here.Before > L.Gap) {
      Prefix = std::max(Prefix, P.FromStart.value_or(0));
      put(&I, nullptr, P.charge());
      P.check();
    }
    if (!Here.Through && P.FromStart)
      Prefix = std::max(Prefix, *P.FromStart + Here.Before);
    P.pass(Here);
  }
}

Passage Placer::region(Loop *Region) {
  build(Region);
  Prefix = 0;
  auto through = [&](const Node &N) -> std::optional<uint64_t> {
    if (N.Sub)
      return Folded[N.Sub].Through;
    uint64_t Sum = 0;
    for (Instruction &I : *N.Block) {
      auto Here = W.of(I).Through;
      if (!Here)
        return {};
      Sum += *Here;
    }
    return Sum;
  };
  auto likely = [&](const Node &N) {
    if (N.Sub)
      return Folded[N.Sub].Likely;
    uint64_t Sum = 0;
    for (Instruction &I : *N.Block)
      Sum += W.of(I).Likely;
    return Sum;
  };
  // The lightest way from a node's beginning to the function's end or to a check, and what is ahead on the average.
  std::vector<uint64_t> Rest(Nodes.size(), Never);
  std::vector<double> Ahead(Nodes.size(), 0);
  std::vector<char> Returns(Nodes.size(), 0);
  if (!Region) {
    for (unsigned At : reverse(Order)) {
      Node &N = Nodes[At];
      bool Ends = N.Leaves && !isa<UnreachableInst>(N.Block->getTerminator());
      uint64_t Best = Ends ? 0 : Never;
      Returns[At] = Ends;
      for (unsigned Into : N.Next) {
        Best = std::min(Best, Rest[Into]);
        Returns[At] |= Returns[Into];
      }
      double All = Ends ? N.Left : 0, Sum = 0;
      for (auto [Into, Flow] : zip(N.Next, N.Flows)) {
        All += Flow;
        Sum += Flow * Ahead[Into];
      }
      auto Own = through(N);
      Ahead[At] = std::min(double(L.Gap), (Own && All > 0 ? Sum / All : 0) + double(likely(N)));
      Rest[At] = !Own ? 0 : std::min(Never, Best + *Own);
    }
  }
  std::vector<Path> Out(Nodes.size());
  Path End; // Where the region is left.
  Path Round; // At the latch.
  BasicBlock *Latch = Region ? Region->getLoopLatch() : nullptr;
  for (unsigned At : Order) {
    Node &N = Nodes[At];
    Path P;
    if (At == 0) {
      P.Reached = true;
      P.FromStart = 0;
    }
    for (unsigned From : N.Previous)
      P.meet(Out[From], Nodes[From].Flows[find(Nodes[From].Next, At) - Nodes[From].Next.begin()]);
    uint64_t Before = N.Sub ? Folded[N.Sub].Before : 0;
    bool Heavy = !Region && Returns[At] && P.FromStart && *P.FromStart + Rest[At] > Light;
    bool Long = P.Since > 0 && P.Since + Before > L.Gap;
    if (N.Forced || Heavy || Long) {
      Prefix = std::max(Prefix, P.FromStart.value_or(0));
      // What the check at the beginning of a function is for comes after it.
      double Later = Heavy ? Ahead[At] : 0;
      putBefore(N, P.charge() + uint64_t(Later));
      P.check(Later);
    }
    if (N.Sub) {
      if (P.FromStart)
        Prefix = std::max(Prefix, *P.FromStart + Before);
      P.pass(Folded[N.Sub]);
    } else {
      block(*N.Block, P);
    }
    Out[At] = P;
    if (N.Leaves)
      End.meet(P, N.Left);
    if (Region && (N.Sub ? N.Sub->contains(Latch) : N.Block == Latch))
      Round = P;
  }
  if (!Region) {
    Passage All{std::max(Prefix, End.FromStart.value_or(0)), End.Since, End.FromStart, End.charge()};
    return All;
  }

  BasicBlock *Header = Region->getHeader();
  if (T.Chunked.contains(Header) && Round.FromStart)
    Round.Likely = double(*Round.FromStart);
  uint64_t Likely = std::max(End.charge(), Round.charge());
  if (!Latch) {
    // Several edges back that could not be made one: a check at the header serves them all.
    if (Instruction *Place = firstPlace(*Header))
      put(Place, nullptr, Likely);
    return {0, std::max(End.Since, Prefix), {}, Likely};
  }
  if (auto Most = T.Most.find(Header); Most != T.Most.end() && Round.FromStart) {
    uint64_t All = Most->second * std::max(*Round.FromStart, End.FromStart.value_or(0));
    All = std::min(All, L.Gap);
    return {std::max(All, Prefix), std::max(All, End.Since), All, std::max(All / 8, Likely)};
  }
  // A turn that no small function would make: the check stands at its beginning, so that a function that is nothing but the loop needs no other.
  uint64_t Turn = std::max(Round.FromStart.value_or(0), End.FromStart.value_or(0));
  if (Instruction *Place = firstPlace(*Header); Place && Round.FromStart && Turn > Light) {
    put(Place, nullptr, Round.charge());
    return {0, std::max(End.Since, Turn), {}, Likely};
  }
  bool Checks = Round.FromStart || Round.Since + std::max(Prefix, End.FromStart.value_or(0)) > L.Gap;
  if (Checks)
    putOnEdge(Latch, Header, Round.charge());
  uint64_t Longest = std::max({Prefix, End.FromStart.value_or(0), Checks ? Round.FromStart.value_or(0) : 0});
  uint64_t After = std::max(End.Since, Checks ? 0 : Round.Since + End.FromStart.value_or(0));
  return {Longest, After, End.FromStart, Likely};
}

Passage yields::placeChecks(Function &F, FunctionAnalysisManager &FAM, const Passages &Known, const Limits &L, const Turns &T, bool CalledBack,
                            SmallVectorImpl<Place> &Places) {
  return Placer(F, FAM, Known, L, T, CalledBack, Places).function();
}
