/* As preempt.c, in C++: exceptions through frames with destructors, containers, streams. Arguments: the turns to take, and the number of threads. */
#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <sched.h>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static std::atomic<long> turns;
static std::atomic<bool> over;
static long turns_wanted = 30;

struct Counts {
    long &living;
    explicit Counts(long &of) : living(of) { living++; }
    ~Counts() { living--; }
};

struct Own : std::runtime_error {
    int depth;
    explicit Own(int at) : std::runtime_error("depth " + std::to_string(at)), depth(at) {}
};

static int descend(int depth, int end, long &living) {
    Counts here(living);
    if (depth == end) {
        if (end % 3 == 0)
            throw Own(depth);
        if (end % 3 == 1)
            throw std::out_of_range("range");
        throw depth;
    }
    try {
        return descend(depth + 1, end, living) + 1;
    } catch (const Own &own) {
        assert(own.depth == end);
        if (depth % 5 == 0)
            throw;
        throw Own(own.depth);
    }
}

static void throws(unsigned seed) {
    long living = 0;
    do {
        for (int end = 1; end < 30; end++) {
            int caught = 0;
            try {
                descend(0, end, living);
            } catch (const Own &own) {
                caught = own.what() == "depth " + std::to_string(end) ? 1 : -1;
            } catch (const std::exception &) {
                caught = 2;
            } catch (int depth) {
                caught = depth == end ? 3 : -1;
            }
            assert(caught == end % 3 + 1 && living == 0);
        }
    } while (!over);
    (void)seed;
}

static void contains(unsigned seed) {
    do {
        std::map<std::string, std::shared_ptr<int>> map;
        std::vector<int> numbers;
        for (int i = 0; i < 500; i++) {
            seed = seed * 1103515245 + 12345;
            map[std::to_string(seed % 300)] = std::make_shared<int>(seed % 300);
            numbers.push_back(static_cast<int>(seed >> 8));
        }
        for (auto &[name, value] : map)
            assert(name == std::to_string(*value));
        std::sort(numbers.begin(), numbers.end(), [](int a, int b) { return a > b; });
        assert(std::is_sorted(numbers.rbegin(), numbers.rend()));
    } while (!over);
}

static void streams(unsigned seed) {
    do {
        std::ostringstream out;
        for (int i = 0; i < 200; i++)
            out << i << ' ' << i * 0.5 << '\n';
        std::istringstream in(out.str());
        int number, count = 0;
        double half;
        while (in >> number >> half)
            assert(number == count++ && half == number * 0.5);
        assert(count == 200);
    } while (!over);
    (void)seed;
}

int main(int count, char **arguments) {
    int threads = count > 2 ? atoi(arguments[2]) : 6;
    if (count > 1)
        turns_wanted = atol(arguments[1]);
    void (*const kinds[])(unsigned) = {throws, contains, streams};
    std::vector<std::thread> all;
    for (int i = 0; i < threads; i++)
        all.emplace_back(kinds[i % 3], i + 1);
    all.emplace_back([] {
        while (turns++ < turns_wanted)
            sched_yield();
        over = true;
    });
    for (auto &thread : all)
        thread.join();
    puts("nothing was lost");
}
