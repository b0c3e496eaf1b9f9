// Counts the words of the input and prints them in alphabetical order.
#include <iostream>
#include <map>
#include <string>

int main() {
    std::map<std::string, int> count;
    for (std::string word; std::cin >> word;) ++count[word];
    for (const auto& [word, times] : count) std::cout << word << ' ' << times << '\n';
}
