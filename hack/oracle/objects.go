package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"oracle/pipe"
	"regexp"

	patch4 "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/jsonpath"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/kustomize/api/hasher"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"
)

// Exponents that the original spells out, digit by digit.
var endless = regexp.MustCompile(`[eE][+-]?0*[1-9]\d{3,}`)

func init() {
	pipe.Register("go.jsonpath", func(in struct {
		Template     string
		Data         any
		AllowMissing bool
	}) (any, error) {
		// Maps have no order in Go: an answer that depends on it is none.
		var first string
		for round := range 24 {
			path := jsonpath.New("oracle").AllowMissingKeys(in.AllowMissing)
			if err := path.Parse(in.Template); err != nil {
				return nil, err
			}
			var out bytes.Buffer
			if err := path.Execute(&out, in.Data); err != nil {
				return nil, err
			}
			if round > 0 && out.String() != first {
				return nil, errors.New("oracle: not the same every time")
			}
			first = out.String()
		}
		return object{"output": first}, nil
	})
	pipe.Register("go.schema_default", schemaDefault)
	pipe.Register("go.kustomize_hash", func(in struct{ Object json.RawMessage }) (any, error) {
		node, err := kyaml.Parse(string(in.Object))
		if err != nil {
			return nil, err
		}
		hash, err := (&hasher.Hasher{}).Hash(node)
		return object{"hash": hash}, err
	})
	pipe.Register("go.quantity", func(in struct {
		Text  string
		Other *string
	}) (any, error) {
		if endless.MatchString(in.Text) || in.Other != nil && endless.MatchString(*in.Other) {
			return nil, errors.New("oracle: would take for ever")
		}
		q, err := resource.ParseQuantity(in.Text)
		if err != nil {
			return nil, err
		}
		// "null where either is outside of ±9.2e18" (EVAL-762): the true amount decides, not what is left of it
		// when 64 bits wrap around.
		result := object{"canonical": q.String(), "value": q.Value(), "milli": q.MilliValue(), "cmp": nil}
		outside := func(bound int64) bool { return q.CmpInt64(bound) > 0 || q.CmpInt64(-bound) < 0 }
		if outside(9_200_000_000_000_000) {
			result["milli"] = nil
		}
		if outside(9_200_000_000_000_000_000) {
			result["value"] = nil
		}
		if in.Other != nil {
			other, err := resource.ParseQuantity(*in.Other)
			if err != nil {
				return nil, err
			}
			result["cmp"] = q.Cmp(other)
		}
		return result, nil
	})
	pipe.Register("go.selector", selects)
	pipe.Register("go.json_patch", func(in struct{ Document, Patch json.RawMessage }) (any, error) {
		patch, err := patch4.DecodePatch(in.Patch)
		if err != nil {
			return nil, err
		}
		document, err := patch.Apply(in.Document)
		return object{"document": json.RawMessage(document)}, err
	})
	pipe.Register("go.merge_patch", func(in struct {
		Mode                                string
		Document, Patch, Original, Modified json.RawMessage
	}) (any, error) {
		if in.Mode == "create" {
			patch, err := patch4.CreateMergePatch(in.Original, in.Modified)
			return object{"patch": json.RawMessage(patch)}, err
		}
		document, err := patch4.MergePatch(in.Document, in.Patch)
		return object{"document": json.RawMessage(document)}, err
	})
	pipe.Register("go.strategic", strategic)
	pipe.Register("go.number", func(in struct{ Text, From string }) (any, error) {
		if in.From == "yaml" {
			text, err := yaml.YAMLToJSON([]byte(in.Text))
			if err != nil {
				return nil, err
			}
			in.Text = string(text)
		}
		var plain, kubernetes any
		if err := json.Unmarshal([]byte(in.Text), &plain); err != nil {
			return nil, err
		}
		if err := utiljson.Unmarshal([]byte(in.Text), &kubernetes); err != nil {
			return nil, err
		}
		one, err := json.Marshal(plain)
		if err != nil {
			return nil, err
		}
		two, err := json.Marshal(kubernetes)
		return object{"json": string(one), "printed": fmt.Sprint(plain), "k8sJson": string(two), "k8sPrinted": fmt.Sprint(kubernetes)}, err
	})
}

func schemaDefault(in struct{ Schema, Object json.RawMessage }) (any, error) {
	var props apiextensionsv1.JSONSchemaProps
	// As API servers read it: names of members count as they are written.
	if err := kjson.UnmarshalCaseSensitivePreserveInts(in.Schema, &props); err != nil {
		return nil, err
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&props, &internal, nil); err != nil {
		return nil, err
	}
	s, err := structural.NewStructural(&internal)
	if err != nil {
		return nil, err
	}
	if errs := structural.ValidateStructural(nil, s); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	var value map[string]any
	if err := utiljson.Unmarshal(in.Object, &value); err != nil {
		return nil, err
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(value, s)
	defaulting.Default(value, s)
	pruning.Prune(value, s, true)
	return object{"object": value}, nil
}

func selects(in struct {
	Selector json.RawMessage
	Labels   map[string]string
}) (any, error) {
	var text string
	var selector labels.Selector
	var err error
	if json.Unmarshal(in.Selector, &text) == nil {
		selector, err = labels.Parse(text)
	} else {
		var given metav1.LabelSelector
		if err := kjson.UnmarshalCaseSensitivePreserveInts(in.Selector, &given); err != nil {
			return nil, err
		}
		selector, err = metav1.LabelSelectorAsSelector(&given)
	}
	if err != nil {
		return nil, err
	}
	return object{"canonical": selector.String(), "matches": selector.Matches(labels.Set(in.Labels))}, nil
}

func strategic(in struct {
	APIVersion, Kind, Mode             string
	Original, Modified, Current, Patch json.RawMessage
	Overwrite                          *bool
}) (any, error) {
	version, err := runtimeschema.ParseGroupVersion(in.APIVersion)
	if err != nil {
		return nil, err
	}
	value, err := clientscheme.Scheme.New(version.WithKind(in.Kind))
	if err != nil {
		return nil, err
	}
	switch in.Mode {
	case "create":
		patch, err := strategicpatch.CreateTwoWayMergePatch(in.Original, in.Modified, value)
		return object{"patch": json.RawMessage(patch)}, err
	case "apply":
		document, err := strategicpatch.StrategicMergePatch(in.Original, in.Patch, value)
		return object{"document": json.RawMessage(document)}, err
	case "three_way":
		meta, err := strategicpatch.NewPatchMetaFromStruct(value)
		if err != nil {
			return nil, err
		}
		overwrite := in.Overwrite == nil || *in.Overwrite
		patch, err := strategicpatch.CreateThreeWayMergePatch(in.Original, in.Modified, in.Current, meta, overwrite)
		if err != nil {
			return nil, err
		}
		document, err := strategicpatch.StrategicMergePatch(in.Current, patch, value)
		return object{"patch": json.RawMessage(patch), "document": json.RawMessage(document)}, err
	}
	return nil, errors.New("oracle: unknown mode " + in.Mode)
}
