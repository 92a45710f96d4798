// Answers questions from standard input, one JSON line each, with what Helm 4 does: whether values fit a schema, or
// what `helm template` prints. Faster than a process for each.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common/util"
	helmcmd "helm.sh/helm/v4/pkg/cmd"
)

type question struct {
	// A schema, and values for it.
	Schema *string        `json:"schema"`
	Values map[string]any `json:"values"`
	// Or the arguments of Helm, and the folder it runs in.
	Folder string   `json:"folder"`
	Args   []string `json:"args"`
}

type answer struct {
	Error  *string `json:"error"`
	Output string  `json:"output,omitempty"`
}

func (q question) answer() answer {
	if q.Schema != nil {
		return failed(util.ValidateAgainstSingleSchema(q.Values, []byte(*q.Schema)), "")
	}
	if err := os.Chdir(q.Folder); err != nil {
		return failed(err, "")
	}
	var out bytes.Buffer
	root, err := helmcmd.NewRootCmd(&out, q.Args, func(bool) {})
	if err == nil {
		root.SetArgs(q.Args)
		root.SetErr(io.Discard)
		root.SetOut(&out)
		err = root.Execute()
	}
	return failed(err, out.String())
}

func failed(err error, output string) answer {
	if err == nil {
		return answer{Output: output}
	}
	text := strings.TrimSuffix(err.Error(), "\n\nUse --debug flag to render out invalid YAML")
	return answer{Error: &text}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			panic(err)
		}
		if err := out.Encode(q.answer()); err != nil {
			panic(err)
		}
	}
}
