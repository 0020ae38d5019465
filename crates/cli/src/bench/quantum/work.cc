// Some 0.2 ms of C++: containers, strings and a sort of the standard library.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

extern "C" int raddle_bench_quantum(int count, char **arguments, unsigned long (*work)(unsigned long));

static unsigned long work(unsigned long seed) {
    std::map<std::string, unsigned long> counts;
    std::vector<unsigned> numbers;
    for (int i = 0; i < 1500; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        numbers.push_back(static_cast<unsigned>(seed >> 33));
        if (i % 8 == 0)
            counts[std::to_string(seed >> 57)]++;
    }
    std::sort(numbers.begin(), numbers.end(), [](unsigned a, unsigned b) { return a > b; });
    for (auto &[name, count] : counts)
        seed += name.size() * count;
    return seed + numbers[700];
}

int main(int count, char **arguments) {
    return raddle_bench_quantum(count, arguments, work);
}
