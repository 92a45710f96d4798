// Package pipe answers requests of `tiphys eval` (op, input): one JSON request per line in, one answer per line
// out, in order.
package pipe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sort"
)

type request struct {
	ID    json.RawMessage `json:"id,omitempty"`
	Op    string          `json:"op"`
	Input json.RawMessage `json:"input"`
}

type answer struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Result any             `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// An operation takes the input and gives the result, or the error of its library.
type operation func(json.RawMessage) (any, error)

var operations = map[string]operation{}

// Register makes an operation known under its name, with its input decoded into I.
func Register[I any](name string, run func(I) (any, error)) {
	operations[name] = func(raw json.RawMessage) (any, error) {
		var input I
		if err := json.Unmarshal(raw, &input); err != nil {
			return nil, err
		}
		return run(input)
	}
}

func run(r request) (a answer) {
	a.ID = r.ID
	// Some libraries panic on bad input; that refuses it.
	defer func() {
		if p := recover(); p != nil {
			a.Result, a.Error = nil, fmt.Sprint("panic: ", p)
		}
	}()
	op, found := operations[r.Op]
	if !found {
		a.Error = "oracle: unknown operation " + r.Op
		return a
	}
	result, err := op(r.Input)
	if err != nil {
		a.Error = err.Error()
		if a.Error == "" {
			a.Error = "an error without a text"
		}
		return a
	}
	a.Result = result
	return a
}

// Serve answers standard input, or lists the operations.
func Serve() {
	if len(os.Args) > 1 && os.Args[1] == "--list" {
		names := make([]string, 0, len(operations))
		for name := range operations {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			fmt.Println(name)
		}
		return
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 64<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	for in.Scan() {
		var r request
		a := answer{Error: "oracle: not a request"}
		if json.Unmarshal(in.Bytes(), &r) == nil {
			a = run(r)
		}
		var line bytes.Buffer
		encoder := json.NewEncoder(&line)
		// As `tiphys eval` writes, so that the same answers are the same text.
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(a); err != nil {
			line.Reset()
			_ = encoder.Encode(answer{ID: r.ID, Error: err.Error()})
		}
		out.Write(line.Bytes())
		// What follows may end the process.
		out.Flush()
	}
	if out.Flush() != nil || in.Err() != nil {
		os.Exit(1)
	}
}
