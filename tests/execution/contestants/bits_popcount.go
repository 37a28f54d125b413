package main

import (
	"fmt"
	"math"
	"math/bits"
)

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}

func main() {
	var n int
	fmt.Scan(&n)
	w := make([][]int, n)
	for i := range w {
		w[i] = make([]int, n)
		for j := range w[i] {
			fmt.Scan(&w[i][j])
		}
	}
	dp := make([]int, 1<<uint(n))
	for m := range dp {
		dp[m] = math.MaxInt32
	}
	dp[0] = 0
	for m := 0; m < 1<<uint(n); m++ {
		i := bits.OnesCount(uint(m))
		for j := 0; j < n; j++ {
			if m>>uint(j)&1 == 0 {
				dp[m|1<<uint(j)] = min(dp[m|1<<uint(j)], dp[m]+w[i][j])
			}
		}
	}
	fmt.Println(dp[len(dp)-1])
}
/* cases
wrong: dp[m]+w[i][j] >>> w[i][j]
case: 3|9 2 7|6 4 3|5 8 1 => 9
*/
