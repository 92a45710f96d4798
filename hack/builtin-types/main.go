// Command builtin-types prints the Go types of the Kubernetes client scheme as one compact, sorted text table.
//
// The table is what tiphys-object knows about built-in kinds: member names, their JSON shapes, which of them are
// left out when empty, and how strategic merge patches treat them. Regenerate it from this directory with
//
//	go run . > ../../crates/object/data/builtin-types.txt
//	go run . structured > ../../crates/object/data/structured-types.txt
//	go run . protobuf > ../../crates/object/testdata/protobuf.jsonl
//
// after moving the three k8s.io requirements of go.mod together.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"

	"k8s.io/client-go/kubernetes/scheme"
)

const header = `# Types of the Kubernetes client scheme (k8s.io/api %s). Made by hack/builtin-types, which says how; do not edit.
# k <apiVersion> <kind> <struct>
# t <struct> <member>...   member = name:shape[:flags][=merge key]
# shape: s text, b bool, i32 i64 integers, q quantity, T time, M time with microseconds, I integer or text,
#        B base64 bytes, A any JSON, @x struct, *x pointer, [x list, {x map
# flags: o left out when empty, z left out when zero, m merge, r replace, k retain keys,
#        1 protobuf field, 2.1 field 1 of the message in field 2, w its lists are messages with the items in field 1
`

// leaves are the types whose JSON form is their own business.
var leaves = map[string]string{
	"k8s.io/apimachinery/pkg/api/resource.Quantity":   "q",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":       "T",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":  "M",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString": "I",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":   "A",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":    "A",
}

// table collects struct lines by id; a nil entry marks a struct that is being read.
type table map[string][]string

func main() {
	out := bufio.NewWriter(os.Stdout)
	var err error
	switch strings.Join(os.Args[1:], " ") {
	case "":
		printTypes(out)
	case "structured":
		err = printStructured(out)
	case "protobuf":
		err = printSamples(out, 1, 45)
	case "protobuf many":
		err = printSamples(out, 40, 1_000)
	default:
		err = fmt.Errorf("unknown: %q", os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := out.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func printTypes(out io.Writer) {
	structs := table{}
	var kinds []string
	for gvk, goType := range scheme.Scheme.AllKnownTypes() {
		if gvk.Version == "__internal" || goType.Kind() != reflect.Struct {
			continue
		}
		structs.add(goType)
		kinds = append(kinds, fmt.Sprintf("k %s %s %s", gvk.GroupVersion(), gvk.Kind, id(goType)))
	}
	sort.Strings(kinds)
	names := make([]string, 0, len(structs))
	for name := range structs {
		names = append(names, name)
	}
	sort.Strings(names)

	fmt.Fprintf(out, header, apiVersion())
	for _, kind := range kinds {
		fmt.Fprintln(out, kind)
	}
	for _, name := range names {
		fmt.Fprintln(out, strings.Join(append([]string{"t", name}, structs[name]...), " "))
	}
}

func apiVersion() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "k8s.io/api" {
			return module.Version
		}
	}
	return "unknown"
}

func id(goType reflect.Type) string {
	path := strings.TrimPrefix(goType.PkgPath(), "k8s.io/api/")
	path = strings.TrimPrefix(path, "k8s.io/apimachinery/pkg/apis/")
	path = strings.TrimPrefix(path, "k8s.io/apimachinery/pkg/")
	return path + "." + goType.Name()
}

func (t table) add(goType reflect.Type) {
	name := id(goType)
	if _, seen := t[name]; seen {
		return
	}
	t[name] = nil
	members := t.members(goType)
	sort.Slice(members, func(i, j int) bool { return memberName(members[i]) < memberName(members[j]) })
	t[name] = members
}

// member is one field of a struct under its JSON name. Its place is the protobuf field, after those of the messages
// whose members JSON shows one level higher; members that protobuf does not write have none.
type member struct {
	name, options, place string
	field                reflect.StructField
}

// absent is the place of what protobuf does not write, for example the members of an inlined TypeMeta.
const absent = "-"

// place is the number of the protobuf field inside the messages that are inlined in JSON.
func place(outer string, field reflect.StructField) string {
	tag := strings.Split(field.Tag.Get("protobuf"), ",")
	if len(tag) < 2 || outer == absent {
		return absent
	}
	if number, err := strconv.ParseUint(tag[1], 10, 8); err != nil || number == 0 {
		panic(fmt.Sprintf("field %s has the number %s", field.Name, tag[1]))
	}
	inner := strings.TrimPrefix(outer+"."+tag[1], ".")
	if strings.Count(inner, ".") > 2 {
		panic(fmt.Sprintf("field %s is too deep: %s", field.Name, inner))
	}
	return inner
}

// isWrapped says whether lists of the type are messages of their own.
func isWrapped(goType reflect.Type) bool {
	if _, isLeaf := leaves[goType.PkgPath()+"."+goType.Name()]; isLeaf {
		return false
	}
	switch goType.Kind() {
	case reflect.Pointer, reflect.Map:
		return isWrapped(goType.Elem())
	case reflect.Slice:
		_, found := goType.MethodByName("Marshal")
		return found
	}
	return false
}

// flatten lists the members of a struct, those of inlined structs included.
func flatten(goType reflect.Type) []member {
	return flattenAt(goType, "")
}

func flattenAt(goType reflect.Type, outer string) []member {
	var members []member
	for i := range goType.NumField() {
		field := goType.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
			continue
		case name == "" && (field.Anonymous || strings.Contains(options, "inline")):
			embedded := field.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			members = append(members, flattenAt(embedded, place(outer, field))...)
			continue
		case name == "":
			name = field.Name
		}
		members = append(members, member{name, options, place(outer, field), field})
	}
	return members
}

