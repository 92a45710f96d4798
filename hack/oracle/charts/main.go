// Charts answers `go.template` of `tiphys eval` with text/template, sprig and Helm. It decides in differential tests
// (hack/oracle/fuzz); nothing of the product depends on it.
package main

import (
	"errors"
	"io"
	"log"
	"log/slog"
	"maps"
	"oracle/pipe"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

// What depends on where a value lies in memory has no right answer.
var address = regexp.MustCompile(`0x[0-9a-f]{6,}`)

// Tiphys takes members in the order of their keys where the originals take them in any.
var inOrder = template.FuncMap{
	"keys": func(dicts ...map[string]any) []string {
		found := []string{}
		for _, dict := range dicts {
			found = append(found, slices.Sorted(maps.Keys(dict))...)
		}
		return found
	},
	"values": func(dict map[string]any) []any {
		found := []any{}
		for _, key := range slices.Sorted(maps.Keys(dict)) {
			found = append(found, dict[key])
		}
		return found
	},
}

type templateInput struct {
	Template, Option, Functions string
	Data                        any
}

func execute(in templateInput) (any, error) {
	if in.Data == nil {
		in.Data = map[string]any{}
	}
	render := withSprig
	if in.Functions == "helm" {
		render = withHelm
	}
	// Ranges over large numbers have no end.
	defer time.AfterFunc(time.Second, func() { os.Exit(1) }).Stop()
	output, err := render(in)
	if address.MatchString(output) || err != nil && address.MatchString(err.Error()) {
		return nil, errors.New("oracle: an address")
	}
	if err != nil {
		return nil, err
	}
	return map[string]any{"output": output}, nil
}

func withSprig(in templateInput) (string, error) {
	functions := sprig.TxtFuncMap()
	// What tells of the machine is offered to no template of tiphys.
	for _, name := range []string{"env", "expandenv", "getHostByName"} {
		delete(functions, name)
	}
	t := template.New("t").Funcs(functions).Funcs(inOrder).Funcs(template.FuncMap{
		"toYaml": func(v any) (string, error) {
			data, err := yaml.Marshal(v)
			return strings.TrimSuffix(string(data), "\n"), err
		},
	})
	if in.Option != "" {
		t = t.Option(in.Option)
	}
	t, err := t.Parse(in.Template)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = t.Execute(&out, in.Data)
	return out.String(), err
}

// The template stands in a chart's partial, and a template of the chart writes what it writes.
func withHelm(in templateInput) (string, error) {
	c := &chart.Chart{
		Metadata: &chart.Metadata{Name: "c", Version: "1.0.0", APIVersion: "v2"},
		Templates: []*common.File{
			{Name: "templates/_main.tpl", Data: []byte(in.Template)},
			{Name: "templates/out.yaml", Data: []byte(`{{ include "c/templates/_main.tpl" .Values.data }}`)},
		},
	}
	e := engine.Engine{Strict: in.Option == "missingkey=error", CustomTemplateFuncs: inOrder}
	out, err := e.Render(c, common.Values{"Values": map[string]any{"data": in.Data}})
	return out["c/templates/out.yaml"], err
}

func main() {
	os.Clearenv()
	// Maps that contain themselves end the process, soon.
	debug.SetMaxStack(32 << 20)
	debug.SetTraceback("none")
	time.Local = time.UTC
	log.SetOutput(io.Discard)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	pipe.Register("go.template", execute)
	pipe.Serve()
}
