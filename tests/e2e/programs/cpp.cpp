// Does what the first word of its input says.
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <list>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

int main() {
    std::string word;
    int a = 0, b = 0;
    std::cin >> word >> a >> b;
    if (word == "sum") {
        std::cout << a + b << std::endl;
    } else if (word == "exit") {
        return a;
    } else if (word == "signal") {
        throw std::runtime_error("thrown and not caught");
    } else if (word == "spin") {
        for (volatile unsigned i = 0;; i = i + 1) {}
    } else if (word == "sleep") {
        std::this_thread::sleep_for(std::chrono::minutes(1));
    } else if (word == "memory") {
        std::list<std::vector<char>> held;
        for (;;) held.emplace_back(1 << 20, 1);
    } else if (word == "flood") {
        for (;;) std::cout << "flood flood flood flood flood flood flood flood\n";
    }
}
