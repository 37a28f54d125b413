package main

import . "fmt"

const M = 1e9 + 7

type mat [2][2]int

func (a mat) mul(b mat) (c mat) {
	for i := range a {
		for j := range b[0] {
			for k, v := range a[i] {
				c[i][j] = (c[i][j] + v*b[k][j]) % M
			}
		}
	}
	return
}

func main() {
	var n int
	Scan(&n)
	r, b := mat{{1, 0}, {0, 1}}, mat{{1, 1}, {1, 0}}
	for ; n > 0; n >>= 1 {
		if n&1 > 0 {
			r = r.mul(b)
		}
		b = b.mul(b)
	}
	Print(r[1][0])
}
/* cases
wrong: r[1][0] >>> r[0][0]
case: 90 => 210345902
*/
