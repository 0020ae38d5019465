// Exceptions thrown through checked frames, destructors that run, exceptions in loops, and functions that take a std::function.
#include "common.h"
#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>
static long alive;
struct Counted { Counted() { ++alive; } ~Counted() { --alive; } };
__attribute__((noinline)) static long deep(int n) {
  Counted c;
  if (n == 0) throw std::runtime_error("deep");
  long s = deep(n - 1);
  for (int i = 0; i < n; i++) s += i;
  return s;
}
__attribute__((noinline)) static long catches(int n) {
  long s = 0;
  for (int i = 0; i < n; i++) {
    try { if (i % 3 == 0) deep(i % 17); else s += i; } catch (const std::exception &e) { s += e.what()[0]; }
  }
  return s * 1000 + alive;
}
__attribute__((noinline)) static long sorts(int n) {
  std::vector<std::string> v;
  for (int i = 0; i < n; i++) v.push_back(std::to_string(i * 7919 % n));
  std::sort(v.begin(), v.end());
  std::map<std::string, long> m;
  for (auto &s : v) m[s] += s.size();
  long s = 0;
  for (auto &[k, l] : m) s = s * 3 + l + k[0];
  return s;
}
__attribute__((noinline)) static long applies(const std::function<long(long)> &f, long n) { long s = 0; for (long i = 0; i < n; i++) s ^= f(i); return s; }
int main() {
  MUST_ASK("catches", catches(30000));
  MUST_ASK("sorts", sorts(5000));
  MUST_ASK("applies", applies([](long x) { return x * x; }, 100000));
}
