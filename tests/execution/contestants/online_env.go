package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
)

var in io.Reader = os.Stdin

func main() {
	if os.Getenv("ONLINE_JUDGE") == "" {
		f, err := os.Open("in.txt")
		if err != nil {
			panic(err)
		}
		in = f
	}
	r := bufio.NewReader(in)
	var s string
	fmt.Fscan(r, &s)
	best, bl := "", 0
	for c := range s {
		for _, d := range []int{0, 1} {
			i, j := c, c+d
			for i >= 0 && j < len(s) && s[i] == s[j] {
				i--
				j++
			}
			if j-i-1 > bl {
				best, bl = s[i+1:j], j-i-1
			}
		}
	}
	fmt.Println(best)
}
/* cases
wrong: []int{0, 1} >>> []int{0}
case: xabbay => abba
*/
