package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

const structuredHeader = `# What structured merge knows beyond builtin-types.txt (k8s.io/api %s). Made by hack/builtin-types; do not edit.
# Lists are one value and structs and maps are merged member by member, unless a line here says otherwise.
# a <struct>                       the struct is one value
# m <struct> <member> <relation>   atomic, granular, set, or keys=<member>,<member>
# d <struct> <member> <json>       what a key is when an item leaves it out
`

// scalars says which scalar each leaf of the table of types must be in the schema; a mismatch stops the program.
var scalars = map[string]schema.Scalar{
	"s": schema.String, "b": schema.Boolean, "i32": schema.Numeric, "i64": schema.Numeric, "B": schema.String,
	"q": schema.Untyped, "T": schema.Untyped, "M": schema.Untyped, "I": schema.Untyped,
}

// relations walks the Go types and the schema of structured merge side by side and notes where merging differs from
// what the shape of a Go type implies.
type relations struct {
	schema *schema.Schema
	seen   map[string]bool
	lines  []string
}

func printStructured(out io.Writer) error {
	converter := applyconfigurations.NewTypeConverter(scheme.Scheme)
	probe := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
	typed, err := converter.ObjectToTyped(probe)
	if err != nil {
		return err
	}
	walk := &relations{schema: typed.Schema(), seen: map[string]bool{}}
	for gvk, goType := range scheme.Scheme.AllKnownTypes() {
		if gvk.Version != "__internal" && goType.Kind() == reflect.Struct {
			walk.structType(goType)
		}
	}
	sort.Strings(walk.lines)
	fmt.Fprintf(out, structuredHeader, apiVersion())
	for _, line := range walk.lines {
		fmt.Fprintln(out, line)
	}
	return nil
}

func modelName(goType reflect.Type) string {
	path := strings.TrimPrefix(goType.PkgPath(), "k8s.io/")
	return "io.k8s." + strings.ReplaceAll(path, "/", ".") + "." + goType.Name()
}

func (r *relations) note(format string, parts ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, parts...))
}

func (r *relations) structType(goType reflect.Type) {
	name := modelName(goType)
	atom, known := r.schema.Resolve(schema.TypeRef{NamedType: &name})
	if !known || atom.Map == nil || r.seen[name] {
		return
	}
	r.seen[name] = true
	if atom.Map.ElementRelationship == schema.Atomic {
		r.note("a %s", id(goType))
	}
	for _, member := range flatten(goType) {
		field, known := atom.Map.FindField(member.name)
		if !known {
			fmt.Fprintf(os.Stderr, "%s has no %s\n", name, member.name)
			continue
		}
		r.relation(id(goType), member.name, field.Type, member.field.Type)
	}
}

func (r *relations) relation(owner, member string, ref schema.TypeRef, goType reflect.Type) {
	for goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	atom, known := r.schema.Resolve(ref)
	leaf, isLeaf := leaves[goType.PkgPath()+"."+goType.Name()]
	switch {
	case !known:
		panic(fmt.Sprintf("%s.%s has no type", owner, member))
	case isLeaf && leaf == "A":
	case isLeaf:
		r.scalar(owner, member, atom, leaf)
	case goType.Kind() == reflect.Struct:
		if relation := ref.ElementRelationship; relation != nil {
			r.note("m %s %s %s", owner, member, map[schema.ElementRelationship]string{schema.Atomic: "atomic", schema.Separable: "granular"}[*relation])
		}
		r.structType(goType)
	case goType.Kind() == reflect.Slice && goType.Elem().Kind() == reflect.Uint8:
		r.scalar(owner, member, atom, "B")
	case goType.Kind() == reflect.Slice:
		if atom.List.ElementRelationship == schema.Associative {
			r.associative(owner, member, atom.List, goType.Elem())
		}
		r.relation(owner, member+"[]", atom.List.ElementType, goType.Elem())
	case goType.Kind() == reflect.Map:
		if atom.Map.ElementRelationship == schema.Atomic {
			r.note("m %s %s atomic", owner, member)
		}
		r.relation(owner, member+"{}", atom.Map.ElementType, goType.Elem())
	default:
		r.scalar(owner, member, atom, table{}.shape(goType))
	}
}

func (r *relations) scalar(owner, member string, atom schema.Atom, leaf string) {
	if atom.Scalar == nil || *atom.Scalar != scalars[leaf] {
		panic(fmt.Sprintf("%s.%s is %q, not %v", owner, member, leaf, atom.Scalar))
	}
}

func (r *relations) associative(owner, member string, list *schema.List, item reflect.Type) {
	if strings.HasSuffix(member, "[]") || strings.HasSuffix(member, "{}") {
		panic(fmt.Sprintf("%s.%s is nested", owner, member))
	}
	if len(list.Keys) == 0 {
		r.note("m %s %s set", owner, member)
		return
	}
	r.note("m %s %s keys=%s", owner, member, strings.Join(list.Keys, ","))
	atom, _ := r.schema.Resolve(list.ElementType)
	for _, key := range list.Keys {
		field, _ := atom.Map.FindField(key)
		if field.Default == nil {
			continue
		}
		text, err := json.Marshal(field.Default)
		if err != nil {
			panic(err)
		}
		line := fmt.Sprintf("d %s %s %s", id(item), key, text)
		if !r.seen[line] {
			r.seen[line] = true
			r.lines = append(r.lines, line)
		}
	}
}
