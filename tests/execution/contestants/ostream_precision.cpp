#include <cmath>
#include <complex>
#include <iomanip>
#include <iostream>
#include <vector>
using namespace std;
typedef complex<double> pt;
#define X real()
#define Y imag()
double cross(pt a, pt b) { return (conj(a) * b).Y; }
int main() {
    int n; cin >> n;
    vector<pt> p(n);
    for (auto &z : p) { double x, y; cin >> x >> y; z = {x, y}; }
    double area = 0, per = 0;
    for (int i = 0; i < n; i++) { area += cross(p[i], p[(i + 1) % n]); per += abs(p[i] - p[(i + 1) % n]); }
    cout << fixed << setprecision(3) << fabs(area) / 2 << " " << per << endl;
}
/* cases
wrong: fabs(area) / 2 >>> area / 2
case: 4|0 0|0 2|3 2|3 0 => 6.000 10.000
*/
