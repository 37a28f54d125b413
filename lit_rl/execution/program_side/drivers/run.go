// Package lit_rl takes the pass before the program's package is initialised; the program cannot know its full name.
package lit_rl

import (
	"os"
	"syscall"
	"testing"
)

// Outside of the heap, which a program can have written to a file.
var pass, _ = syscall.Mmap(-1, 0, 64, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
var length, _ = os.Stdin.Read(pass)
var answers = os.NewFile(3, "")

// Run runs tests and sends the pass after the last one, if none of them failed or was left out.
func Run(tests []testing.InternalTest) {
	ended := 0
	for i := range tests {
		test := tests[i].F
		tests[i].F = func(t *testing.T) {
			test(t)
			if !t.Failed() {
				ended++
			}
		}
	}
	count := len(tests)
	send := func(t *testing.T) {
		if ended == count {
			answers.Write(pass[:length])
		}
	}
	os.Args = os.Args[:1]
	tests = append(tests, testing.InternalTest{Name: "send", F: send})
	testing.Main(func(string, string) (bool, error) { return true, nil }, tests, nil, nil)
}
