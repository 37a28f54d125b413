#include <iostream>
#include <memory>
#include <string>
#include <vector>
class Shape {
public:
    virtual ~Shape() = default;
    virtual long area() const = 0;
    virtual std::string name() const { return "shape"; }
};
class Rect : public Shape {
protected:
    long w, h;
public:
    Rect(long w, long h) : w(w), h(h) {}
    long area() const override { return w * h; }
    std::string name() const override { return "rect"; }
};
class Square final : public Rect {
public:
    explicit Square(long a) : Rect(a, a) {}
    std::string name() const override { return "square"; }
};
int main() {
    std::vector<std::unique_ptr<Shape>> v;
    std::string k;
    while (std::cin >> k) {
        long a, b;
        if (k == "s") { std::cin >> a; v.push_back(std::make_unique<Square>(a)); }
        else { std::cin >> a >> b; v.emplace_back(new Rect(a, b)); }
    }
    long sum = 0;
    for (const auto &s : v) { std::cout << s->name() << ' '; sum += s->area(); }
    std::cout << sum;
}
/* cases
wrong: Rect(a, a) >>> Rect(a, 1)
case: r 2 5|s 3 => rect square 19
*/
