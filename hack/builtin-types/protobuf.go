package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

// sample is one line: an object as a client sends it, and the same object as JSON.
type sample struct {
	Protobuf []byte          `json:"protobuf"`
	JSON     json.RawMessage `json:"json"`
}

// printSamples prints objects of every kind with random content; equal arguments give equal objects.
func printSamples(out io.Writer, rounds, valuesMax int) error {
	kinds := make([]schema.GroupVersionKind, 0, 1000)
	for gvk, goType := range scheme.Scheme.AllKnownTypes() {
		isOften := strings.HasPrefix(id(goType), "meta/v1.") && gvk.Group != "" || gvk.Kind == "WatchEvent"
		if gvk.Version != "__internal" && goType.Kind() == reflect.Struct && !isOften && !strings.HasSuffix(gvk.Kind, "List") {
			kinds = append(kinds, gvk)
		}
	}
	slices.SortFunc(kinds, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	for round := range rounds {
		for at, gvk := range kinds {
			fill := &filler{Rand: rand.New(rand.NewSource(int64(round*len(kinds) + at + 1))), left: valuesMax}
			if err := printSample(out, gvk, fill); err != nil {
				return fmt.Errorf("%v: %w", gvk, err)
			}
		}
	}
	return nil
}

func printSample(out io.Writer, gvk schema.GroupVersionKind, fill *filler) error {
	object, err := scheme.Scheme.New(gvk)
	if err != nil {
		return err
	}
	fill.value(reflect.ValueOf(object).Elem(), 0)
	object.GetObjectKind().SetGroupVersionKind(gvk)
	var sent bytes.Buffer
	if err := protobuf.NewSerializer(nil, nil).Encode(object, &sent); err != nil {
		return err
	}
	read, _, err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Decode(sent.Bytes(), nil, nil)
	if err != nil {
		return err
	}
	text, err := json.Marshal(read)
	if err != nil {
		return err
	}
	line, err := json.Marshal(sample{sent.Bytes(), text})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", line)
	return err
}

// filler makes up content until it has made so many values.
type filler struct {
	*rand.Rand
	left int
}

var (
	texts      = []string{"", "a", "web", "Always", "zażółć", "<&>\u2028", "two\nlines"}
	quantities = []string{"0", "1", "0.5", "1500m", "1024Mi", "1e3", "100n", "12345678901234567890", "-3Gi"}
	documents  = []string{`{"f:a":{},"n":1.5}`, `[1,"two",null]`, `"text"`, `{"kind":"Other","apiVersion":"example.com/v1"}`}
)

func pick(fill *filler, from []string) string {
	return from[fill.Intn(len(from))]
}

// leaf fills types that have a form of their own in protobuf or JSON.
func (f *filler) leaf(value reflect.Value) bool {
	switch leaf := value.Addr().Interface().(type) {
	case *resource.Quantity:
		*leaf = resource.MustParse(pick(f, quantities))
	case *metav1.Time:
		*leaf = metav1.Unix(f.Int63n(4_000_000_000)-1_000_000_000, 0)
	case *metav1.MicroTime:
		*leaf = metav1.NewMicroTime(time.Unix(f.Int63n(4_000_000_000), f.Int63n(1_000_000_000)))
	case *intstr.IntOrString:
		*leaf = intstr.FromInt32(f.Int31n(1000) - 2)
		if f.Intn(2) == 0 {
			*leaf = intstr.FromString(pick(f, texts))
		}
	case *metav1.FieldsV1:
		leaf.Raw = []byte(pick(f, documents))
	case *runtime.RawExtension:
		leaf.Raw = []byte(pick(f, documents))
	case *metav1.TypeMeta:
	default:
		return false
	}
	return true
}

func (f *filler) value(value reflect.Value, depth int) {
	f.left--
	if f.leaf(value) {
		return
	}
	switch value.Kind() {
	case reflect.String:
		value.SetString(pick(f, texts))
	case reflect.Bool:
		value.SetBool(f.Intn(2) == 0)
	case reflect.Int32:
		value.SetInt(int64(int32(f.Uint32())) >> f.Intn(32))
	case reflect.Int64:
		value.SetInt(int64(f.Uint64()) >> f.Intn(64))
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		f.value(value.Elem(), depth+1)
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), f.Intn(3), 3))
		for i := range value.Len() {
			if value.Type().Elem().Kind() == reflect.Uint8 {
				value.Index(i).SetUint(uint64(f.Intn(256)))
			} else {
				f.value(value.Index(i), depth+1)
			}
		}
	case reflect.Map:
		value.Set(reflect.MakeMap(value.Type()))
		for range f.Intn(3) {
			key, item := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
			f.value(key, depth+1)
			f.value(item, depth+1)
			value.SetMapIndex(key, item)
		}
	case reflect.Struct:
		// In random order, so that not always the first members use up the values.
		for _, i := range f.Perm(value.NumField()) {
			if f.left > 0 && value.Type().Field(i).IsExported() && (depth < 2 || f.Intn(depth) < 2) {
				f.value(value.Field(i), depth+1)
			}
		}
	case reflect.Interface:
	default:
		panic(fmt.Sprintf("nothing to fill %v with", value.Type()))
	}
}
