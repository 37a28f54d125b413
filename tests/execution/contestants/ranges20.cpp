#include <algorithm>
#include <concepts>
#include <iostream>
#include <ranges>
#include <span>
#include <string>
#include <vector>

template <std::integral T> T sum(std::span<const T> s) {
    T r{};
    for (auto x : s) r += x;
    return r;
}

struct Point { int x, y; auto operator<=>(const Point &) const = default; };

int main() {
    int n;
    std::cin >> n;
    std::vector<Point> ps(n);
    for (auto &[x, y] : ps) std::cin >> x >> y;
    std::ranges::sort(ps);
    auto xs = ps | std::views::filter([](const Point &p) { return p.y > 0; }) | std::views::transform(&Point::x);
    std::vector<int> v(xs.begin(), xs.end());
    std::cout << sum<int>(v) << ' ' << std::ranges::count_if(ps, [](auto p) { return p == Point{.x = 1, .y = 2}; }) << '\n';
    for (const auto &p : ps | std::views::reverse | std::views::take(2)) std::cout << p.x << ',' << p.y << '\n';
}
/* cases
wrong: p.y > 0 >>> p.y >= 0
case: 4|3 1|1 2|5 0|1 2 => 5 2|5,0|3,1
*/
