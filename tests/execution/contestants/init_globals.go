package main

import (
	"fmt"
	"strings"
)

const maxN = 1000001

var (
	spf   [maxN]int
	order []int
)

func init() {
	for i := 2; i < maxN; i++ {
		if spf[i] == 0 {
			spf[i] = i
			order = append(order, i)
		}
		for _, p := range order {
			if p > spf[i] || i*p >= maxN {
				break
			}
			spf[i*p] = p
		}
	}
}

func main() {
	var n int
	for k, _ := fmt.Scan(&n); k == 1; k, _ = fmt.Scan(&n) {
		var fs []string
		for m := n; m > 1; m /= spf[m] {
			fs = append(fs, fmt.Sprint(spf[m]))
		}
		fmt.Println(n, "=", strings.Join(fs, " * "))
	}
}
/* cases
wrong: p > spf[i] || >>> p >= spf[i] ||
case: 360 999983 => 360 = 2 * 2 * 2 * 3 * 3 * 5|999983 = 999983
*/
