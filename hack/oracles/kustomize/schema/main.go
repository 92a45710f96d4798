// Prints what kustomize's compiled-in OpenAPI document says about merging lists and about scopes of kinds, as
// crates/kustomize/data/schema.txt has it:
//
//	kind GROUP/VERSION KIND TYPE      the type of a kind
//	scope GROUP/VERSION KIND yes|no   whether objects of a kind belong to a namespace
//	type TYPE                         a type; its members follow
//	. NAME TYPE                       a member that is a mapping; NAME * stands for members of any other name
//	- NAME KEYS TYPE                  a list that is merged by keys (comma separated); KEYS ! is a list of scalars
//
// Types, and members, below which nothing is merged are left out: such lists are replaced.
package main

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"sort"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

const prefix = "#/definitions/"

type member struct {
	kind, name, keys, target string
}

var members = map[string][]member{}

// Definitions that are being looked at; a recursive one has no merged lists of its own kind.
var open = map[string]bool{}

func resolve(s spec.Schema) (spec.Schema, string) {
	name := ""
	for s.Ref.String() != "" {
		name = strings.TrimPrefix(s.Ref.String(), prefix)
		next, err := openapi.Resolve(&s.Ref, openapi.Schema())
		if err != nil {
			panic(err)
		}
		s = *next
	}
	return s, name
}

func merges(s spec.Schema) (bool, string) {
	rs := &openapi.ResourceSchema{Schema: &s}
	strategy, keys := rs.PatchStrategyAndKeyList()
	for _, part := range strings.Split(strategy, ",") {
		if part == "merge" {
			if len(keys) == 0 {
				return true, "!"
			}
			return true, strings.Join(keys, ",")
		}
	}
	return false, ""
}

// Fills members of a definition and says whether there are any.
func visit(name string) bool {
	if found, done := members[name]; done {
		return len(found) > 0
	}
	if open[name] {
		return false
	}
	open[name] = true
	defer delete(open, name)
	def := openapi.Schema().Definitions[name]
	var result []member
	add := func(field string, s spec.Schema) {
		resolved, ref := resolve(s)
		// What stands beside a reference is lost.
		if ok, keys := merges(resolved); ok {
			item := "-"
			if rs := (&openapi.ResourceSchema{Schema: &resolved}).Elements(); rs != nil && resolved.Items.Schema.Ref.String() != "" {
				target := strings.TrimPrefix(resolved.Items.Schema.Ref.String(), prefix)
				if visit(target) {
					item = target
				}
			}
			result = append(result, member{"-", field, keys, item})
			return
		}
		if ref != "" {
			if visit(ref) {
				result = append(result, member{".", field, "", ref})
			}
			return
		}
		inline := name + "/" + field
		if len(resolved.Properties) > 0 || resolved.AdditionalProperties != nil && resolved.AdditionalProperties.Schema != nil {
			openapi.Schema().Definitions[inline] = resolved
			if visit(inline) {
				result = append(result, member{".", field, "", inline})
			}
		}
	}
	var fields []string
	for field := range def.Properties {
		fields = append(fields, field)
	}
	sort.Strings(fields)
	for _, field := range fields {
		add(field, def.Properties[field])
	}
	if def.AdditionalProperties != nil && def.AdditionalProperties.Schema != nil {
		add("*", *def.AdditionalProperties.Schema)
	}
	members[name] = result
	return len(result) > 0
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	scopes := map[yaml.TypeMeta]bool{}
	source, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	for _, m := range regexp.MustCompile(`\{APIVersion: "([^"]*)", Kind: "([^"]*)"\}:\s*(true|false),`).FindAllStringSubmatch(string(source), -1) {
		scopes[yaml.TypeMeta{APIVersion: m[1], Kind: m[2]}] = m[3] == "true"
	}
	kinds := map[yaml.TypeMeta]string{}
	var names []string
	for name := range openapi.Schema().Definitions {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		def := openapi.Schema().Definitions[name]
		list, _ := def.VendorExtensible.Extensions["x-kubernetes-group-version-kind"].([]interface{})
		for _, item := range list {
			m := item.(map[string]interface{})
			meta := yaml.TypeMeta{Kind: m["kind"].(string), APIVersion: m["version"].(string)}
			if g, ok := m["group"].(string); ok && g != "" {
				meta.APIVersion = g + "/" + meta.APIVersion
			}
			if scope, ok := openapi.IsNamespaceScoped(meta); ok {
				scopes[meta] = scope
			}
			if visit(name) {
				kinds[meta] = name
			}
		}
	}
	sorted := func(of func(func(yaml.TypeMeta))) []yaml.TypeMeta {
		var metas []yaml.TypeMeta
		of(func(m yaml.TypeMeta) { metas = append(metas, m) })
		sort.Slice(metas, func(i, j int) bool {
			a, b := metas[i], metas[j]
			return a.APIVersion+" "+a.Kind < b.APIVersion+" "+b.Kind
		})
		return metas
	}
	for _, m := range sorted(func(f func(yaml.TypeMeta)) {
		for m := range scopes {
			f(m)
		}
	}) {
		word := "no"
		if scopes[m] {
			word = "yes"
		}
		fmt.Fprintf(out, "scope %s %s %s\n", m.APIVersion, m.Kind, word)
	}
	for _, m := range sorted(func(f func(yaml.TypeMeta)) {
		for m := range kinds {
			f(m)
		}
	}) {
		fmt.Fprintf(out, "kind %s %s %s\n", m.APIVersion, m.Kind, kinds[m])
	}
	var types []string
	for name, found := range members {
		if len(found) > 0 {
			types = append(types, name)
		}
	}
	sort.Strings(types)
	for _, name := range types {
		fmt.Fprintf(out, "type %s\n", name)
		for _, m := range members[name] {
			if m.kind == "-" {
				fmt.Fprintf(out, "- %s %s %s\n", m.name, m.keys, m.target)
			} else {
				fmt.Fprintf(out, ". %s %s\n", m.name, m.target)
			}
		}
	}
}
