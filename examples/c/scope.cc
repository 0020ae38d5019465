// Threads that borrow from the block that started them, by raddle.hpp.
//
//     c++ -std=c++17 scope.cc $(pkg-config --cflags --libs raddle) -o scope && ./scope
#include <cstdio>
#include <raddle.hpp>

int main() {
    long answer = 0;
    raddle::thread(
        [&answer](long a, long b) { answer = a * b; }, 6, 7)
        .join();
    if (answer != 42) return 1;
    raddle::pool pool(2, "priority(2, steal)");
    long sum = 0;
    std::mutex lock;
    {
        raddle::scope scope(pool);
        for (long i = 0; i < 100; i++)
            scope.spawn([&sum, &lock, i] {
                std::lock_guard<std::mutex> guard(lock);
                sum += i;
            });
        // Here all have ended: `sum` is theirs no more.
    }
    const char *seen = "lost";
    try {
        raddle::scope scope(pool);
        scope.spawn_at(0, [] { throw std::runtime_error("none"); });
        scope.join();
    } catch (const std::runtime_error &error) {
        seen = error.what()[0] == 'n' ? "none" : "other";
    }
    std::printf("sum %ld, a lock, and an exception: %s\n", sum, seen);
}
