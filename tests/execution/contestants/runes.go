package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"unicode"
)

func caesar(s string, k int) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLower(r):
			return 'a' + (r-'a'+rune(k))%26
		case unicode.IsUpper(r):
			return 'A' + (r-'A'+rune(k))%26
		}
		return r
	}, s)
}

func main() {
	in := bufio.NewReader(os.Stdin)
	var k int
	fmt.Fscanf(in, "%d\n", &k)
	for {
		line, err := in.ReadString('\n')
		line = strings.TrimRight(line, "\r\n")
		if line != "" {
			fmt.Println(caesar(line, k))
		}
		if err != nil {
			return
		}
	}
}
/* cases
wrong: case unicode.IsUpper(r): >>> case unicode.IsDigit(r):
case: 3|Hello, World xyz!|ABC => Khoor, Zruog abc!|DEF
*/
