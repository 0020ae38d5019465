// The C++ library's loops, which are compiled into the program: cost.sh counts their instructions with and without checks.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <numeric>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>

static std::vector<unsigned> numbers(unsigned count) {
    std::vector<unsigned> all(count);
    unsigned state = 1;
    for (auto &one : all)
        one = (state = state * 1103515245 + 12345) >> 8;
    return all;
}

int main(int count, char **arguments) {
    std::string work = count > 1 ? arguments[1] : "";
    unsigned long sum = 0;
    if (work == "sort" || work == "stable_sort" || work == "heap") {
        auto all = numbers(60000);
        if (work == "sort")
            std::sort(all.begin(), all.end());
        else if (work == "stable_sort")
            std::stable_sort(all.begin(), all.end(), [](unsigned a, unsigned b) { return a > b; });
        else {
            std::make_heap(all.begin(), all.end());
            std::sort_heap(all.begin(), all.end());
        }
        sum = all[1000];
    }
    if (work == "map") {
        std::map<unsigned, unsigned> counts;
        for (auto one : numbers(30000))
            counts[one % 5000]++;
        for (auto &[key, times] : counts)
            sum += key * times;
    }
    if (work == "hash_map") {
        std::unordered_map<std::string, unsigned> counts;
        for (auto one : numbers(30000))
            counts[std::to_string(one % 5000)]++;
        for (auto &[key, times] : counts)
            sum += key.size() * times;
    }
    if (work == "regex") {
        std::regex pattern("([a-z]+)[0-9]+x?");
        std::string text;
        for (auto one : numbers(400))
            text += "word" + std::to_string(one) + " ";
        for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at)
            sum += static_cast<unsigned long>((*at)[1].length());
    }
    if (work == "find") {
        std::string text;
        for (auto one : numbers(20000))
            text += static_cast<char>('a' + one % 26);
        for (auto one : numbers(200))
            sum += text.find(text.substr(one % 19000, 5));
    }
    std::printf("%lu\n", sum);
    return 0;
}
