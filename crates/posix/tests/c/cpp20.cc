// The C++20 library's threads and what goes with them; prints results that do not depend on the order of events.
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <dirent.h>
#include <future>
#include <latch>
#include <mutex>
#include <numeric>
#include <semaphore>
#include <shared_mutex>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>
using namespace std::chrono_literals;

static int kernel_threads() {
    DIR *tasks = opendir("/proc/self/task");
    int count = -2;
    while (readdir(tasks)) count++;
    closedir(tasks);
    return count;
}
struct local {
    static inline std::atomic<int> gone{0};
    std::string text = "x";
    ~local() { gone++; }
};
static thread_local local mine;

int main() {
    int kernel;
    { // threads, mutex, condition variable, thread_local with destructors, exceptions
        std::mutex m;
        std::condition_variable_any open;
        bool is_open = false;
        long sum = 0;
        std::vector<std::thread> all;
        for (int i = 0; i < 1000; i++)
            all.emplace_back([&, i] {
                mine.text = std::to_string(i);
                std::unique_lock lock(m);
                open.wait(lock, [&] { return is_open; });
                try {
                    throw std::runtime_error(mine.text);
                } catch (const std::exception &e) {
                    sum += std::stol(e.what());
                }
            });
        kernel = kernel_threads();
        { std::lock_guard lock(m); is_open = true; }
        open.notify_all();
        for (auto &t : all) t.join();
        std::printf("threads %ld, destructors %d\n", sum, local::gone.load());
    }
    { // jthread and stop tokens
        std::mutex m;
        std::condition_variable_any c;
        int stopped = 0;
        {
            std::vector<std::jthread> all;
            for (int i = 0; i < 10; i++)
                all.emplace_back([&](std::stop_token stop) {
                    std::unique_lock lock(m);
                    c.wait(lock, stop, [] { return false; });
                    stopped++;
                });
            std::this_thread::sleep_for(2ms);
        }
        std::printf("jthread %d\n", stopped);
    }
    { // latch, barrier, semaphores, atomic wait
        constexpr int n = 20;
        std::latch ready(n), go(1);
        int phases = 0;
        std::barrier step(n, [&]() noexcept { phases++; });
        std::counting_semaphore<> permits(3);
        std::binary_semaphore turn(1);
        std::atomic<int> inside{0}, most{0}, flag{0}, total{0};
        std::vector<std::jthread> all;
        for (int i = 0; i < n; i++)
            all.emplace_back([&] {
                ready.count_down();
                go.wait();
                for (int k = 0; k < 50; k++) step.arrive_and_wait();
                permits.acquire();
                int now = ++inside, seen = most;
                while (seen < now && !most.compare_exchange_weak(seen, now)) {}
                std::this_thread::yield();
                inside--;
                permits.release();
                turn.acquire();
                total++;
                turn.release();
                flag.wait(0);
            });
        ready.wait();
        go.count_down();
        while (total < n) std::this_thread::sleep_for(1ms);
        flag = 1;
        flag.notify_all();
        all.clear();
        std::printf("phases %d, at most three %d, total %d, time-out %d\n", phases, most <= 3, total.load(),
                    permits.try_acquire_for(1ms) && !std::binary_semaphore(0).try_acquire_for(2ms));
    }
    { // futures, async, promises, packaged tasks, call_once with an exception first
        std::vector<std::future<long>> parts;
        for (long i = 0; i < 50; i++)
            parts.push_back(std::async(std::launch::async, [i] {
                std::this_thread::sleep_for(1ms);
                return i * i;
            }));
        long sum = 0;
        for (auto &part : parts) sum += part.get();
        std::promise<int> promise;
        auto value = promise.get_future();
        std::jthread keeper([&] { promise.set_value(7); });
        auto broken = std::async(std::launch::async, []() -> int { throw std::logic_error("on purpose"); });
        std::string what;
        try { broken.get(); } catch (const std::logic_error &e) { what = e.what(); }
        std::once_flag once;
        std::atomic<int> tries{0}, thrown{0};
        {
            std::vector<std::jthread> all;
            for (int i = 0; i < 10; i++)
                all.emplace_back([&] {
                    try {
                        std::call_once(once, [&] {
                            std::this_thread::yield();
                            if (++tries < 3) throw 1;
                        });
                    } catch (int) {
                        thrown++;
                    }
                });
        }
        std::printf("async %ld, promise %d, %s, once %d %d\n", sum, value.get(), what.c_str(), tries.load(), thrown.load());
    }
    { // shared and timed mutexes
        std::shared_timed_mutex lock;
        std::recursive_timed_mutex again;
        long a = 0, b = 0;
        std::atomic<int> torn{0}, missed{0};
        {
            std::vector<std::jthread> all;
            for (int i = 0; i < 16; i++)
                all.emplace_back([&, i] {
                    for (int k = 0; k < 200; k++) {
                        if ((i + k) % 4 == 0) {
                            std::unique_lock own(lock);
                            a++;
                            std::this_thread::yield();
                            b++;
                        } else {
                            std::shared_lock own(lock, 10s);
                            if (!own) missed++;
                            else if (a != b) torn++;
                        }
                        std::lock_guard one(again);
                        std::lock_guard two(again);
                    }
                });
        }
        std::timed_mutex held;
        held.lock();
        bool late = std::async(std::launch::async, [&] { return !held.try_lock_for(2ms); }).get();
        held.unlock();
        std::printf("shared %ld %ld, torn %d, missed %d, late %d\n", a, b, torn.load(), missed.load(), late);
    }
    std::fprintf(stderr, "%d\n", kernel);
}
