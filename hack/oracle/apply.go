package main

import (
	"encoding/json"
	"errors"
	"oracle/pipe"
	"sort"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

func init() {
	pipe.Register("go.smd", serverSideApply)
}

// unchanged takes objects as they are: they stay unstructured, and no version is converted into another.
type unchanged struct{}

func (unchanged) Convert(in, out, _ any) error { return errors.New("oracle: nothing is converted") }

func (unchanged) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (unchanged) ConvertFieldLabel(_ runtimeschema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (unchanged) Default(runtime.Object) {}

func (unchanged) New(kind runtimeschema.GroupVersionKind) (runtime.Object, error) {
	made := &unstructured.Unstructured{}
	made.SetGroupVersionKind(kind)
	return made, nil
}

var builtinTypes = applyconfigurations.NewTypeConverter(clientscheme.Scheme)

func serverSideApply(in struct {
	Operation, Types, Manager string
	Live, Config              json.RawMessage
	Force                     bool
}) (any, error) {
	config, live := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(in.Config, &config.Object); err != nil {
		return nil, err
	}
	if len(in.Live) > 0 {
		if err := utiljson.Unmarshal(in.Live, &live.Object); err != nil {
			return nil, err
		}
	}
	kind := config.GroupVersionKind()
	if live.Object == nil {
		live.SetGroupVersionKind(kind)
	}
	isOdd := kind.Version == "" || kind.Kind == "" || kind.GroupVersion().String() != config.GetAPIVersion()
	if isOdd || live.GroupVersionKind() != kind || !hasBooks(live) || !hasBooks(config) {
		return nil, errors.New("oracle: nothing that a server gets this far")
	}
	types := managedfields.TypeConverter(builtinTypes)
	if in.Types == "deduced" {
		types = managedfields.NewDeducedTypeConverter()
	}
	manager, err := managedfields.NewDefaultFieldManager(
		types, unchanged{}, unchanged{}, unchanged{}, kind, kind.GroupVersion(), "", nil)
	if err != nil {
		return nil, err
	}
	var made runtime.Object
	if in.Operation == "update" {
		made, err = manager.Update(live, config, in.Manager)
	} else {
		made, err = manager.Apply(live, config, in.Manager, in.Force)
	}
	if conflict := (*apierrors.StatusError)(nil); errors.As(err, &conflict) && apierrors.IsConflict(err) {
		conflicts := []object{}
		for _, cause := range conflict.ErrStatus.Details.Causes {
			conflicts = append(conflicts, object{"field": cause.Field, "message": cause.Message})
		}
		sort.Slice(conflicts, func(a, b int) bool {
			one, other := conflicts[a], conflicts[b]
			if one["field"] != other["field"] {
				return one["field"].(string) < other["field"].(string)
			}
			return one["message"].(string) < other["message"].(string)
		})
		return object{"object": nil, "conflicts": conflicts}, nil
	}
	if err != nil {
		return nil, err
	}
	result := made.(*unstructured.Unstructured)
	if entries, found, _ := unstructured.NestedSlice(result.Object, "metadata", "managedFields"); found {
		for _, entry := range entries {
			delete(entry.(map[string]any), "time")
		}
		if err := unstructured.SetNestedSlice(result.Object, entries, "metadata", "managedFields"); err != nil {
			return nil, err
		}
	}
	return object{"object": result.Object, "conflicts": []object{}}, nil
}

// hasBooks says whether an object's managedFields, if there are any, are of its own version and written as they
// should be. A server converts other versions first and refuses or drops the rest before it merges.
func hasBooks(of *unstructured.Unstructured) bool {
	metadata, found := of.Object["metadata"]
	if !found {
		return true
	}
	members, ok := metadata.(map[string]any)
	if !ok {
		return false
	}
	books, found := members["managedFields"]
	if !found {
		return true
	}
	list, ok := books.([]any)
	if !ok {
		return false
	}
	for _, item := range list {
		book, ok := item.(map[string]any)
		if !ok || book["apiVersion"] != of.Object["apiVersion"] {
			return false
		}
		for name, value := range book {
			_, isText := value.(string)
			_, isObject := value.(map[string]any)
			switch name {
			case "manager", "operation", "apiVersion", "time", "fieldsType", "subresource":
				if !isText {
					return false
				}
			case "fieldsV1":
				if !isObject {
					return false
				}
			default:
				return false
			}
		}
	}
	return true
}