func (t table) members(goType reflect.Type) []string {
	var members []string
	for _, found := range flatten(goType) {
		member := found.name + ":" + t.shape(found.field.Type)
		if flags := flags(found); flags != "" {
			member += ":" + flags
		}
		members = append(members, member)
	}
	return members
}

func memberName(member string) string {
	name, _, _ := strings.Cut(member, ":")
	return name
}

func flags(found member) string {
	var flags strings.Builder
	for _, option := range strings.Split(found.options, ",") {
		switch option {
		case "omitempty":
			flags.WriteString("o")
		case "omitzero":
			flags.WriteString("z")
		}
	}
	for _, strategy := range strings.Split(found.field.Tag.Get("patchStrategy"), ",") {
		switch strategy {
		case "merge":
			flags.WriteString("m")
		case "replace":
			flags.WriteString("r")
		case "retainKeys":
			flags.WriteString("k")
		}
	}
	if isWrapped(found.field.Type) {
		flags.WriteString("w")
	}
	if found.place != absent {
		flags.WriteString(found.place)
	}
	if key := found.field.Tag.Get("patchMergeKey"); key != "" {
		flags.WriteString("=" + key)
	}
	return flags.String()
}

func (t table) shape(goType reflect.Type) string {
	if leaf, ok := leaves[goType.PkgPath()+"."+goType.Name()]; ok {
		return leaf
	}
	switch goType.Kind() {
	case reflect.Pointer:
		return "*" + t.shape(goType.Elem())
	case reflect.Slice:
		if goType.Elem().Kind() == reflect.Uint8 {
			return "B"
		}
		return "[" + t.shape(goType.Elem())
	case reflect.Map:
		return "{" + t.shape(goType.Elem())
	case reflect.Struct:
		t.add(goType)
		return "@" + id(goType)
	case reflect.Interface:
		return "A"
	case reflect.String:
		return "s"
	case reflect.Bool:
		return "b"
	case reflect.Int32:
		return "i32"
	case reflect.Int64, reflect.Int:
		return "i64"
	}
	panic(fmt.Sprintf("no shape for %v", goType))
}
