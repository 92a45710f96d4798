// Oracle answers requests of `tiphys eval` with the libraries that Tiphys imitates. It decides in differential tests
// (hack/oracle/fuzz); nothing of the product depends on it.
package main

import (
	"oracle/pipe"
	"os"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "--unicode" {
		printUnicode(os.Stdout)
		return
	}
	pipe.Serve()
}
