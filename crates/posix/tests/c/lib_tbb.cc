// oneTBB: parallel loops, reductions, a concurrent queue between tasks.
#include <cstdio>
#include <oneapi/tbb.h>

int main() {
    tbb::global_control control(tbb::global_control::max_allowed_parallelism, 8);
    long sum = 0;
    for (int round = 0; round < 20; round++)
        sum += tbb::parallel_reduce(
            tbb::blocked_range<long>(0, 100000, 100), 0L,
            [](const tbb::blocked_range<long> &range, long part) {
                for (long i = range.begin(); i != range.end(); i++) part += i;
                return part;
            },
            std::plus<long>());
    tbb::concurrent_bounded_queue<int> queue;
    queue.set_capacity(4);
    tbb::task_group group;
    group.run([&] { for (int i = 1; i <= 1000; i++) queue.push(i); });
    long received = 0;
    for (int i = 0; i < 1000; i++) {
        int value;
        queue.pop(value);
        received += value;
    }
    group.wait();
    std::printf("%ld %ld\n", sum, received);
}
