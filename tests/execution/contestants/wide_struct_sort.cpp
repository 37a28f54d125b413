#include <iostream>
#include <vector>
#include <algorithm>
#include <string>
#include <tuple>
using namespace std;
struct Student {
    string name; int score, age;
    bool operator<(const Student &o) const {
        if (score != o.score) return score > o.score;
        return tie(age, name) < tie(o.age, o.name);
    }
    friend istream &operator>>(istream &in, Student &s) { return in >> s.name >> s.score >> s.age; }
};
int main() {
    vector<Student> v; Student s;
    while (cin >> s) v.push_back(s);
    stable_sort(v.begin(), v.end());
    for (const auto &[name, score, age] : v) cout << name << '\t' << score << '\n';
    cout << max_element(v.begin(), v.end(), [](auto &a, auto &b) { return a.age < b.age; })->name;
}
/* cases
wrong: return score > o.score >>> return score < o.score
case: ann 90 20|bob 95 19|cid 90 19 => bob	95|cid	90|ann	90|ann
*/
